// Integer sums of reference/explain/cuda/explain_paths.cu back to numbers. Macro: REAL.
extern "C" __global__ void __launch_bounds__(256)
    read_sums_kernel(const long long* __restrict__ sums, long long n, double unit, REAL* __restrict__ result) {
  const long long at = blockIdx.x * 256LL + threadIdx.x;
  if (at < n) result[at] = REAL(double(sums[at]) * unit);
}
