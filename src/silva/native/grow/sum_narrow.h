// Sums of rows of so few columns that threads keep them in registers: each takes every THREADS-th row of the block, a
// few slots a pass, and their sums are added up at its end.
#pragma once
#include "grow/sum_block.h"

namespace silva {

constexpr int ENTRIES = STRIDE * (STRIDE + 1) / 2, PART = n_tiles(1) * 64, SPLITS = sum_splits(STRIDE);
constexpr int TOGETHER = 3;  // slots of a pass
constexpr int LOADED = 4;    // rows whose columns are under way together
static_assert(TOGETHER * ENTRIES <= 32, "a pass leaves one sum to each lane");

struct alignas(16) StoredRow {
  STORED z[STRIDE];
};

struct Shared {
  Block block;
  unsigned char slots[kMostRows];
  double sums[WARPS][32];
  int counts[WARPS][TOGETHER];
};

// The empty statement keeps the compiler from making one branch of those of several slots, which would look up their
// sums in memory.
template <int SLOT>
__device__ __forceinline__ void add_row(const StoredRow& row, double (&sums)[ENTRIES]) {
  asm volatile("" ::"n"(SLOT));
#pragma unroll
  for (int a = 0; a < STRIDE; ++a)
#pragma unroll
    for (int b = 0; b < STRIDE; ++b)
      if (b >= a) sums[a * STRIDE - a * (a - 1) / 2 + b - a] += double(row.z[a]) * double(row.z[b]);
}

template <int SLOT = 0>
__device__ __forceinline__ void add_to_slots(const StoredRow& row, int which, double (&sums)[TOGETHER][ENTRIES],
                                             int (&counts)[TOGETHER]) {
  counts[SLOT] += __popc(__ballot_sync(ALL, which == SLOT));
  if (which == SLOT) add_row<SLOT>(row, sums[SLOT]);
  if constexpr (SLOT + 1 < TOGETHER) add_to_slots<SLOT + 1>(row, which, sums, counts);
}

// Value l of all lanes, added up, in lane l.
template <int HALF = 16>
__device__ __forceinline__ double spread_sums(double (&values)[32]) {
  const int lane = threadIdx.x % 32;
  const bool upper = lane & HALF;
#pragma unroll
  for (int i = 0; i < HALF; ++i) {
    const double given = upper ? values[i] : values[i + HALF];
    values[i] = (upper ? values[i + HALF] : values[i]) + __shfl_sync(ALL, given, lane ^ HALF);
  }
  if constexpr (HALF > 1) return spread_sums<HALF / 2>(values);
  return values[0];
}

// Sums and counts of the slots first .. first + TOGETHER - 1 over this warp's rows, into the block's tables.
__device__ __forceinline__ void sum_pass(Shared& shared, const GpuRows& rows, int first) {
  const auto* z = static_cast<const StoredRow*>(rows.z);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  double sums[TOGETHER][ENTRIES] = {};
  int counts[TOGETHER] = {};
  for (int i = 0; i < shared.block.n_positions; i += THREADS * LOADED) {
    StoredRow row[LOADED];
    int which[LOADED];
#pragma unroll
    for (int k = 0; k < LOADED; ++k) {
      const int local = i + k * THREADS + int(threadIdx.x);
      which[k] = local < shared.block.n_positions ? int(shared.slots[local]) - first : -1;
      row[k] = which[k] >= 0 && which[k] < TOGETHER ? z[row_of(shared.block, local)] : StoredRow{};
    }
#pragma unroll
    for (int k = 0; k < LOADED; ++k) add_to_slots(row[k], which[k], sums, counts);
  }
  double values[32] = {};
#pragma unroll
  for (int s = 0; s < TOGETHER; ++s)
#pragma unroll
    for (int e = 0; e < ENTRIES; ++e) values[s * ENTRIES + e] = sums[s][e];
  shared.sums[warp][lane] = spread_sums(values);
#pragma unroll
  for (int s = 0; s < TOGETHER; ++s)
    if (lane == 0) shared.counts[warp][s] = counts[s];
}

// Adds up the warps' sums, in their order.
__device__ __forceinline__ void write_pass(const Shared& shared, int first, int* part_counts, double* parts) {
  const int t = threadIdx.x, s = t / ENTRIES, slot = first + s;
  if (s >= TOGETHER || slot >= shared.block.request.n_slots) return;
  double sum = 0;
  int count = 0;
  for (int warp = 0; warp < WARPS; ++warp) sum += shared.sums[warp][t], count += shared.counts[warp][s];
  int a = 0, left = t % ENTRIES;
  while (left >= STRIDE - a) left -= STRIDE - a++;
  parts[slot * PART + tile_entry(a, a + left, 1)] = sum;
  if (t % ENTRIES == 0) part_counts[slot] = tagged(slot, count);
}

__device__ __forceinline__ void sum_block(Shared& shared, const GpuRows& rows, int rows_per_block, int* part_counts,
                                          double* parts) {
  route_rows(shared.block, rows, shared.slots, rows_per_block / WARPS, [](int) {});
  for (int first = 0; first < shared.block.request.n_slots; first += TOGETHER) {
    sum_pass(shared, rows, first);
    __syncthreads();
    write_pass(shared, first, part_counts, parts);
    __syncthreads();
  }
}

}  // namespace silva
