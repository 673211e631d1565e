// Sums of z z' by leaf: a block routes its rows to the leaves of one request, brings the rows of each leaf together in
// a stable order and sums them, leaf by leaf, in tiles of 8 x 8 entries that one tensor core operation adds four rows
// to. In it, a lane's part of the left factor and of the right one are the same number: z[row lane % 4][column lane /
// 4]. Rows of four columns go two at a time, the second one as columns 4 to 7, and the two halves of the diagonal are
// added at the end.
//
// Macros: STRIDE, columns of z: 4, or a multiple of 8; STORED, type of its numbers, which are multiplied and summed as
// doubles.
#include "grow/route.h"

namespace silva {

constexpr int COLUMN_BLOCKS = (STRIDE + 7) / 8, WARPS = kBlockThreads / 32, TILES = n_tiles(COLUMN_BLOCKS);
constexpr int STEP = STRIDE == 4 ? 8 : 4;  // rows of one operation
// Operations whose rows are loaded together.
constexpr int STEPS = TILES == 1 ? 8 : TILES == 3 ? 4 : COLUMN_BLOCKS <= 12 ? 2 : 1;
constexpr int ROUTED = 4;                                                     // rows that a thread routes together
constexpr int GROUPS = TILES <= 1 ? 1 : TILES <= 3 ? 2 : TILES <= 6 ? 4 : 8;  // of warps that share the tiles
constexpr int SPLITS = WARPS / GROUPS;                                        // warps of a group share the rows
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
  RouteInterval intervals[kMostIntervals];
  RouteNode nodes[kMostNodes];
};

// Slots of rows while they are sorted, then sums of the slots at which a warp's share of the rows begins and ends.
union Scratch {
  unsigned char slots[kMostRows];
  double pieces[SPLITS][2][SPLITS > 1 ? TILES * 64 : 1];
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

// Slots of the block's rows, and how many rows of each a warp has met. A thread's loads of several rows are under way
// together.
__device__ __forceinline__ void route_rows(Block& block, const GpuRows& rows, unsigned char* slots, int per_warp) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < per_warp; i += 32 * ROUTED) {
    int64_t row[ROUTED];
    int slot[ROUTED];
    bool inside[ROUTED];
#pragma unroll
    for (int k = 0; k < ROUTED; ++k) {
      const int local = warp * per_warp + i + 32 * k + lane;
      inside[k] = i + 32 * k < per_warp && local < block.n_positions;
      row[k] = row_at(block.request.source, block.first + (inside[k] ? local : 0));
    }
    find_slots<ROUTED>(rows, block.intervals, block.request.n_intervals, block.nodes, row, inside, slot);
#pragma unroll
    for (int k = 0; k < ROUTED; ++k) {
      if (i + 32 * k >= per_warp) break;
      slots[warp * per_warp + i + 32 * k + lane] = (unsigned char)(slot[k] < 0 ? NO_SLOT : slot[k]);
      const unsigned same = __match_any_sync(ALL, slot[k]);
      if (slot[k] >= 0 && lane == __ffs(same) - 1) block.counts[warp][slot[k]] += __popc(same);
      __syncwarp();
    }
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
__device__ __forceinline__ void load_columns(const STORED* row, STORED (&v)[COLUMN_BLOCKS]) {
  if constexpr (uses<GROUP>(COLUMN_BLOCK)) v[COLUMN_BLOCK] = row ? row[8 * COLUMN_BLOCK] : 0;
  if constexpr (COLUMN_BLOCK + 1 < COLUMN_BLOCKS) load_columns<GROUP, COLUMN_BLOCK + 1>(row, v);
}

template <int GROUP, int TILE = first_tile(GROUP)>
__device__ __forceinline__ void add_tiles(const STORED (&v)[COLUMN_BLOCKS], double (&sums)[MOST_TILES][2]) {
  multiply_add(sums[TILE - first_tile(GROUP)], v[tile_row(TILE, COLUMN_BLOCKS)], v[tile_column(TILE, COLUMN_BLOCKS)]);
  if constexpr (TILE + 1 < first_tile(GROUP + 1)) add_tiles<GROUP, TILE + 1>(v, sums);
}

// This lane's columns of its row among those listed from `at` on.
__device__ __forceinline__ const STORED* row_of(const Block& block, const GpuRows& rows, const unsigned short* list,
                                                int at, int last) {
  const int lane = threadIdx.x % 32, mine = at + lane % 4 + (STEP == 8 ? lane / 16 * 4 : 0);
  const int column = STEP == 8 ? lane / 4 % 4 : lane / 4;
  if (mine >= last) return nullptr;
  return static_cast<const STORED*>(rows.z) + row_at(block.request.source, block.first + list[mine]) * STRIDE + column;
}

// This warp's tiles of the rows listed from `first` to `last`, written in the tiles' order.
template <int GROUP>
__device__ __forceinline__ void sum_tiles(const Block& block, const GpuRows& rows, const unsigned short* list,
                                          int first, int last, double* out) {
  const int lane = threadIdx.x % 32;
  double sums[MOST_TILES][2] = {};
  for (int i = first; i < last; i += STEP * STEPS) {
    STORED v[STEPS][COLUMN_BLOCKS];
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
      load_columns<GROUP>(row_of(block, rows, list, i + STEP * step, last), v[step]);
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
      if (i + STEP * step < last) add_tiles<GROUP>(v[step], sums);
  }
#pragma unroll
  for (int tile = 0; tile < first_tile(GROUP + 1) - first_tile(GROUP); ++tile) {
    if (STEP == 8) {  // entries (4 + a, 4 + b) stand 18 lanes behind entries (a, b)
      sums[tile][0] += __shfl_sync(ALL, sums[tile][0], lane + 18);
      sums[tile][1] += __shfl_sync(ALL, sums[tile][1], lane + 18);
    }
    double* entry = out + (first_tile(GROUP) + tile) * 64 + lane / 4 * 8 + lane % 4 * 2;
    entry[0] = sums[tile][0];
    entry[1] = sums[tile][1];
  }
}

template <int GROUP = 0>
__device__ __forceinline__ void sum_group(int group, const Block& block, const GpuRows& rows,
                                          const unsigned short* list, int first, int last, double* out) {
  if (group == GROUP)
    sum_tiles<GROUP>(block, rows, list, first, last, out);
  else if constexpr (GROUP + 1 < GROUPS)
    sum_group<GROUP + 1>(group, block, rows, list, first, last, out);
}

// Where the share of a split begins in the list.
SILVA_INLINE int first_of_split(int split, int n_listed) { return int(int64_t(n_listed) * split / SPLITS); }

// Sums the rows that fall to this warp, slot by slot. What other warps share goes to `pieces`: slots that began before
// the warp's first row, and slots that go on behind its last.
__device__ __forceinline__ void sum_share(const Block& block, const GpuRows& rows, const unsigned short* list,
                                          double* parts, Scratch& scratch) {
  const int split = threadIdx.x / 32 / GROUPS, n_slots = block.request.n_slots, n_listed = block.starts[n_slots];
  const int begin = first_of_split(split, n_listed), end = first_of_split(split + 1, n_listed);
  int slot = 0;
  for (int step = 64; step; step /= 2)
    if (slot + step < n_slots && block.starts[slot + step] <= begin) slot += step;
  for (; slot < n_slots && block.starts[slot] < end; ++slot) {
    const int from = block.starts[slot], to = block.starts[slot + 1];
    const int first = from < begin ? begin : from, last = to < end ? to : end;
    if (first >= last) continue;
    double* out = parts + slot * (TILES * 64);
    if (SPLITS > 1 && (from < begin || to > end)) out = scratch.pieces[split][from < begin ? 0 : 1];
    sum_group(threadIdx.x / 32 % GROUPS, block, rows, list, first, last, out);
  }
}

// Slots that several warps have summed, in the order of the rows.
__device__ __forceinline__ void join_pieces(const Block& block, double* parts, const Scratch& scratch) {
  const int n_listed = block.starts[block.request.n_slots];
  for (int split = 0; split + 1 < SPLITS; ++split) {
    const int begin = first_of_split(split, n_listed), end = first_of_split(split + 1, n_listed);
    if (begin == end) continue;
    int slot = 0;
    for (int step = 64; step; step /= 2)
      if (slot + step < block.request.n_slots && block.starts[slot + step] < end) slot += step;
    const int from = block.starts[slot], to = block.starts[slot + 1];
    if (from < begin || to <= end) continue;  // not the slot's first piece, or its only one
    for (int e = threadIdx.x; e < TILES * 64; e += kBlockThreads) {
      double sum = scratch.pieces[split][1][e];
      for (int other = split + 1; other < SPLITS && first_of_split(other, n_listed) < to; ++other)
        if (first_of_split(other, n_listed) < first_of_split(other + 1, n_listed)) sum += scratch.pieces[other][0][e];
      parts[slot * (TILES * 64) + e] = sum;
    }
  }
}

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    grow_sum_rows_kernel(GpuRows rows, const SumRequest* __restrict__ requests, int n_requests,
                         const RouteInterval* __restrict__ intervals, const RouteNode* __restrict__ nodes,
                         int rows_per_block, int* __restrict__ part_counts, double* __restrict__ parts) {
  __shared__ unsigned short list[kMostRows];
  __shared__ Scratch scratch;
  __shared__ Block block;
  const int per_warp = rows_per_block / WARPS;
  load_request(block, requests, n_requests, intervals, nodes, rows_per_block);
  route_rows(block, rows, scratch.slots, per_warp);
  place_slots(block);
  list_rows(block, scratch.slots, list, per_warp);
  const int n_slots = block.request.n_slots;
  const int64_t first_part = block.request.first_part + int64_t(blockIdx.x - block.request.first_block) * n_slots;
  for (int slot = threadIdx.x; slot < n_slots; slot += kBlockThreads)
    part_counts[first_part + slot] = block.starts[slot + 1] - block.starts[slot];
  sum_share(block, rows, list, parts + first_part * (TILES * 64), scratch);
  if (SPLITS == 1) return;
  __syncthreads();
  join_pieces(block, parts + first_part * (TILES * 64), scratch);
}

}  // namespace silva
