// Phi_ii = phi_i - sum over j of Phi_ij, one warp a line of a row's matrices, (n_features, n_outputs), whose diagonal
// holds phi_i on entry. Lanes side by side have neighbouring outputs, and as many lines of them as a warp holds. Fixed
// order of sums.
//
// Macro: REAL.
constexpr int WARP = 32, THREADS = 128;
constexpr unsigned ALL = 0xffffffffu;

extern "C" __global__ void __launch_bounds__(THREADS)
    close_diagonal_kernel(REAL* __restrict__ result, long long n_lines, int n_chosen, int n_features, int n_outputs,
                          const int* __restrict__ chosen) {
  const long long line = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) / WARP;
  if (line >= n_lines) return;
  const int lane = threadIdx.x % WARP, width = min(n_outputs, WARP), n_groups = WARP / width, group = lane / width;
  const int feature = chosen[line % n_chosen];
  for (int first = 0; first < n_outputs; first += width) {
    const int output = first + lane % width;
    const bool is_active = group < n_groups && output < n_outputs;
    REAL* const values = result + line * n_features * n_outputs + output;
    double sum = 0;
#pragma unroll 4
    for (int j = is_active ? group : n_features; j < n_features; j += n_groups)
      if (j != feature) sum += values[static_cast<long long>(j) * n_outputs];
    for (int n = n_groups; n > 1; n = (n + 1) / 2) {
      const double other = __shfl_sync(ALL, sum, lane + (n + 1) / 2 * width);
      if (group + (n + 1) / 2 < n) sum += other;
    }
    if (is_active && group == 0) values[static_cast<long long>(feature) * n_outputs] -= sum;
  }
}
