// What lies before a stretch of cuts: the parts that a sweep leaves behind are added to the sums that stand there, in
// their order. A sweep goes on between two cuts.
#include "grow/cuda/shared/records.h"

namespace silva {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    advance_sums_kernel(const AdvanceRequest* __restrict__ requests) {
  const AdvanceRequest request = requests[blockIdx.x / kAdvanceBlocks];
  const int first = int(blockIdx.x) % kAdvanceBlocks * kBlockThreads + int(threadIdx.x);
  for (int e = first; e < request.n_entries; e += kAdvanceBlocks * kBlockThreads) {
    double sum = request.is_first ? 0 : request.sums[e];
#pragma unroll 8
    for (int part = 0; part < request.n_parts; ++part) sum += request.parts[part * request.step + e];
    request.sums[e] = sum;
  }
}

}  // namespace silva
