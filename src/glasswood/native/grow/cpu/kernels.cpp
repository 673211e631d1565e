// The kernels of growing for one instruction set, under the rule of common/instruction_set.h. GLASSWOOD_KERNELS names
// the table.
#include "grow/sums/kernels.h"

#include "grow/sums/filter.h"
#include "grow/sums/gram.h"

namespace glasswood {
extern const GrowKernels GLASSWOOD_KERNELS;
namespace {

void accumulate_kernel(const StoredRows& z, int width, const int32_t* rows, size_t n_rows, double* sums) {
  if (z.floats)
    accumulate(z.floats, z.stride, width, rows, n_rows, sums);
  else
    accumulate(z.doubles, z.stride, width, rows, n_rows, sums);
}

double residual_kernel(const double* gram, int width, const int32_t* columns, int n_columns, double* work) {
  return residual<double>([gram](size_t entry) { return gram[entry]; }, width, columns, n_columns, work);
}

void residuals_kernel(const double* grams, size_t stride, int width, const int32_t* columns, int n_columns,
                      double* work, double* result) {
  for (int first = 0; first < kLanes; first += kVectorDoubles) {
    const auto load = [grams, stride, first](size_t entry) {
      Doubles lanes;
      __builtin_memcpy(&lanes, grams + entry * stride + first, sizeof lanes);
      return lanes;
    };
    const Doubles sums = residual<Doubles>(load, width, columns, n_columns, reinterpret_cast<Doubles*>(work));
    __builtin_memcpy(result + first, &sums, sizeof sums);
  }
}

void pivot_kernel(double* matrix, size_t pitch, int side, const char* live, int k, double direction, double* row) {
  pivot(matrix, pitch, side, live, k, direction, row);
}

void score_kernel(const StoredRows& z, const int32_t* rows, size_t n_rows, const int32_t* columns, int n_columns, int y,
                  const double* factor, float* scores, double* residuals) {
  score(z, rows, n_rows, columns, n_columns, y, factor, scores, residuals);
}

void add_rows_kernel(const float* lines, int pitch, const int32_t* rows, size_t n_rows, double* sum) {
  add_rows(lines, pitch, rows, n_rows, sum);
}

int64_t filter_kernel(const RankInterval* intervals, int n_intervals, int64_t n_rows, int32_t* rows) {
  return filter_rows(intervals, n_intervals, n_rows, rows);
}

int64_t partition_kernel(const RankInterval& interval, int32_t* rows, int64_t count, int32_t* spare) {
  return partition_rows(interval, rows, count, spare);
}

}  // namespace
const GrowKernels GLASSWOOD_KERNELS = {accumulate_kernel, residual_kernel, residuals_kernel, pivot_kernel,
                                       score_kernel,      add_rows_kernel, filter_kernel,    partition_kernel};
}  // namespace glasswood
