// What lies before candidates: the bins that a threshold search leaves behind are added to the sums that
// stand there, in their order. A threshold search goes on between two candidates.
#include "grow/cuda/shared/records.h"

namespace silva {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    advance_sums_kernel(const AdvanceRecord* __restrict__ records) {
  const AdvanceRecord record = records[blockIdx.x / kAdvanceBlocks];
  const int first = int(blockIdx.x) % kAdvanceBlocks * kBlockThreads + int(threadIdx.x);
  for (int e = first; e < record.n_entries; e += kAdvanceBlocks * kBlockThreads) {
    double sum = record.is_first ? 0 : record.sums[e];
#pragma unroll 8
    for (int bin = 0; bin < record.n_bins; ++bin) sum += record.bins[bin * record.step + e];
    record.sums[e] = sum;
  }
}

}  // namespace silva
