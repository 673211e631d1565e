// How many rows of each tile of a source lie in a box; a tile of all rows is a zone.
#include "grow/cuda/shared/records.h"

namespace silva {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    count_rows_kernel(GpuRows rows, const ListRequest* __restrict__ requests, int n_requests,
                      const RouteInterval* __restrict__ intervals, int* __restrict__ tile_counts) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  const ListRequest request = requests[request_of(requests, n_requests, &ListRequest::first_block, blockIdx.x)];
  const int64_t first = int64_t(blockIdx.x - request.first_block) * kListTile;
  static_assert(kListTile == kZone, "a block lists the rows of one zone");
  ZonePlace place{};
  if (is_scan(request.source))
    place = place_zone(rows, first / kZone, intervals + request.first_interval, request.n_intervals);
  int count = 0;
  for (int i = threadIdx.x; !place.outside && i < kListTile && first + i < request.source.count; i += kBlockThreads)
    count += place.inside || is_inside(rows, intervals + request.first_interval, request.n_intervals,
                                       row_at(request.source, first + i));
  if (count) atomicAdd(&total, count);
  __syncthreads();
  if (threadIdx.x == 0) tile_counts[blockIdx.x] = total;
}

}  // namespace silva
