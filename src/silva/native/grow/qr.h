// The paper's own evaluation (section 4.3): every row is sent to its leaf, rows are brought together by leaf, every
// leaf is solved by a QR decomposition and the errors are summed in a pass over the rows.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "grow/box.h"
#include "grow/gram.h"

namespace silva {

class PaperEvaluation {
 public:
  explicit PaperEvaluation(const GrowData& data) : data_(data) {}

  // The leaf of every row.
  void redistribute(const GrowTree& tree) {
    leaf_of_.resize(data_.n_rows);
    counts_.assign(tree.nodes.size(), 0);
    for (int32_t row = 0; row < data_.n_rows; ++row) ++counts_[leaf_of_[row] = route(data_, tree, 0, row)];
  }

  // Rows in the order of their leaves.
  void separate() {
    std::vector<int64_t> next(counts_.size(), 0);
    for (size_t v = 1; v < counts_.size(); ++v) next[v] = next[v - 1] + counts_[v - 1];
    rows_.resize(data_.n_rows);
    for (int32_t row = 0; row < data_.n_rows; ++row) rows_[next[leaf_of_[row]]++] = row;
  }

  int64_t count(int leaf) const { return counts_[leaf]; }

  // Sum of squared residuals of one leaf's regression on the given columns of z, the intercept first.
  double leaf_error(int leaf, const std::vector<int32_t>& columns) {
    reorganise(leaf, columns);
    calc_models(int(columns.size()));
    return estimate_errors(int(columns.size()));
  }

 private:
  double* column(int k) { return matrix_.data() + k * n_; }

  // The leaf's design matrix by columns, y behind them, missing values replaced by the leaf's mean.
  void reorganise(int leaf, const std::vector<int32_t>& columns) {
    int64_t first = 0;
    for (int v = 0; v < leaf; ++v) first += counts_[v];
    n_ = counts_[leaf];
    const int n_columns = int(columns.size());
    matrix_.resize((n_columns + 1) * n_);
    for (int k = 0; k <= n_columns; ++k) {
      const int at = k < n_columns ? columns[k] : data_.width - 1;
      for (int64_t i = 0; i < n_; ++i) column(k)[i] = data_.z[int64_t(rows_[first + i]) * data_.stride + at];
      if (k < n_columns) fill_missing(at, first, column(k));
    }
    values_ = matrix_;
  }

  void fill_missing(int at, int64_t first, double* values) {
    int indicator = -1;
    for (int a = 0; a < data_.n_attributes; ++a)
      if (data_.column[a] == at) indicator = data_.indicator[a];
    if (indicator < 0) return;
    double sum = 0, present = 0;
    for (int64_t i = 0; i < n_; ++i) {
      const double* z = data_.z + int64_t(rows_[first + i]) * data_.stride;
      sum += z[0] * z[at];
      present += z[0] * (z[0] - z[indicator]);
    }
    if (present <= 0) return;
    for (int64_t i = 0; i < n_; ++i)
      values[i] += sum / present * data_.z[int64_t(rows_[first + i]) * data_.stride + indicator];
  }

  double dot(const double* a, const double* b) const {
    double sum = 0;
    for (int64_t i = 0; i < n_; ++i) sum += a[i] * b[i];
    return sum;
  }

  // QR by modified Gram-Schmidt with y as the last column, which is backward stable for least squares (Björck 1967);
  // then back substitution. A column without a part of its own gets the coefficient 0.
  void calc_models(int n_columns) {
    const int side = n_columns + 1;
    triangle_.assign(size_t(side) * side, 0);
    std::vector<double> raw(side), centred(side);
    for (int k = 0; k < side; ++k) raw[k] = dot(column(k), column(k));
    for (int k = 0; k < n_columns; ++k) {
      const double square = dot(column(k), column(k));
      if (k && square <= std::max(kCollinear * centred[k], kConstant * raw[k])) continue;
      const double length = triangle_[k * side + k] = std::sqrt(square);
      for (int64_t i = 0; i < n_; ++i) column(k)[i] /= length;
      for (int j = k + 1; j < side; ++j) {
        const double part = triangle_[k * side + j] = dot(column(k), column(j));
        for (int64_t i = 0; i < n_; ++i) column(j)[i] -= part * column(k)[i];
        if (k == 0) centred[j] = dot(column(j), column(j));
      }
    }
    coefficients_.assign(n_columns, 0);
    for (int k = n_columns - 1; k >= 0; --k) {
      if (triangle_[k * side + k] == 0) continue;
      double rest = triangle_[k * side + n_columns];
      for (int j = k + 1; j < n_columns; ++j) rest -= triangle_[k * side + j] * coefficients_[j];
      coefficients_[k] = rest / triangle_[k * side + k];
    }
  }

  double estimate_errors(int n_columns) const {
    double sum = 0;
    for (int64_t i = 0; i < n_; ++i) {
      double residual = values_[n_columns * n_ + i];
      for (int k = 0; k < n_columns; ++k) residual -= coefficients_[k] * values_[k * n_ + i];
      sum += residual * residual;
    }
    return sum;
  }

  const GrowData& data_;
  std::vector<int32_t> leaf_of_, rows_;
  std::vector<int64_t> counts_;
  std::vector<double> matrix_, values_, triangle_, coefficients_;
  int64_t n_ = 0;
};

}  // namespace silva
