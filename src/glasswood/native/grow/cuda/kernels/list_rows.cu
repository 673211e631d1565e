// The rows of a source that lie in a box, in the source's order, with their ranks in one feature, or an even sample
// of them; and how many.
#include "grow/cuda/shared/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    list_rows_kernel(GpuRows rows, const ListRecord* __restrict__ records, int n_records,
                     const RouteInterval* __restrict__ intervals, const int* __restrict__ tile_counts,
                     int* __restrict__ totals) {
  constexpr int WARPS = kBlockThreads / 32, STEPS = kListTile / kBlockThreads;
  __shared__ int before, total, starts[STEPS * WARPS + 1];
  const int index = record_of(records, n_records, &ListRecord::first_block, blockIdx.x);
  const ListRecord record = records[index];
  const int tile = int(blockIdx.x) - record.first_block, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) before = total = starts[0] = 0;
  __syncthreads();
  int count = 0, others = 0;
  for (int b = threadIdx.x; b < tile; b += kBlockThreads) count += tile_counts[record.first_block + b];
  for (int b = tile + threadIdx.x; b < record.n_blocks && record.most; b += kBlockThreads)
    others += tile_counts[record.first_block + b];
  if (count) atomicAdd(&before, count);
  if (count + others) atomicAdd(&total, count + others);
  ZonePlace place{};
  if (is_scan(record.source)) place = place_zone(rows, tile, intervals + record.first_interval, record.n_intervals);
  unsigned inside[STEPS];
  for (int step = 0; step < STEPS; ++step) {
    const int64_t at = int64_t(tile) * kListTile + step * kBlockThreads + threadIdx.x;
    const bool found = at < record.source.count && !place.outside &&
                       (place.inside || is_inside(rows, intervals + record.first_interval, record.n_intervals,
                                                  row_at(record.source, at)));
    inside[step] = __ballot_sync(0xffffffffu, found);
    if (lane == 0) starts[1 + step * WARPS + warp] = __popc(inside[step]);
  }
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 0; i < STEPS * WARPS; ++i) starts[i + 1] += starts[i];
  __syncthreads();
  const int stride = record.most ? total / record.most + 1 : 1;
  int* listed = record.most ? totals + n_records + record.first_answer : record.rows;
  for (int step = 0; step < STEPS; ++step) {
    if (!(inside[step] >> lane & 1)) continue;
    const int64_t row = row_at(record.source, int64_t(tile) * kListTile + step * kBlockThreads + threadIdx.x);
    const int64_t to = before + starts[step * WARPS + warp] + __popc(inside[step] & ((1u << lane) - 1));
    if (to % stride) continue;
    listed[to / stride] = int32_t(row);
    if (record.feature >= 0) record.ranks[to] = rows.rank(row, record.feature);
  }
  if (tile == record.n_blocks - 1 && threadIdx.x == 0) totals[index] = before + starts[STEPS * WARPS];
}

}  // namespace glasswood
