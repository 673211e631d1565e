// Weighted mean of the present values of a leaf's columns that have missing ones; rows are scaled by the root of their
// weight. A block averages one column.
//
// Macro: STORED, type of the numbers of z.
#include "reference/grow/cuda/kernels/warp_sum.cuh"
#include "reference/grow/cuda/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kAverageThreads)
    average_columns_kernel(const STORED* __restrict__ z, int stride, const int* __restrict__ sorted_rows,
                           const QrLeaf* __restrict__ leaves, int n_leaves, const QrColumn* __restrict__ columns,
                           double* __restrict__ means) {
  constexpr int WARPS = kAverageThreads / kSumLanes;
  __shared__ double sums[WARPS], presents[WARPS];
  const QrLeaf leaf = leaves[record_of(leaves, n_leaves, &QrLeaf::first_column, blockIdx.x)];
  const QrColumn column = columns[blockIdx.x];
  if (column.indicator < 0) return;
  const int warp = threadIdx.x / kSumLanes;
  const int64_t turns = (leaf.count - warp * kSumLanes + kAverageThreads - 1) / kAverageThreads;
  const auto row_of = [&](int64_t i) {
    const int64_t at = i / kSumLanes * kAverageThreads + warp * kSumLanes + i % kSumLanes;
    return at < leaf.count ? z + int64_t(sorted_rows[leaf.first + at]) * stride : nullptr;
  };
  const double sum = warp_sum(turns * kSumLanes, [&](int64_t i) {
    const STORED* row = row_of(i);
    return row ? product(double(row[0]), double(row[column.column])) : 0;
  });
  const double present = warp_sum(turns * kSumLanes, [&](int64_t i) {
    const STORED* row = row_of(i);
    return row ? product(double(row[0]), double(row[0]) - double(row[column.indicator])) : 0;
  });
  if (threadIdx.x % kSumLanes == 0) sums[warp] = sum, presents[warp] = present;
  __syncthreads();
  if (threadIdx.x) return;
  double total = sums[0], weight = presents[0];
  for (int w = 1; w < WARPS; ++w) total += sums[w], weight += presents[w];
  means[blockIdx.x] = weight > 0 ? total / weight : 0;
}

}  // namespace glasswood
