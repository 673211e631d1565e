// What lies before candidates: bins are added up in their order. A threshold search goes on between two candidates,
// behind the sums of what it leaves there; and errors at many candidates start from sums up to some of them.
#include "grow/cuda/shared/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    advance_sums_kernel(const AdvanceRecord* __restrict__ records, int blocks_of_record) {
  const AdvanceRecord record = records[blockIdx.x / blocks_of_record];
  const int e = int(blockIdx.x) % blocks_of_record * kBlockThreads + int(threadIdx.x);
  if (e >= record.n_entries) return;
  double sum = record.base ? record.base[e] : 0;
  const double* from = record.bins + e;
  for (int i = 0; i < record.n_sums; ++i) {
#pragma unroll 8
    for (int bin = 0; bin < record.n_bins; ++bin, from += record.step) sum += *from;
    record.sums[int64_t(i) * record.n_entries + e] = sum;
  }
}

}  // namespace glasswood
