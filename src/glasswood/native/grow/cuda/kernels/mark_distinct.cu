// Which rows of a sorted column have another value than the row before them; missing values count as none.
#include "common/lanes.h"

namespace glasswood {

extern "C" __global__ void mark_distinct_kernel(const unsigned long long* __restrict__ keys,
                                                const int64_t* __restrict__ order, long long n,
                                                int* __restrict__ is_distinct) {
  const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= n) return;
  const unsigned long long key = keys[order[at]];
  is_distinct[at] = key != 0 && (at == 0 || key != keys[order[at - 1]]);
}

}  // namespace glasswood
