// The arithmetic of growing, compiled once an instruction set (grow/cpu/kernels.cpp) and chosen at run time.
#pragma once
#include <cstddef>
#include <cstdint>

namespace glasswood {

constexpr int kFilterLanes = 16;

// Rows whose rank r has 0 <= r - low < span, and those without a value (rank -1) if `missing`.
struct RankInterval {
  const int32_t* ranks;
  int32_t low;
  uint32_t span;
  bool missing;
};

// Rows of z, `stride` numbers each, as they are stored: one of the pointers is set. All arithmetic is float64.
struct StoredRows {
  const double* doubles = nullptr;
  const float* floats = nullptr;
  size_t stride = 0;

  [[gnu::always_inline]] double at(int64_t row, int column) const {
    return floats ? double(floats[size_t(row) * stride + column]) : doubles[size_t(row) * stride + column];
  }
};

struct GrowKernels {
  // sums += sum z z' over the named rows, in their order.
  void (*accumulate)(const StoredRows& z, int width, const int32_t* rows, size_t n_rows, double* sums);
  // Residual sum of squares of one packed Gram matrix.
  double (*residual)(const double* gram, int width, const int32_t* columns, int n_columns, double* work);
  // The same of kLanes Gram matrices: entry p of lane l at grams[p * stride + l].
  void (*residuals)(const double* grams, size_t stride, int width, const int32_t* columns, int n_columns, double* work,
                    double* result);
  // The symmetric sweep operator, or its inverse.
  void (*pivot)(double* matrix, size_t pitch, int side, const char* live, int k, double direction, double* row);
  // Writes for every row the residual of column `y`, and the residual times the columns, whitened by their Cholesky
  // factor, a column of which is a line of `factor`: lines of score_pitch() floats.
  void (*score)(const StoredRows& z, const int32_t* rows, size_t n_rows, const int32_t* columns, int n_columns, int y,
                const double* factor, float* scores, double* residuals);
  // sum += the named lines of scores.
  void (*add_rows)(const float* lines, int pitch, const int32_t* rows, size_t n_rows, double* sum);
  // Rows of 0 .. n_rows - 1 that lie in all intervals, rising; returns how many. `rows` has room for kFilterLanes more.
  int64_t (*filter)(const RankInterval* intervals, int n_intervals, int64_t n_rows, int32_t* rows);
  // Stable partition of rows: those that lie in the interval first; returns how many. `spare` has room for all rows and
  // kFilterLanes more.
  int64_t (*partition)(const RankInterval& interval, int32_t* rows, int64_t count, int32_t* spare);
};

const GrowKernels& grow_kernels();

}  // namespace glasswood
