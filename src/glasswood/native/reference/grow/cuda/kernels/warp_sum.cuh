// Sums in the order of lane_sum (reference/grow/cpu.cpp), by a warp.
#pragma once
#include "reference/grow/householder.h"

namespace glasswood {

// Adds up the lanes' sums, N of them side by side: a chain of shuffles waits as long as N chains do.
template <int N>
__device__ __forceinline__ void add_lanes(double (&sums)[N]) {
  const int lane = threadIdx.x % kSumLanes;
#pragma unroll
  for (int half = kSumLanes / 2; half; half /= 2)
#pragma unroll
    for (int s = 0; s < N; ++s) sums[s] += __shfl_sync(0xffffffffu, sums[s], lane ^ half);
}

// The sum of at(0) .. at(n - 1), in all lanes.
template <class At>
__device__ __forceinline__ double warp_sum(int64_t n, At at) {
  double sums[1] = {};
#pragma unroll 4
  for (int64_t i = threadIdx.x % kSumLanes; i < n; i += kSumLanes) sums[0] += at(i);
  add_lanes(sums);
  return sums[0];
}

}  // namespace glasswood
