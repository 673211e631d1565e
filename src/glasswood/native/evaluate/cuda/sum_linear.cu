// Margins from leaves that hold linear models (glasswood/evaluate/linear.py): base score, then the trees in their
// order. A missing value counts as its mean, or takes the leaf back to a constant (missing is null or [leaf]).
//
// Macros: INPUT (type of X), RESULT.
#define GLASSWOOD_DEVICE __device__ __forceinline__
#include "common/linear_term.h"

using Input = INPUT;
using Result = RESULT;

namespace glasswood {

struct LinearLeaves {
  const double* value;
  const long long* offsets;
  const int *feature, *category;
  const double *coefficient, *mean, *range, *missing;
};

__device__ __forceinline__ double value_of(const LinearLeaves& leaves, int leaf, const Input* row,
                                           long long feature_stride) {
  double sum = 0;
  bool is_missing = false;
  for (long long term = leaves.offsets[leaf]; term < leaves.offsets[leaf + 1]; ++term) {
    const double x = double(row[leaves.feature[term] * feature_stride]);
    is_missing |= lacks_number(x, leaves.category[term]);
    sum += leaves.coefficient[term] * term_deviation(x, leaves.category[term], leaves.mean[term]);
  }
  return model_value(leaves.value[leaf] + sum, is_missing && leaves.missing, leaves.missing ? leaves.missing[leaf] : 0,
                     leaves.range[2 * leaf], leaves.range[2 * leaf + 1]);
}

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(128)
    sum_linear_kernel(const int* __restrict__ leaves, long long stride, int n_rows, const double* __restrict__ value,
                      const long long* __restrict__ offsets, const int* __restrict__ feature,
                      const int* __restrict__ category, const double* __restrict__ coefficient,
                      const double* __restrict__ mean, const double* __restrict__ range,
                      const double* __restrict__ missing, const double* __restrict__ weight, int n_outputs,
                      const int* __restrict__ starts, const int* __restrict__ trees,
                      const double* __restrict__ base_score, const Input* __restrict__ X, long long row_stride,
                      long long feature_stride, Result* __restrict__ result) {
  using namespace glasswood;
  const int row = blockIdx.x * 128 + threadIdx.x, output = blockIdx.y;
  if (row >= n_rows) return;
  const LinearLeaves models{value, offsets, feature, category, coefficient, mean, range, missing};
  double sum = base_score[output];
  for (int at = starts[output]; at < starts[output + 1]; ++at) {
    const int tree = trees[at];
    sum += weight[tree] * value_of(models, leaves[tree * stride + row], X + row * row_stride, feature_stride);
  }
  result[row * static_cast<long long>(n_outputs) + output] = Result(sum);
}
