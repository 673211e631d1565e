// Squared residuals of the leaves' models, summed by chunks of rows; a warp a chunk.
#include "reference/grow/cuda/kernels/warp_sum.cuh"
#include "reference/grow/cuda/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    estimate_errors_kernel(const double* __restrict__ matrices, const QrLeaf* __restrict__ leaves, int n_leaves,
                           int n_chunks, const double* __restrict__ coefficients, double* __restrict__ errors) {
  const int chunk = int(blockIdx.x * (kBlockThreads / 32) + threadIdx.x / 32);
  if (chunk >= n_chunks) return;
  const QrLeaf leaf = leaves[record_of(leaves, n_leaves, &QrLeaf::first_chunk, chunk)];
  const int64_t first = int64_t(chunk - leaf.first_chunk) * kChunkRows, left = leaf.count - first;
  const double* rows = matrices + leaf.matrix + first;
  const double* model = coefficients + leaf.first_column;
  const double sum = warp_sum(left < kChunkRows ? left : kChunkRows, [&](int64_t i) {
    double residual = rows[leaf.n_columns * leaf.count + i];
    for (int k = 0; k < leaf.n_columns; ++k) residual -= product(model[k], rows[k * leaf.count + i]);
    return product(residual, residual);
  });
  if (threadIdx.x % 32 == 0) errors[chunk] = sum;
}

}  // namespace glasswood
