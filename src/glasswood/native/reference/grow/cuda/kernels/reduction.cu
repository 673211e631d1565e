// Errors of the leaves from those of their chunks, always in the same order; a warp a leaf.
#include "reference/grow/cuda/kernels/warp_sum.cuh"
#include "reference/grow/cuda/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kSumLanes)
    reduction_kernel(const QrLeaf* __restrict__ leaves, const double* __restrict__ errors,
                     double* __restrict__ results) {
  const QrLeaf leaf = leaves[blockIdx.x];
  const double* chunks = errors + leaf.first_chunk;
  const double sum = warp_sum((leaf.count + kChunkRows - 1) / kChunkRows, [&](int64_t i) { return chunks[i]; });
  if (threadIdx.x == 0) results[blockIdx.x] = sum;
}

}  // namespace glasswood
