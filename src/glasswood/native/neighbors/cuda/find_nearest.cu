// The training rows that share the most leaves with each row: a block compares 64 rows with tiles of 64 training rows,
// all trees, and keeps the largest keys (share, then the first row) of each in shared memory. Several blocks take parts
// of the training rows; the host merges their lists.
#include "neighbors/keys.h"

namespace glasswood {

constexpr int TILE = 64, TREES = 32, EACH = 4, THREADS = (TILE / EACH) * (TILE / EACH), STRIDE = TILE + EACH;
constexpr int WARPS = THREADS / 32;
constexpr unsigned ALL = 0xffffffffu;

// Leaves of 64 rows in 32 trees, [tree][row]; rows and trees beyond the last are `none`, which equals no leaf.
__device__ __forceinline__ void load_leaves(const int* __restrict__ leaves, long long first, long long n_rows, int tree,
                                            int n_trees, int none, int* tile) {
  const int row = threadIdx.x / EACH, of_row = threadIdx.x % EACH;
  for (int at = of_row; at < TREES; at += EACH) {
    const bool there = first + row < n_rows && tree + at < n_trees;
    tile[at * STRIDE + row] = there ? leaves[(first + row) * n_trees + tree + at] : none;
  }
}

// The shares of a query with a tile: larger keys than the last go into its list, in the order of the rows.
__device__ __forceinline__ void keep(const int* shares, long long row, int n_nearest, uint64_t* keys) {
  const int lane = threadIdx.x % 32;
  for (int half = 0; half < TILE; half += 32) {
    const int share = shares[half + lane];
    const uint64_t key = share ? key_of(unsigned(share), row + half + lane) : 0;
    for (unsigned wanted = __ballot_sync(ALL, key > keys[n_nearest - 1]); wanted; wanted &= wanted - 1) {
      const uint64_t next = __shfl_sync(ALL, key, __ffs(int(wanted)) - 1);
      if (lane == 0) insert(keys, n_nearest, next);
      __syncwarp();
    }
  }
}

}  // namespace glasswood

// queries, rows: leaves [row][tree]; weight: [tree]; own: query i is training row first_own + i, which is left out,
// below 0 none is; nearest: [part][query][n_nearest], falling, 0 where there are fewer. Shared: the lists of 64
// queries.
extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    find_nearest_kernel(const int* __restrict__ queries, long long n_queries, const int* __restrict__ rows,
                        long long n_rows, int n_trees, const int* __restrict__ weight, long long first_own,
                        int part_tiles, int n_nearest, uint64_t* __restrict__ nearest) {
  using namespace glasswood;
  extern __shared__ uint64_t lists[];
  __shared__ int mine[TREES * STRIDE], others[TREES * STRIDE], weights[TREES], shares[TILE * (TILE + 1)];
  const long long first = blockIdx.x * (long long)TILE;
  const int left = threadIdx.x % (TILE / EACH) * EACH, down = threadIdx.x / (TILE / EACH) * EACH;
  for (int i = threadIdx.x; i < TILE * n_nearest; i += THREADS) lists[i] = 0;
  const long long n_tiles = (n_rows + TILE - 1) / TILE, begin = blockIdx.y * (long long)part_tiles;
  const long long end = begin + part_tiles < n_tiles ? begin + part_tiles : n_tiles;
  for (long long tile = begin; tile < end; ++tile) {
    const long long row = tile * TILE;
    int sum[EACH][EACH] = {};
    for (int tree = 0; tree < n_trees; tree += TREES) {
      __syncthreads();
      load_leaves(queries, first, n_queries, tree, n_trees, -1, mine);
      load_leaves(rows, row, n_rows, tree, n_trees, -2, others);
      if (threadIdx.x < TREES)
        weights[threadIdx.x] = tree + int(threadIdx.x) < n_trees ? weight[tree + threadIdx.x] : 0;
      __syncthreads();
#pragma unroll 4
      for (int at = 0; at < TREES; ++at) {
        int a[EACH], b[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) a[i] = mine[at * STRIDE + down + i], b[i] = others[at * STRIDE + left + i];
        const int one = weights[at];
#pragma unroll
        for (int i = 0; i < EACH; ++i)
#pragma unroll
          for (int j = 0; j < EACH; ++j)
            if (a[i] == b[j]) sum[i][j] += one;
      }
    }
    for (int i = 0; i < EACH; ++i)
      for (int j = 0; j < EACH; ++j) {
        const bool is_own = first_own >= 0 && first_own + first + down + i == row + left + j;
        shares[(down + i) * (TILE + 1) + left + j] = is_own ? 0 : sum[i][j];
      }
    __syncthreads();
    for (int query = threadIdx.x / 32; query < TILE; query += WARPS)
      keep(shares + query * (TILE + 1), row, n_nearest, lists + query * n_nearest);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < TILE * n_nearest; i += THREADS)
    if (first + i / n_nearest < n_queries) nearest[(blockIdx.y * n_queries + first) * n_nearest + i] = lists[i];
}
