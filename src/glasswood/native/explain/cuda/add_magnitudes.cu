// Adds the magnitudes of entries over a part's rows and all outputs to the part's sums; a thread an entry, rows in
// order.
//
// matrices: [row][number][output], row_size numbers a row with all outputs; sums: [part][entry].
//
// Macro: REAL.
constexpr int THREADS = 128, AT_ONCE = 4;

extern "C" __global__ void __launch_bounds__(THREADS)
    add_magnitudes_kernel(const REAL* __restrict__ matrices, long long n_rows, long long row_size, int n_outputs,
                          const long long* __restrict__ entries, int n_entries, double* __restrict__ sums) {
  const int e = blockIdx.x * THREADS + threadIdx.x;
  if (e >= n_entries) return;
  const long long begin = n_rows * blockIdx.y / gridDim.y, end = n_rows * (blockIdx.y + 1) / gridDim.y;
  const REAL* const mine = matrices + entries[e] * n_outputs;
  double sum = 0;
  for (int output = 0; output < n_outputs; ++output)
#pragma unroll AT_ONCE
    for (long long row = begin; row < end; ++row) {
      const REAL value = mine[row * row_size + output];
      sum += value < 0 ? -value : value;
    }
  sums[blockIdx.y * (long long)n_entries + e] += sum;
}
