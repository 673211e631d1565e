// Coefficients of a leaf from its triangle, by modified Gram-Schmidt on its columns: solve_triangle of
// reference/grow/evaluation.h, a block a leaf.
#include "reference/grow/cuda/kernels/warp_sum.cuh"
#include "reference/grow/cuda/records.h"

namespace glasswood {

constexpr int kMostModelColumns = 128;

__device__ __forceinline__ double dot(const double* a, const double* b, int n) {
  return warp_sum(n, [&](int64_t i) { return product(a[i], b[i]); });
}

// Takes column k out of the columns behind it.
__device__ __forceinline__ void project_columns(int k, int n, double length, double* columns, double* triangle,
                                                double* centred) {
  const int side = n + 1, lane = threadIdx.x % 32;
  const double* x = columns + k * n;
  for (int j = k + 1 + int(threadIdx.x) / 32; j < side; j += kBlockThreads / 32) {
    double* column = columns + j * n;
    const double part = dot(x, column, n) / length, factor = part / length;
    if (lane == 0) triangle[k * side + j] = part;
    for (int i = lane; i < n; i += 32) column[i] -= product(factor, x[i]);
    __syncwarp();
    if (k > 0) continue;
    const double square = dot(column, column, n);
    if (lane == 0 && j < n) centred[j] = square;
  }
}

// Back substitution by the first warp.
__device__ __forceinline__ void substitute(int n, const double* triangle, const double* diagonal,
                                           double* coefficients) {
  const int side = n + 1;
  for (int k = n - 1; k >= 0; --k) {
    const double *entries = triangle + k * side + k + 1, *known = coefficients + k + 1;
    const double rest = dot(entries, known, n - 1 - k);
    if (threadIdx.x == 0) coefficients[k] = diagonal[k] == 0 ? 0 : (triangle[k * side + n] - rest) / diagonal[k];
    __syncwarp();
  }
}

extern "C" __global__ void __launch_bounds__(kBlockThreads) calc_models_kernel(const QrTriangle* __restrict__ leaves) {
  __shared__ double raw[kMostModelColumns], centred[kMostModelColumns], diagonal[kMostModelColumns];
  __shared__ double coefficients[kMostModelColumns];
  const QrTriangle leaf = leaves[blockIdx.x];
  const int n = int(leaf.n_columns), side = n + 1, lane = threadIdx.x % 32;
  for (int e = threadIdx.x; e < n * side; e += kBlockThreads) leaf.columns[e % side * n + e / side] = leaf.triangle[e];
  __syncthreads();
  for (int k = int(threadIdx.x) / 32; k < n; k += kBlockThreads / 32) {
    const double square = dot(leaf.columns + k * n, leaf.columns + k * n, n);
    if (lane == 0) raw[k] = square, diagonal[k] = 0, centred[k] = 0;
  }
  __syncthreads();
  for (int k = 0; k < n; ++k) {
    const double square = dot(leaf.columns + k * n, leaf.columns + k * n, n);
    if (!is_dependent(k, square, centred[k], raw[k])) {
      const double length = root(square);
      if (threadIdx.x == 0) diagonal[k] = length;
      project_columns(k, n, length, leaf.columns, leaf.triangle, centred);
    }
    __syncthreads();
  }
  if (threadIdx.x < 32) substitute(n, leaf.triangle, diagonal, coefficients);
  __syncthreads();
  for (int k = threadIdx.x; k < n; k += kBlockThreads) leaf.coefficients[k] = coefficients[k];
}

}  // namespace glasswood
