// Ranks, order, distinct values and starts of a sorted column, whose distinct values up to each row are counted; rows
// of missing values, for which the count is 0, have rank -1.
#include "common/lanes.h"

namespace glasswood {

extern "C" __global__ void write_ranks_kernel(const double* __restrict__ values, const int64_t* __restrict__ sorted,
                                              const int* __restrict__ counts, long long n, int* __restrict__ ranks,
                                              int* __restrict__ order, double* __restrict__ distinct,
                                              int* __restrict__ starts) {
  const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= n) return;
  const int64_t row = sorted[at];
  const int rank = counts[at] - 1;
  ranks[row] = rank;
  order[at] = int(row);
  if (rank >= 0 && (at == 0 || counts[at - 1] == rank)) {
    distinct[rank] = values[row];
    starts[rank] = int(at);
  }
  if (at == n - 1) starts[rank + 1] = int(n);
}

}  // namespace glasswood
