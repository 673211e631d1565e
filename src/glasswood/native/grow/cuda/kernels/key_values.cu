// Whole numbers in the order of a column's values: equal for equal values (both zeros too), 0 for missing ones.
#include "common/lanes.h"

namespace glasswood {

extern "C" __global__ void key_values_kernel(const double* __restrict__ values, long long n,
                                             unsigned long long* __restrict__ keys) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= n) return;
  constexpr unsigned long long kSign = 1ull << 63;
  const double value = values[row] + 0.0;  // 0 of both zeros
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(value));
  keys[row] = value != value ? 0 : bits & kSign ? ~bits : bits | kSign;
}

}  // namespace glasswood
