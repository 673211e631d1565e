// Margins from the values of trees, [tree][stride]: base score, then the trees in their order, in float64 as on the
// CPU.
//
// Macros: LEAF, RESULT.
using Leaf = LEAF;
using Result = RESULT;

extern "C" __global__ void __launch_bounds__(128)
    sum_values_kernel(const Leaf* __restrict__ values, long long stride, int n_rows, int n_outputs,
                      const int* __restrict__ starts, const double* __restrict__ base_score,
                      Result* __restrict__ result) {
  const int row = blockIdx.x * 128 + threadIdx.x, output = blockIdx.y;
  if (row >= n_rows) return;
  double sum = base_score[output];
  const int end = starts[output + 1];
// Many loads in flight: with few rows, latency is all there is to hide.
#pragma unroll 32
  for (int t = starts[output]; t < end; ++t) sum += values[t * stride + row];
  result[row * static_cast<long long>(n_outputs) + output] = Result(sum);
}
