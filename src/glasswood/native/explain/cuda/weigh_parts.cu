// Values of a response (glasswood/explain/responses/rescaling.py): a block takes a row, whose margin is a mean and the
// sum of its values, and adds up those against differently weighted background rows, each r(a, t) times.
//
// Macros: REAL, LOSS (of the log-loss: the last part is the margin's, which counts less where the label is 1).
namespace glasswood {

constexpr int THREADS = 128, MOST_PARTS = 49;

struct Nodes {
  double t[MOST_PARTS];
};

// (g(a) - g(c)) / (a - c) of the logistic function: sinh(d / 2) / (2 d cosh(a / 2) cosh(c / 2)), d = a - c.
__device__ __forceinline__ double ratio_of_logistic(double a, double c) {
  const double half = fabs(a - c) / 2;
  const double slope = half > 1e-4 ? -expm1(-2 * half) / (4 * half) : 0.5 - half * (0.5 - half / 3);
  // The exponents cancel: |a - c| <= |a| + |c|.
  const double scale = exp(half - fabs(a) / 2 - fabs(c) / 2);
  return 2 * slope * scale / ((1 + exp(-fabs(a))) * (1 + exp(-fabs(c))));
}

// The same of log(1 + exp): the mean of the logistic function between a and c.
__device__ __forceinline__ double softplus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }
__device__ __forceinline__ double ratio_of_softplus(double a, double c) {
  const double d = a - c, middle = 1 / (1 + exp(-(a + c) / 2));
  if (fabs(d) > 1e-3) return (softplus(a) - softplus(c)) / d;
  return middle + middle * (1 - middle) * (1 - 2 * middle) / 24 * d * d;
}

}  // namespace glasswood

// values: [row][feature], of the margin; parts: [part][row][number].
extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    weigh_parts_kernel(const double* __restrict__ values, int n_features, double mean, const double* __restrict__ parts,
                       int n_parts, long long row_size, const __grid_constant__ glasswood::Nodes nodes, double slope,
                       const double* __restrict__ labels, REAL* __restrict__ result) {
  using namespace glasswood;
  __shared__ double factor[MOST_PARTS];
  const long long row = blockIdx.x, n_rows = gridDim.x;
  if (int(threadIdx.x) < n_parts) {
    double margin = mean;
    for (int f = 0; f < n_features; ++f) margin += values[row * n_features + f];
    const double a = slope * margin, t = nodes.t[threadIdx.x];
#if LOSS
    const bool is_last = int(threadIdx.x) == n_parts - 1;
    factor[threadIdx.x] = slope * (is_last ? -labels[row] : ratio_of_softplus(a, t));
#else
    factor[threadIdx.x] = slope * ratio_of_logistic(a, t);
#endif
  }
  __syncthreads();
  for (long long i = threadIdx.x; i < row_size; i += THREADS) {
    double sum = 0;
    for (int part = 0; part < n_parts; ++part) sum += factor[part] * parts[(part * n_rows + row) * row_size + i];
    result[row * row_size + i] = REAL(sum);
  }
}
