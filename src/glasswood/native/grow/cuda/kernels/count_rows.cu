// How many rows of each tile of a source lie in a box; a tile of all rows is a zone.
#include "grow/cuda/shared/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    count_rows_kernel(GpuRows rows, const ListRecord* __restrict__ records, int n_records,
                      const RouteInterval* __restrict__ intervals, int* __restrict__ tile_counts) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  const ListRecord record = records[record_of(records, n_records, &ListRecord::first_block, blockIdx.x)];
  const int64_t first = int64_t(blockIdx.x - record.first_block) * kListTile;
  static_assert(kListTile == kZone, "a block lists the rows of one zone");
  ZonePlace place{};
  if (is_scan(record.source))
    place = place_zone(rows, first / kZone, intervals + record.first_interval, record.n_intervals);
  int count = 0;
  for (int i = threadIdx.x; !place.outside && i < kListTile && first + i < record.source.count; i += kBlockThreads)
    count += place.inside ||
             is_inside(rows, intervals + record.first_interval, record.n_intervals, row_at(record.source, first + i));
  if (count) atomicAdd(&total, count);
  __syncthreads();
  if (threadIdx.x == 0) tile_counts[blockIdx.x] = total;
}

}  // namespace glasswood
