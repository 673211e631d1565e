// Procedures 4 and 5 of Spencer (2011): the lanes of a record group test all splits of a tree at once, then reduce the
// path through it. The leaves' own paths are written once a tree; lane l is the processor of the splits l, l + LANES,
// ... of the processor-node map and keeps them in registers while rows pass. A group lies within a warp, which runs in
// step: the barriers are those of the warp.
//
// Macros: CODE, LANES (of a record group, at most 32), SPLITS_PER_LANE, REDUCTIONS (a pass, one per look at the root).
#include "evaluate/cuda/ranked_node.cuh"

using Code = CODE;

namespace glasswood {

constexpr int N_THREADS = 256, N_GROUPS = N_THREADS / LANES, MOST_NODES = 2 * LANES * SPLITS_PER_LANE + 1;
constexpr unsigned ALL = 0xffffffffu;

// The splits of one lane in the tree at hand; a lane without one repeats a split of its group.
struct Splits {
  int at[SPLITS_PER_LANE], column[SPLITS_PER_LANE], rank[SPLITS_PER_LANE], left[SPLITS_PER_LANE];

  __device__ __forceinline__ void read(const RankedNode* nodes, int root, const int* map, int n_splits) {
#pragma unroll
    for (int k = 0; k < SPLITS_PER_LANE; ++k) {
      const int processor = threadIdx.x % LANES + k * LANES;
      at[k] = map[processor < n_splits ? processor : 0];
      const RankedNode node = read_node(nodes, root + at[k]);
      column[k] = node.column, rank[k] = node.rank, left[k] = node.left - root;
    }
  }
};

__device__ __forceinline__ short reduce_path(const Splits& splits, short* path, const int* leaf_of, const Code* codes,
                                             long long stride) {
#pragma unroll
  for (int k = 0; k < SPLITS_PER_LANE; ++k)
    path[splits.at[k]] = short(splits.left[k] + (codes[splits.column[k] * stride] >= splits.rank[k]));
  __syncwarp();
  while (__any_sync(ALL, leaf_of[path[0]] < 0)) {
    short next[SPLITS_PER_LANE];
#pragma unroll
    for (int k = 0; k < SPLITS_PER_LANE; ++k) {
      next[k] = path[splits.at[k]];
#pragma unroll
      for (int r = 0; r < REDUCTIONS; ++r) next[k] = path[next[k]];
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < SPLITS_PER_LANE; ++k) path[splits.at[k]] = next[k];
    __syncwarp();
  }
  return path[0];
}

}  // namespace glasswood

// `roots` ends with the number of nodes; `map` lists the splits of all trees, tree t from map_starts[t] on.
extern "C" __global__ void __launch_bounds__(glasswood::N_THREADS, 3)
    test_nodes_kernel(const glasswood::RankedNode* __restrict__ nodes, const int* __restrict__ roots,
                      const int* __restrict__ map, const int* __restrict__ map_starts, int n_trees, int trees_per_block,
                      int rows_per_block, const Code* __restrict__ codes, int n_rows, long long stride,
                      int* __restrict__ leaves) {
  using namespace glasswood;
  __shared__ short paths[N_GROUPS][MOST_NODES];
  __shared__ int leaf_of[MOST_NODES];
  const int first = blockIdx.y * trees_per_block, end = min(n_trees, first + trees_per_block);
  const int first_row = blockIdx.x * rows_per_block, end_row = min(n_rows, first_row + rows_per_block);
  const int group = threadIdx.x / LANES;
  for (int tree = first; tree < end; ++tree) {
    const int root = roots[tree], n_nodes = roots[tree + 1] - root, n_splits = map_starts[tree + 1] - map_starts[tree];
    __syncthreads();
    for (int i = threadIdx.x; i < n_nodes; i += N_THREADS) {
      const RankedNode node = read_node(nodes, root + i);
      leaf_of[i] = node.left ? -1 : node.leaf;
    }
    for (int i = threadIdx.x; i < n_nodes * N_GROUPS; i += N_THREADS)
      paths[i % N_GROUPS][i / N_GROUPS] = short(i / N_GROUPS);
    __syncthreads();
    if (n_splits == 0) {
      for (int row = first_row + threadIdx.x; row < end_row; row += N_THREADS) leaves[tree * stride + row] = leaf_of[0];
      continue;
    }
    Splits splits;
    splits.read(nodes, root, map + map_starts[tree], n_splits);
    for (int base = first_row; base < end_row; base += N_GROUPS) {
      const int row = min(base + group, n_rows - 1);
      const short reached = reduce_path(splits, paths[group], leaf_of, codes + row, stride);
      if (threadIdx.x % LANES == 0 && base + group < end_row) leaves[tree * stride + row] = leaf_of[reached];
      __syncwarp();
    }
  }
}
