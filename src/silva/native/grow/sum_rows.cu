// Sums of z z' by leaf: a block routes its rows to the leaves of one request, brings the rows of each leaf together in
// a stable order and sums them, leaf by leaf, in tiles of 8 x 8 entries that one tensor core operation adds four rows
// to. In it, a lane's part of the left factor and of the right one are the same number: z[row lane % 4][column lane /
// 4].
//
// Macro: COLUMN_BLOCKS, columns of z by eights.
#include "grow/route.h"

namespace silva {

constexpr int WARPS = kBlockThreads / 32, TILES = n_tiles(COLUMN_BLOCKS), STRIDE = 8 * COLUMN_BLOCKS;
constexpr int GROUPS = TILES <= 3 ? 1 : TILES <= 6 ? 2 : TILES <= 10 ? 4 : 8;  // of warps that share the tiles
constexpr int SPLITS = WARPS / GROUPS;                                         // warps of a group share the rows
constexpr int NO_SLOT = 255;
constexpr unsigned ALL = 0xffffffffu;

SILVA_INLINE constexpr int first_tile(int group) { return group * TILES / GROUPS; }
constexpr int MOST_TILES = (TILES + GROUPS - 1) / GROUPS;

struct Block {
  SumRequest request;
  int64_t first;  // position
  int n_positions;
  int counts[WARPS][kMostSlots];
  int starts[kMostSlots + 1];
  RouteInterval intervals[24];
  RouteNode nodes[kMostNodes];
};

// C += A B, where both A' and B hold the rows of z: c are entries (lane / 4, 2 (lane % 4)) and the next of the tile.
__device__ __forceinline__ void multiply_add(double (&c)[2], double a, double b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(c[0]), "+d"(c[1])
               : "d"(a), "d"(b));
#else
  const int lane = threadIdx.x % 32;
  SILVA_NO_UNROLL
  for (int k = 0; k < 4; ++k) {
    const double left = __shfl_sync(ALL, a, (lane & ~3) + k);
    const double right0 = __shfl_sync(ALL, b, lane % 4 * 8 + k), right1 = __shfl_sync(ALL, b, lane % 4 * 8 + 4 + k);
    c[0] += left * right0;
    c[1] += left * right1;
  }
#endif
}

__device__ __forceinline__ void load_request(Block& block, const SumRequest* requests, int n_requests,
                                             const RouteInterval* intervals, const RouteNode* nodes,
                                             int rows_per_block) {
  if (threadIdx.x == 0) {
    const SumRequest request = requests[request_of(requests, n_requests, &SumRequest::first_block, blockIdx.x)];
    block.request = request;
    block.first = int64_t(blockIdx.x - request.first_block) * rows_per_block;
    const int64_t left = request.source.count - block.first;
    block.n_positions = int(left < rows_per_block ? left : rows_per_block);
  }
  __syncthreads();
  const SumRequest& request = block.request;
  for (int i = threadIdx.x; i < request.n_intervals; i += kBlockThreads)
    block.intervals[i] = intervals[request.first_interval + i];
  for (int i = threadIdx.x; i < request.n_nodes; i += kBlockThreads) block.nodes[i] = nodes[request.first_node + i];
  for (int i = threadIdx.x; i < WARPS * kMostSlots; i += kBlockThreads)
    block.counts[i / kMostSlots][i % kMostSlots] = 0;
  __syncthreads();
}

// Slots of the block's rows, and how many rows of each a warp has met.
__device__ __forceinline__ void route_rows(Block& block, const GpuRows& rows, unsigned char* slots, int per_warp) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = lane; i < per_warp; i += 32) {
    const int local = warp * per_warp + i;
    int slot = -1;
    if (local < block.n_positions) {
      const int64_t row = row_at(block.request.source, block.first + local);
      if (is_inside(rows, block.intervals, block.request.n_intervals, row)) slot = slot_of(rows, block.nodes, row);
    }
    slots[local] = (unsigned char)(slot < 0 ? NO_SLOT : slot);
    const unsigned same = __match_any_sync(ALL, slot);
    if (slot >= 0 && lane == __ffs(same) - 1) block.counts[warp][slot] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
}

// Counts become the places where each warp's rows of a slot begin.
__device__ __forceinline__ void place_slots(Block& block) {
  const int n_slots = block.request.n_slots;
  for (int slot = threadIdx.x; slot < n_slots; slot += kBlockThreads) {
    int total = 0;
    for (int warp = 0; warp < WARPS; ++warp) {
      const int count = block.counts[warp][slot];
      block.counts[warp][slot] = total;
      total += count;
    }
    block.starts[slot + 1] = total;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    block.starts[0] = 0;
    for (int slot = 0; slot < n_slots; ++slot) block.starts[slot + 1] += block.starts[slot];
  }
  __syncthreads();
}

__device__ __forceinline__ void list_rows(Block& block, const unsigned char* slots, unsigned short* list,
                                          int per_warp) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = lane; i < per_warp; i += 32) {
    const int local = warp * per_warp + i, slot = slots[local];
    const unsigned same = __match_any_sync(ALL, slot), before = same & ((1u << lane) - 1);
    if (slot != NO_SLOT) list[block.starts[slot] + block.counts[warp][slot] + __popc(before)] = (unsigned short)local;
    __syncwarp();
    if (slot != NO_SLOT && before == 0) block.counts[warp][slot] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
}

template <int GROUP>
SILVA_INLINE constexpr bool uses(int column_block) {
  for (int tile = first_tile(GROUP); tile < first_tile(GROUP + 1); ++tile)
    if (tile_row(tile, COLUMN_BLOCKS) == column_block || tile_column(tile, COLUMN_BLOCKS) == column_block) return true;
  return false;
}

template <int GROUP, int COLUMN_BLOCK = 0>
__device__ __forceinline__ void load_columns(const double* row, double (&v)[COLUMN_BLOCKS]) {
  if constexpr (uses<GROUP>(COLUMN_BLOCK)) v[COLUMN_BLOCK] = row ? row[8 * COLUMN_BLOCK] : 0;
  if constexpr (COLUMN_BLOCK + 1 < COLUMN_BLOCKS) load_columns<GROUP, COLUMN_BLOCK + 1>(row, v);
}

template <int GROUP, int TILE = first_tile(GROUP)>
__device__ __forceinline__ void add_tiles(const double (&v)[COLUMN_BLOCKS], double (&sums)[MOST_TILES][2]) {
  multiply_add(sums[TILE - first_tile(GROUP)], v[tile_row(TILE, COLUMN_BLOCKS)], v[tile_column(TILE, COLUMN_BLOCKS)]);
  if constexpr (TILE + 1 < first_tile(GROUP + 1)) add_tiles<GROUP, TILE + 1>(v, sums);
}

// This warp's tiles of the rows listed from `first` to `last`, written in the tiles' order.
template <int GROUP>
__device__ __forceinline__ void sum_tiles(const Block& block, const GpuRows& rows, const unsigned short* list,
                                          int first, int last, int split, double* out) {
  const int lane = threadIdx.x % 32;
  double sums[MOST_TILES][2] = {};
#pragma unroll 2
  for (int i = first + 4 * split; i < last; i += 4 * SPLITS) {
    const int at = i + lane % 4;
    const double* row = nullptr;
    if (at < last) row = rows.z + row_at(block.request.source, block.first + list[at]) * STRIDE + lane / 4;
    double v[COLUMN_BLOCKS];
    load_columns<GROUP>(row, v);
    add_tiles<GROUP>(v, sums);
  }
#pragma unroll
  for (int tile = 0; tile < first_tile(GROUP + 1) - first_tile(GROUP); ++tile) {
    double* entry = out + (first_tile(GROUP) + tile) * 64 + lane / 4 * 8 + lane % 4 * 2;
    entry[0] = sums[tile][0];
    entry[1] = sums[tile][1];
  }
}

template <int GROUP = 0>
__device__ __forceinline__ void sum_group(int group, const Block& block, const GpuRows& rows,
                                          const unsigned short* list, int first, int last, int split, double* out) {
  if (group == GROUP)
    sum_tiles<GROUP>(block, rows, list, first, last, split, out);
  else if constexpr (GROUP + 1 < GROUPS)
    sum_group<GROUP + 1>(group, block, rows, list, first, last, split, out);
}

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    grow_sum_rows_kernel(GpuRows rows, const SumRequest* __restrict__ requests, int n_requests,
                         const RouteInterval* __restrict__ intervals, const RouteNode* __restrict__ nodes,
                         int rows_per_block, int* __restrict__ part_counts, double* __restrict__ parts) {
  __shared__ unsigned short list[kMostRows];
  __shared__ unsigned char slots[kMostRows];
  __shared__ Block block;
  __shared__ double split_sums[SPLITS > 1 ? SPLITS : 1][SPLITS > 1 ? TILES * 64 : 1];
  const int per_warp = rows_per_block / WARPS, warp = threadIdx.x / 32;
  load_request(block, requests, n_requests, intervals, nodes, rows_per_block);
  route_rows(block, rows, slots, per_warp);
  place_slots(block);
  list_rows(block, slots, list, per_warp);
  const int n_slots = block.request.n_slots;
  const int64_t first_part = block.request.first_part + int64_t(blockIdx.x - block.request.first_block) * n_slots;
  for (int slot = 0; slot < n_slots; ++slot) {
    const int first = block.starts[slot], last = block.starts[slot + 1];
    if (threadIdx.x == 0) part_counts[first_part + slot] = last - first;
    if (first == last) continue;
    double* part = parts + (first_part + slot) * (TILES * 64);
    double* out = SPLITS > 1 ? split_sums[warp / GROUPS] : part;
    sum_group(warp % GROUPS, block, rows, list, first, last, warp / GROUPS, out);
    if (SPLITS == 1) continue;
    __syncthreads();
    for (int e = threadIdx.x; e < TILES * 64; e += kBlockThreads) {
      double sum = split_sums[0][e];
      for (int split = 1; split < SPLITS; ++split) sum += split_sums[split][e];
      part[e] = sum;
    }
    __syncthreads();
  }
}

}  // namespace silva
