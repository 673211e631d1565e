// Copies some entries of each row's matrix, all outputs: [row][entry][output]; a thread each.
//
// Macro: REAL.
constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS)
    take_entries_kernel(const REAL* __restrict__ matrices, long long n_rows, long long row_size, int n_outputs,
                        const long long* __restrict__ entries, int n_entries, REAL* __restrict__ result) {
  const long long at = blockIdx.x * (long long)THREADS + threadIdx.x, of_row = (long long)n_entries * n_outputs;
  if (at >= n_rows * of_row) return;
  const long long row = at / of_row, entry = at % of_row / n_outputs, output = at % n_outputs;
  result[at] = matrices[row * row_size + entries[entry] * n_outputs + output];
}
