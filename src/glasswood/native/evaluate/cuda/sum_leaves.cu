// Margins from leaves: base score, then the trees in their order, in float64 as on the CPU.
//
// Macro: RESULT.
using Result = RESULT;

extern "C" __global__ void __launch_bounds__(128)
    sum_leaves_kernel(const int* __restrict__ leaves, long long stride, int n_rows, const double* __restrict__ values,
                      int width, int n_outputs, const int* __restrict__ starts, const int* __restrict__ trees,
                      const double* __restrict__ base_score, Result* __restrict__ result) {
  const int row = blockIdx.x * 128 + threadIdx.x, output = blockIdx.y;
  if (row >= n_rows) return;
  const int component = width == 1 ? 0 : output;
  double sum = base_score[output];
#pragma unroll 8
  for (int at = starts[output]; at < starts[output + 1]; ++at)
    sum += values[leaves[trees[at] * stride + row] * static_cast<long long>(width) + component];
  result[row * static_cast<long long>(n_outputs) + output] = Result(sum);
}
