// Sums of rows of so few columns that threads keep them in registers: each takes every THREADS-th row of the block, a
// few slots a pass, and their sums are added up at its end.
#pragma once
#include "grow/cuda/kernels/sum_block.cuh"

namespace glasswood {

constexpr int ENTRIES = STRIDE * (STRIDE + 1) / 2, PARTIAL = n_tiles(1) * 64, STRANDS = sum_strands(STRIDE);
constexpr int TOGETHER = 3;                                  // slots of a pass
constexpr int COUNTS = TOGETHER * ENTRIES, COUNT_BITS = 16;  // counts stand behind the sums, all in one exact number
static_assert(COUNTS < 32, "a pass leaves one sum to each lane");
static_assert(TOGETHER * COUNT_BITS <= 48 && most_rows(STRIDE) < 1 << COUNT_BITS, "counts fit a double");
constexpr int LOADED = 4;  // rows of a thread whose columns are under way together
constexpr int ZONES = most_rows(STRIDE) / kZone;
static_assert(kZone % (THREADS * ROUTED) == 0 && kZone % (THREADS * LOADED) == 0, "rows under way are of one zone");

struct alignas(16) StoredRow {
  STORED z[STRIDE];
};

struct Shared {
  Block block;
  ZonePlace places[ZONES];
  bool has_rows;
  unsigned char slots[most_rows(STRIDE)];
  double sums[WARPS][32];
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

template <int SLOT = 0, int N>
__device__ __forceinline__ void add_to_slots(const StoredRow& row, int which, double (&sums)[N][ENTRIES],
                                             int64_t& counts) {
  if (which == SLOT) {
    add_row<SLOT>(row, sums[SLOT]);
    counts += int64_t(1) << (SLOT * COUNT_BITS);
  }
  if constexpr (SLOT + 1 < N) add_to_slots<SLOT + 1>(row, which, sums, counts);
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

// This warp's sums and counts, into the block's table.
template <int N>
__device__ __forceinline__ void keep_sums(Shared& shared, const double (&sums)[N][ENTRIES], int64_t counts) {
  double values[32] = {};
#pragma unroll
  for (int s = 0; s < N; ++s)
#pragma unroll
    for (int e = 0; e < ENTRIES; ++e) values[s * ENTRIES + e] = sums[s][e];
  values[COUNTS] = double(counts);
  shared.sums[threadIdx.x / 32][threadIdx.x % 32] = spread_sums(values);
}

// What the block knows of its zones.
__device__ __forceinline__ void place_zones(Shared& shared, const GpuRows& rows) {
  const Block& block = shared.block;
  const int zone = threadIdx.x, local = zone * kZone;
  if (zone == 0) shared.has_rows = !is_scan(block.record.source);
  __syncthreads();
  if (zone < ZONES) {
    ZonePlace place{local >= block.n_positions, block.record.n_intervals == 0, 0};
    if (!place.outside && is_scan(block.record.source)) {
      place = place_zone(rows, zone_at(block, local), block.intervals, block.record.n_intervals);
      if (!place.outside) place.node = node_of_zone(rows, zone_at(block, local), block.nodes);
      if (!place.outside) shared.has_rows = true;
    }
    shared.places[zone] = place;
  }
  __syncthreads();
}

// Slots of R rows of a zone, this thread's from `local` on; rows behind the block's last stand for its first.
template <int R>
__device__ __forceinline__ void route_zone(const Shared& shared, const GpuRows& rows, const ZonePlace& place, int local,
                                           int32_t (&row)[R], int (&slot)[R]) {
  const Block& block = shared.block;
  const RouteNode& node = block.nodes[place.node];
  bool inside[R];
#pragma unroll
  for (int k = 0; k < R; ++k) {
    inside[k] = local + k * THREADS < block.n_positions;
    row[k] = int32_t(row_of(block, inside[k] ? local + k * THREADS : 0));
    slot[k] = inside[k] ? node.threshold : -1;
  }
  if (place.inside && node.feature < 0) return;
  find_slots<R>(rows, block.intervals, place.inside ? 0 : block.record.n_intervals, block.nodes, place.node,
                is_scan(block.record.source), row, inside, slot);
}

// Routes and sums the rows of at most N slots in one go.
template <int N>
__device__ __forceinline__ void sum_directly(Shared& shared, const GpuRows& rows) {
  constexpr int R = LOADED;
  const auto* z = static_cast<const StoredRow*>(rows.z);
  double sums[N][ENTRIES] = {};
  int64_t counts = 0;
  for (int first = 0; first < shared.block.n_positions; first += THREADS * R) {
    const ZonePlace place = shared.places[first / kZone];
    if (place.outside) continue;
    int32_t row[R];
    int slot[R];
    StoredRow loaded[R];
    route_zone<R>(shared, rows, place, first + int(threadIdx.x), row, slot);
#pragma unroll
    for (int k = 0; k < R; ++k) loaded[k] = slot[k] >= 0 ? z[row[k]] : StoredRow{};
#pragma unroll
    for (int k = 0; k < R; ++k) add_to_slots<0, N>(loaded[k], slot[k], sums, counts);
  }
  keep_sums(shared, sums, counts);
}

// Slots of all rows, for several passes over them.
__device__ __forceinline__ void find_all_slots(Shared& shared, const GpuRows& rows) {
  constexpr int R = ROUTED;
  for (int first = 0; first < shared.block.n_positions; first += THREADS * R) {
    const ZonePlace place = shared.places[first / kZone];
    if (place.outside) continue;
    int32_t row[R];
    int slot[R];
    route_zone<R>(shared, rows, place, first + int(threadIdx.x), row, slot);
#pragma unroll
    for (int k = 0; k < R; ++k)
      shared.slots[first + k * THREADS + int(threadIdx.x)] = (unsigned char)(slot[k] < 0 ? NO_SLOT : slot[k]);
  }
  __syncthreads();
}

// Sums and counts of the slots from `from` on.
__device__ __forceinline__ void sum_pass(Shared& shared, const GpuRows& rows, int from) {
  constexpr int R = LOADED / 2;  // four would not stay in registers beside the sums
  const auto* z = static_cast<const StoredRow*>(rows.z);
  double sums[TOGETHER][ENTRIES] = {};
  int64_t counts = 0;
  for (int first = 0; first < shared.block.n_positions; first += THREADS * R) {
    const ZonePlace place = shared.places[first / kZone];
    const RouteNode& node = shared.block.nodes[place.node];
    if (place.outside || (node.feature < 0 && (node.threshold < from || node.threshold >= from + TOGETHER))) continue;
    StoredRow loaded[R];
    int which[R];
#pragma unroll
    for (int k = 0; k < R; ++k) {
      const int local = first + k * THREADS + int(threadIdx.x);
      which[k] = local < shared.block.n_positions ? int(shared.slots[local]) - from : -1;
      loaded[k] = which[k] >= 0 && which[k] < TOGETHER ? z[row_of(shared.block, local)] : StoredRow{};
    }
#pragma unroll
    for (int k = 0; k < R; ++k) add_to_slots<0, TOGETHER>(loaded[k], which[k], sums, counts);
  }
  keep_sums(shared, sums, counts);
}

// Adds up the warps' sums, in their order.
__device__ __forceinline__ void write_pass(const Shared& shared, int from, int* partial_counts, double* partials) {
  const int t = threadIdx.x, s = t / ENTRIES, slot = from + s;
  if (t >= COUNTS || slot >= shared.block.record.n_slots) return;
  double sum = 0;
  int64_t counts = 0;
  for (int warp = 0; warp < WARPS; ++warp) sum += shared.sums[warp][t], counts += int64_t(shared.sums[warp][COUNTS]);
  int a = 0, left = t % ENTRIES;
  while (left >= STRIDE - a) left -= STRIDE - a++;
  partials[slot * PARTIAL + tile_entry(a, a + left, 1)] = sum;
  if (t % ENTRIES == 0) partial_counts[slot] = tagged(slot, int(counts >> (s * COUNT_BITS)) & ((1 << COUNT_BITS) - 1));
}

__device__ __forceinline__ void sum_block(Shared& shared, const GpuRows& rows, int, int* partial_counts,
                                          double* partials) {
  const int n_slots = shared.block.record.n_slots;
  place_zones(shared, rows);
  if (!shared.has_rows) {
    for (int slot = threadIdx.x; slot < n_slots; slot += THREADS) partial_counts[slot] = 0;
    return;
  }
  if (n_slots <= TOGETHER) {
    n_slots == 1 ? sum_directly<1>(shared, rows) : sum_directly<TOGETHER>(shared, rows);
    __syncthreads();
    return write_pass(shared, 0, partial_counts, partials);
  }
  find_all_slots(shared, rows);
  for (int from = 0; from < n_slots; from += TOGETHER) {
    sum_pass(shared, rows, from);
    __syncthreads();
    write_pass(shared, from, partial_counts, partials);
    __syncthreads();
  }
}

}  // namespace glasswood
