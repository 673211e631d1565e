// Phi_ii = phi_i - sum over j of Phi_ij, one warp an element; on entry the diagonal holds phi_i. Fixed order of sums.
//
// Macro: REAL.
extern "C" __global__ void __launch_bounds__(128)
    close_diagonal_kernel(REAL* __restrict__ result, long long n_elements, int n_chosen, int n_features, int n_outputs,
                          const int* __restrict__ chosen) {
  const long long element = (blockIdx.x * 128LL + threadIdx.x) / 32;
  if (element >= n_elements) return;
  const int lane = threadIdx.x % 32, output = element % n_outputs;
  const long long line = element / n_outputs;
  const int feature = chosen[line % n_chosen];
  REAL* values = result + line * n_features * n_outputs + output;
  double sum = 0;
  for (int j = lane; j < n_features; j += 32)
    if (j != feature) sum += values[static_cast<long long>(j) * n_outputs];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) values[static_cast<long long>(feature) * n_outputs] -= sum;
}
