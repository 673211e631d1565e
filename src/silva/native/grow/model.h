// Attributes of a leaf model: backward elimination on the inverse of the centred Gram matrix.
#pragma once
#include <vector>

#include "grow/evaluate.h"

namespace silva {

// Normal equations of the attributes that are neither constant nor collinear in the leaf, in the form (C, beta) with
// C the inverse of their centred sums of squares and beta the coefficients.
class Elimination {
 public:
  Elimination(const double* gram, int width, const std::vector<int32_t>& columns) : width_(width) {
    const int n = int(columns.size()), y = width - 1;
    std::vector<double> centred(size_t(n + 1) * (n + 1));
    const auto at = [&](int i) { return i < n ? columns[i] : y; };
    const auto raw = [&](int i, int j) { return gram[packed(at(i), at(j), width)]; };
    const auto sum = [&](int i) { return gram[packed(0, at(i), width)]; };
    for (int i = 0; i <= n; ++i)
      for (int j = 0; j <= n; ++j) centred[i * (n + 1) + j] = raw(i, j) - sum(i) * sum(j) / gram[0];
    keep_.assign(n, false);
    sweep_in(centred, columns, gram);
  }

  bool kept(int i) const { return keep_[i]; }
  double residual() const { return std::max(residual_, 0.0); }

  // The attribute whose removal raises the residual least, and by how much.
  std::pair<int, double> cheapest() const {
    int best = -1;
    double least = 0;
    for (int i = 0; i < int(keep_.size()); ++i) {
      if (!keep_[i]) continue;
      const double rise = beta(i) * beta(i) / inverse(i, i);
      if (best < 0 || rise < least) best = i, least = rise;
    }
    return {best, least};
  }

  void remove(int k) {
    residual_ += beta(k) * beta(k) / inverse(k, k);
    sweep(k, -1);
    keep_[k] = false;
  }

 private:
  int side() const { return int(keep_.size()) + 1; }
  double inverse(int i, int j) const { return -matrix_[i * side() + j]; }
  double beta(int i) const { return matrix_[i * side() + side() - 1]; }

  void sweep_in(std::vector<double>& centred, const std::vector<int32_t>& columns, const double* gram) {
    matrix_ = std::move(centred);
    const int n = side() - 1;
    std::vector<double> start(n);
    for (int i = 0; i < n; ++i) start[i] = matrix_[i * side() + i];
    for (int k = 0; k < n; ++k) {
      const double raw = gram[packed(columns[k], columns[k], width_)];
      if (matrix_[k * side() + k] <= std::max(kCollinear * start[k], kConstant * raw)) continue;
      sweep(k, 1);
      keep_[k] = true;
    }
    residual_ = matrix_[n * side() + n];
  }

  // The symmetric sweep operator (Goodnight 1979) and its inverse.
  void sweep(int k, double direction) {
    const int m = side();
    const double pivot = matrix_[k * m + k];
    row_.assign(matrix_.begin() + k * m, matrix_.begin() + (k + 1) * m);
    for (int i = 0; i < m; ++i) {
      if (i == k) continue;
      const double factor = row_[i] / pivot;
      for (int j = 0; j < m; ++j) matrix_[i * m + j] -= factor * row_[j];
    }
    for (int j = 0; j < m; ++j) matrix_[k * m + j] = matrix_[j * m + k] = direction * row_[j] / pivot;
    matrix_[k * m + k] = -1 / pivot;
  }

  int width_;
  std::vector<double> matrix_, row_;
  std::vector<bool> keep_;
  double residual_ = 0;
};

// Whether a column does not vary in the leaf, up to rounding: the elimination would leave it out, at full cost.
inline bool is_constant(const double* gram, int column, int width) {
  const double sum = gram[packed(0, column, width)], raw = gram[packed(column, column, width)];
  return raw - sum * sum / gram[0] <= kConstant * raw;
}

// The best model on the path of backward elimination from `start`: least error plus `price` per attribute, with at
// most `most` attributes.
inline AttributeSet select_model(const Evaluator& evaluator, const LeafStats& stats, const AttributeSet& start,
                                 double price, int most, Scratch& s) {
  const GrowData& data = evaluator.data();
  const double* gram = evaluator.imputed(stats.gram, s);
  std::vector<int32_t> attributes, columns;
  for (int a = 0; a < data.n_attributes; ++a)
    if (data.column[a] >= 0 && start.has(a) && !is_constant(gram, data.column[a], data.width))
      attributes.push_back(a), columns.push_back(data.column[a]);
  Elimination path(gram, data.width, columns);
  AttributeSet model(data.n_attributes);
  for (size_t i = 0; i < columns.size(); ++i) model.set(attributes[i], path.kept(int(i)));
  for (;;) {
    const auto [worst, rise] = path.cheapest();
    if (worst < 0 || (rise >= price && model.count() <= most)) return model;
    path.remove(worst);
    model.set(attributes[worst], false);
  }
}

}  // namespace silva
