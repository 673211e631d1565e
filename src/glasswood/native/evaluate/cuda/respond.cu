// Margins through a link, a row a thread: margin is (n_rows, n_outputs), and so is the result.
//
// Macros: RESULT (type of the responses), LINK (LOGISTIC, SOFTMAX, EXP, or BOTH: the probabilities of two classes, of
// which the margin is the second's: the result is (n_rows, 2)).
#define LOGISTIC 1
#define SOFTMAX 2
#define EXP 3
#define BOTH 4

namespace glasswood {

// A product that is rounded by itself, as NumPy's: fused with the subtraction of the largest it would be another.
__device__ __forceinline__ double scaled(double scale, double margin) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(scale, margin);
#else
  return scale * margin;
#endif
}

}  // namespace glasswood

extern "C" __global__ void respond_kernel(const double* __restrict__ margin, int n_rows, int n_outputs, double scale,
                                          RESULT* __restrict__ result) {
  using glasswood::scaled;
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= n_rows) return;
  const double* const from = margin + row * n_outputs;
#if LINK == BOTH
  const RESULT second = RESULT(1 / (1 + exp(-scaled(scale, from[0]))));
  result[2 * row] = RESULT(1) - second;
  result[2 * row + 1] = second;
#elif LINK == EXP
  RESULT* const to = result + row * n_outputs;
  for (int k = 0; k < n_outputs; ++k) to[k] = RESULT(exp(from[k]));
#elif LINK == LOGISTIC
  RESULT* const to = result + row * n_outputs;
  for (int k = 0; k < n_outputs; ++k) to[k] = RESULT(1 / (1 + exp(-scaled(scale, from[k]))));
#else
  RESULT* const to = result + row * n_outputs;
  // As NumPy's maximum: one margin that is not a number makes a row of them.
  double largest = scaled(scale, from[0]), sum = 0;
  for (int k = 1; k < n_outputs; ++k) {
    const double other = scaled(scale, from[k]);
    largest = other > largest || other != other ? other : largest;
  }
  for (int k = 0; k < n_outputs; ++k) sum += exp(scaled(scale, from[k]) - largest);
  for (int k = 0; k < n_outputs; ++k) to[k] = RESULT(exp(scaled(scale, from[k]) - largest) / sum);
#endif
}
