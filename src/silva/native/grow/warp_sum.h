// Sums in the order of lane_sum (grow/qr.h), by a warp.
#pragma once
#include "grow/householder.h"

namespace silva {

// The sum of at(0) .. at(n - 1), in all lanes.
template <class At>
__device__ __forceinline__ double warp_sum(int64_t n, At at) {
  const int lane = threadIdx.x % kSumLanes;
  double sum = 0;
#pragma unroll 4
  for (int64_t i = lane; i < n; i += kSumLanes) sum += at(i);
  for (int half = kSumLanes / 2; half; half /= 2) sum += __shfl_sync(0xffffffffu, sum, lane ^ half);
  return sum;
}

}  // namespace silva
