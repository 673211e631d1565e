// The leaves' design matrices by columns, y behind them, missing values replaced by the leaf's mean.
//
// Macro: STORED, type of the numbers of z.
#include "reference/grow/cuda/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    reorganise_kernel(const STORED* __restrict__ z, int stride, int width, int64_t n_rows,
                      const unsigned short* __restrict__ sorted_leaves, const int* __restrict__ sorted_rows,
                      const QrLeaf* __restrict__ leaves, const QrColumn* __restrict__ columns,
                      const double* __restrict__ means, double* __restrict__ matrices) {
  const int64_t at = int64_t(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (at >= n_rows) return;
  const QrLeaf leaf = leaves[sorted_leaves[at]];
  const STORED* row = z + int64_t(sorted_rows[at]) * stride;
  double* to = matrices + leaf.matrix + (at - leaf.first);
#pragma unroll 4
  for (int k = 0; k < leaf.n_columns; ++k) {
    const QrColumn column = columns[leaf.first_column + k];
    double value = row[column.column];
    if (column.indicator >= 0) value += product(means[leaf.first_column + k], double(row[column.indicator]));
    to[k * leaf.count] = value;
  }
  to[leaf.n_columns * leaf.count] = row[width - 1];
}

}  // namespace glasswood
