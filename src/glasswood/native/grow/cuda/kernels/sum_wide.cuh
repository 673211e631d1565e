// Sums of rows in tiles of 8 x 8 entries: a block brings its rows of each slot together in a stable order; a warp takes
// an even strand of them, slot by slot, and adds four rows at a time to two tiles by one tensor core operation. In it a
// lane's parts of both factors are the same numbers: z[row lane % 4][column lane / 4 of each block of eight]. Where
// all tiles do not fit a warp's registers, two or four warps share the tiles of the same rows.
//
// A strand writes the sums of every slot that it meets as a piece of its own. Strands follow one another in the order
// of the slots, so the piece of slot s in strand k can stand at s + k.
#pragma once
#include "grow/cuda/kernels/sum_block.cuh"

namespace glasswood {

constexpr int COLUMN_BLOCKS = STRIDE / 8, PARTIAL = n_tiles(COLUMN_BLOCKS) * 64;
constexpr int STRANDS = sum_strands(STRIDE), GROUPS = WARPS / STRANDS;  // strands; warps that share the tiles of one
constexpr int PAIRS = n_tile_pairs(COLUMN_BLOCKS), MOST_PAIRS = (PAIRS + GROUPS - 1) / GROUPS;
// Operations whose rows are loaded together.
constexpr int STEPS = COLUMN_BLOCKS <= 1 ? 8 : COLUMN_BLOCKS <= 2 ? 4 : COLUMN_BLOCKS <= 4 ? 2 : 1;

struct Shared {
  Block block;
  unsigned char slots[kMostRows];
  unsigned short list[kMostRows];
  int counts[WARPS][kMostSlots];
  int starts[kMostSlots + 1];
};

GLASSWOOD_INLINE constexpr int first_pair(int group) { return group * PAIRS / GROUPS; }

// Pairs of tiles one below the other, from the diagonal on: the rows of pair 0 are tile rows 0 and 1.
GLASSWOOD_INLINE constexpr int upper_row(int pair) {
  int row = 0;
  while (pair >= COLUMN_BLOCKS - row) pair -= COLUMN_BLOCKS - row, row += 2;
  return row;
}
GLASSWOOD_INLINE constexpr int pair_column(int pair) {
  int row = 0;
  while (pair >= COLUMN_BLOCKS - row) pair -= COLUMN_BLOCKS - row, row += 2;
  return row + pair;
}

// C += A B, where A' and B hold columns of the same four rows of z; c are entries (lane / 4, 2 (lane % 4)) and the next
// of the upper tile, and the same of the lower one.
__device__ __forceinline__ void multiply_add(double (&c)[4], double upper, double lower, double right) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(upper), "d"(lower), "d"(right));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c[0]), "+d"(c[1])
      : "d"(upper), "d"(right));
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c[2]), "+d"(c[3])
      : "d"(lower), "d"(right));
#else
  const int lane = threadIdx.x % 32;
  GLASSWOOD_NO_UNROLL
  for (int k = 0; k < 4; ++k) {
    const double a = __shfl_sync(ALL, upper, (lane & ~3) + k), b = __shfl_sync(ALL, lower, (lane & ~3) + k);
    const double right0 = __shfl_sync(ALL, right, lane % 4 * 8 + k);
    const double right1 = __shfl_sync(ALL, right, lane % 4 * 8 + 4 + k);
    c[0] += a * right0;
    c[1] += a * right1;
    c[2] += b * right0;
    c[3] += b * right1;
  }
#endif
}

// Slots of the block's rows, NO_SLOT for those that nobody asks for, and how many rows of each slot a warp has met. A
// warp routes `per_warp` rows one behind the other; a thread's loads of several rows are under way together.
__device__ __forceinline__ void route_rows(Shared& shared, const GpuRows& rows, int per_warp) {
  const Block& block = shared.block;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * per_warp + lane;
  for (int i = 0; i < per_warp; i += 32 * ROUTED) {
    int32_t row[ROUTED];
    int slot[ROUTED];
    bool inside[ROUTED];
#pragma unroll
    for (int k = 0; k < ROUTED; ++k) {
      const int local = first + i + 32 * k;
      inside[k] = i + 32 * k < per_warp && local < block.n_positions;
      row[k] = int32_t(row_of(block, inside[k] ? local : 0));
    }
    find_slots<ROUTED>(rows, block.intervals, block.record.n_intervals, block.nodes, 0, is_scan(block.record.source),
                       row, inside, slot);
#pragma unroll
    for (int k = 0; k < ROUTED; ++k) {
      if (i + 32 * k >= per_warp) break;
      const int found = slot[k] < 0 ? NO_SLOT : slot[k];
      shared.slots[first + i + 32 * k] = (unsigned char)found;
      const unsigned same = __match_any_sync(ALL, found);
      if (found != NO_SLOT && lane == __ffs(same) - 1) shared.counts[warp][found] += __popc(same);
      __syncwarp();
    }
  }
  __syncthreads();
}

// Counts become the places where each warp's rows of a slot begin.
__device__ __forceinline__ void place_slots(Shared& shared) {
  const int n_slots = shared.block.record.n_slots;
  for (int slot = threadIdx.x; slot < n_slots; slot += THREADS) {
    int total = 0;
    for (int warp = 0; warp < WARPS; ++warp) {
      const int count = shared.counts[warp][slot];
      shared.counts[warp][slot] = total;
      total += count;
    }
    shared.starts[slot + 1] = total;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.starts[0] = 0;
    for (int slot = 0; slot < n_slots; ++slot) shared.starts[slot + 1] += shared.starts[slot];
  }
  __syncthreads();
}

__device__ __forceinline__ void list_rows(Shared& shared, int per_warp) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = lane; i < per_warp; i += 32) {
    const int local = warp * per_warp + i, slot = shared.slots[local];
    const unsigned same = __match_any_sync(ALL, slot), before = same & ((1u << lane) - 1);
    if (slot != NO_SLOT)
      shared.list[shared.starts[slot] + shared.counts[warp][slot] + __popc(before)] = (unsigned short)local;
    __syncwarp();
    if (slot != NO_SLOT && before == 0) shared.counts[warp][slot] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
}

template <int GROUP>
GLASSWOOD_INLINE constexpr bool uses(int column_block) {
  for (int pair = first_pair(GROUP); pair < first_pair(GROUP + 1); ++pair)
    if (upper_row(pair) / 2 == column_block / 2 || pair_column(pair) == column_block) return true;
  return false;
}

template <int GROUP, int COLUMN_BLOCK = 0>
__device__ __forceinline__ void load_columns(const STORED* row, STORED (&v)[COLUMN_BLOCKS + 1]) {
  if constexpr (uses<GROUP>(COLUMN_BLOCK)) v[COLUMN_BLOCK] = row ? row[8 * COLUMN_BLOCK] : 0;
  if constexpr (COLUMN_BLOCK + 1 < COLUMN_BLOCKS) load_columns<GROUP, COLUMN_BLOCK + 1>(row, v);
}

template <int GROUP, int PAIR = first_pair(GROUP)>
__device__ __forceinline__ void add_tiles(const STORED (&v)[COLUMN_BLOCKS + 1], double (&sums)[MOST_PAIRS][4]) {
  constexpr int row = upper_row(PAIR);
  multiply_add(sums[PAIR - first_pair(GROUP)], v[row], v[row + 1], v[pair_column(PAIR)]);
  if constexpr (PAIR + 1 < first_pair(GROUP + 1)) add_tiles<GROUP, PAIR + 1>(v, sums);
}

template <int GROUP, int PAIR = first_pair(GROUP)>
__device__ __forceinline__ void write_tiles(const double (&sums)[MOST_PAIRS][4], double* partial) {
  constexpr int row = upper_row(PAIR), column = pair_column(PAIR);
  const int lane = threadIdx.x % 32;
  const auto& c = sums[PAIR - first_pair(GROUP)];
  double* upper = partial + tile_entry(8 * row, 8 * column, COLUMN_BLOCKS) + 2 * lane;
  upper[0] = c[0], upper[1] = c[1];
  if constexpr (row + 1 <= column) {
    double* lower = partial + tile_entry(8 * row + 8, 8 * column, COLUMN_BLOCKS) + 2 * lane;
    lower[0] = c[2], lower[1] = c[3];
  }
  if constexpr (PAIR + 1 < first_pair(GROUP + 1)) write_tiles<GROUP, PAIR + 1>(sums, partial);
}

// This lane's columns of its rows, of those listed from `at` on.
__device__ __forceinline__ void find_rows(const Shared& shared, const GpuRows& rows, int at, int last,
                                          const STORED* (&found)[STEPS]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    const int mine = at + 4 * step + lane % 4;
    found[step] = mine < last
                      ? static_cast<const STORED*>(rows.z) + row_of(shared.block, shared.list[mine]) * STRIDE + lane / 4
                      : nullptr;
  }
}

// This warp's tiles of the rows listed from `first` to `last`. While rows are added the columns of the next ones are
// under way, and the numbers of those behind them.
template <int GROUP>
__device__ __forceinline__ void sum_tiles(const Shared& shared, const GpuRows& rows, int first, int last,
                                          double* partial) {
  constexpr int STRIP = 4 * STEPS;
  double sums[MOST_PAIRS][4] = {};
  STORED now[STEPS][COLUMN_BLOCKS + 1] = {}, next[STEPS][COLUMN_BLOCKS + 1] = {};
  const STORED* row[STEPS];
  find_rows(shared, rows, first, last, row);
#pragma unroll
  for (int step = 0; step < STEPS; ++step) load_columns<GROUP>(row[step], now[step]);
  find_rows(shared, rows, first + STRIP, last, row);
#pragma unroll 2
  for (int i = first; i < last; i += STRIP) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) load_columns<GROUP>(row[step], next[step]);
    find_rows(shared, rows, i + 2 * STRIP, last, row);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      if (step == 0 || i + 4 * step < last) add_tiles<GROUP>(now[step], sums);
#pragma unroll
      for (int c = 0; c < COLUMN_BLOCKS; ++c) now[step][c] = next[step][c];
    }
  }
  write_tiles<GROUP>(sums, partial);
}

template <int GROUP = 0>
__device__ __forceinline__ void sum_group(int group, const Shared& shared, const GpuRows& rows, int first, int last,
                                          double* partial) {
  if (group == GROUP)
    sum_tiles<GROUP>(shared, rows, first, last, partial);
  else if constexpr (GROUP + 1 < GROUPS)
    sum_group<GROUP + 1>(group, shared, rows, first, last, partial);
}

// Sums the rows that fall to this warp, slot by slot.
__device__ __forceinline__ void sum_strand(const Shared& shared, const GpuRows& rows, int* partial_counts,
                                           double* partials) {
  const int strand = threadIdx.x / 32 / GROUPS, n_slots = shared.block.record.n_slots,
            n_listed = shared.starts[n_slots];
  const int begin = int(int64_t(n_listed) * strand / STRANDS), end = int(int64_t(n_listed) * (strand + 1) / STRANDS);
  for (int slot = 0; slot < n_slots && shared.starts[slot] < end; ++slot) {
    const int from = shared.starts[slot], to = shared.starts[slot + 1];
    const int first = from < begin ? begin : from, last = to < end ? to : end;
    if (first >= last) continue;
    const int piece = slot + strand, group = threadIdx.x / 32 % GROUPS;
    if (threadIdx.x % (32 * GROUPS) == 0) partial_counts[piece] = tagged(slot, last - first);
    sum_group(group, shared, rows, first, last, partials + piece * PARTIAL);
  }
}

// A block without rows of the box is done, one that lies in it needs no test.
__device__ __forceinline__ void place_block(Shared& shared, const GpuRows& rows) {
  Block& block = shared.block;
  if (threadIdx.x == 0 && is_scan(block.record.source) && block.record.n_intervals) {
    bool outside = true, inside = true;
    for (int local = 0; local < block.n_positions; local += kZone) {
      const ZonePlace place = place_zone(rows, zone_at(block, local), block.intervals, block.record.n_intervals);
      outside = outside && place.outside, inside = inside && place.inside;
    }
    if (outside) block.n_positions = 0;
    if (inside) block.record.n_intervals = 0;
  }
  __syncthreads();
}

__device__ __forceinline__ void sum_block(Shared& shared, const GpuRows& rows, int rows_per_block, int* partial_counts,
                                          double* partials) {
  const int per_warp = rows_per_block / WARPS, warp = threadIdx.x / 32;
  for (int slot = threadIdx.x % 32; slot < kMostSlots; slot += 32) shared.counts[warp][slot] = 0;
  for (int piece = threadIdx.x; piece < shared.block.record.n_slots + STRANDS - 1; piece += THREADS)
    partial_counts[piece] = 0;
  place_block(shared, rows);
  if (!shared.block.n_positions) return;
  route_rows(shared, rows, per_warp);
  place_slots(shared);
  list_rows(shared, per_warp);
  sum_strand(shared, rows, partial_counts, partials);
}

}  // namespace glasswood
