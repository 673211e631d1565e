// Features of a leaf model: backward elimination on the inverse of the centred Gram matrix.
#pragma once
#include <vector>

#include "grow/data/buffers.h"
#include "grow/data/columns.h"
#include "grow/data/limits.h"
#include "grow/sums/kernels.h"
#include "grow/sums/tolerances.h"

namespace glasswood {

// Normal equations of the features that are neither constant nor collinear in the leaf, in the form (C, beta) with
// C the inverse of their centred sums of squares and beta the coefficients.
class Elimination {
 public:
  // Columns rise.
  Elimination(const GrowKernels& kernels, const double* gram, int width, const std::vector<int32_t>& columns,
              Buffers& buffers)
      : kernels_(kernels),
        n_(int(columns.size())),
        pitch_(size_t(n_ + kLanes) / kLanes * kLanes),
        work_(buffers, (n_ + 2) * pitch_) {
    matrix_ = work_.data(), row_ = matrix_ + (n_ + 1) * pitch_;
    live_.assign(n_ + 1, 1);
    kept_.assign(n_, 0);
    start(gram, width, columns);
    pivot_in(gram, width, columns);
  }

  bool kept(int i) const { return kept_[i]; }
  double residual() const { return std::max(residual_, 0.0); }

  // The feature whose removal raises the residual least, and by how much.
  std::pair<int, double> cheapest() const {
    int best = -1;
    double least = 0;
    for (int i = 0; i < n_; ++i) {
      if (!kept_[i]) continue;
      const double rise = beta(i) * beta(i) / inverse(i);
      if (best < 0 || rise < least) best = i, least = rise;
    }
    return {best, least};
  }

  // What the removal of several features raises the residual by: their part of beta' C beta, C inverted on it.
  double rise(const std::vector<int>& features) const {
    const int n = int(features.size());
    std::vector<double> factor(n * n), half(n);
    double total = 0;
    for (int i = 0; i < n; ++i) {
      half[i] = beta(features[i]);
      for (int j = 0; j <= i; ++j) {
        double sum = -line(features[j])[features[i]];
        for (int k = 0; k < j; ++k) sum -= factor[i * n + k] * factor[j * n + k];
        factor[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / factor[j * n + j];
        if (j < i) half[i] -= factor[i * n + j] * half[j];
      }
      half[i] /= factor[i * n + i];
      total += half[i] * half[i];
    }
    return total;
  }

  void remove(int k) {
    residual_ += beta(k) * beta(k) / inverse(k);
    pivot(k, -1);
    kept_[k] = live_[k] = 0;
  }

 private:
  double* line(int i) const { return matrix_ + i * pitch_; }
  double inverse(int i) const { return -line(i)[i]; }
  double beta(int i) const { return line(i)[n_]; }
  void pivot(int k, double direction) { kernels_.pivot(matrix_, pitch_, n_ + 1, live_.data(), k, direction, row_); }

  // The upper triangle about the leaf's means.
  void start(const double* gram, int width, const std::vector<int32_t>& columns) {
    const auto at = [&](int i) { return i < n_ ? columns[i] : width - 1; };
    for (int i = 0; i <= n_; ++i) {
      const double *raw = gram + packed(at(i), at(i), width) - at(i), sum = gram[at(i)];
      std::fill(line(i), line(i) + pitch_, 0.0);
      for (int j = i; j <= n_; ++j) line(i)[j] = raw[at(j)] - sum * gram[at(j)] / gram[0];
    }
  }

  void pivot_in(const double* gram, int width, const std::vector<int32_t>& columns) {
    std::vector<double> start(n_);
    for (int i = 0; i < n_; ++i) start[i] = line(i)[i];
    for (int k = 0; k < n_; ++k) {
      const double raw = gram[packed(columns[k], columns[k], width)];
      kept_[k] = live_[k] = line(k)[k] > std::max(kCollinear * start[k], kConstant * raw);
      if (kept_[k]) pivot(k, 1);
    }
    residual_ = line(n_)[n_];
  }

  const GrowKernels& kernels_;
  int n_;
  size_t pitch_;
  Buffers::Array<double> work_;
  double *matrix_, *row_;  // y behind the columns
  std::vector<char> live_, kept_;
  double residual_ = 0;
};

// Whether a column does not vary in the leaf, up to rounding: the elimination would leave it out, at full cost.
inline bool is_constant(const double* gram, int column, int width) {
  const double sum = gram[packed(0, column, width)], raw = gram[packed(column, column, width)];
  return raw - sum * sum / gram[0] <= kConstant * raw;
}

// The features of the term whose removal raises the residual least.
inline std::vector<int> cheapest_term(const Elimination& path, const std::vector<int32_t>& features,
                                      const std::vector<int>& term) {
  std::vector<std::vector<int>> members(term.size());
  for (int i = 0; i < int(features.size()); ++i)
    if (path.kept(i)) members[term[features[i]]].push_back(i);
  std::erase_if(members, [](const auto& one) { return one.empty(); });
  return *std::min_element(members.begin(), members.end(),
                           [&](const auto& a, const auto& b) { return path.rise(a) < path.rise(b); });
}

// The best model on the path of backward elimination from `start`: least error plus `price` per feature, with no more
// features than the leaf's rows allow, nor more terms than the limits do.
inline FeatureSet select_model(const GrowData& data, const GrowLimits& limits, const double* gram, int64_t n_rows,
                               const FeatureSet& start, double price, Buffers& buffers) {
  const int most = limits.most_features(n_rows);
  std::vector<int32_t> features, columns;
  for (int a = 0; a < data.n_features; ++a)
    if (data.column[a] >= 0 && start.has(a) && !is_constant(gram, data.column[a], data.width))
      features.push_back(a), columns.push_back(data.column[a]);
  Elimination path(grow_kernels(), gram, data.width, columns, buffers);
  FeatureSet model(data.n_features);
  for (size_t i = 0; i < columns.size(); ++i) model.set(features[i], path.kept(int(i)));
  const auto remove = [&](int i) {
    path.remove(i);
    model.set(features[i], false);
  };
  for (;;) {
    const auto [worst, rise] = path.cheapest();
    if (worst >= 0 && (rise < price || model.count() > most)) {
      remove(worst);
    } else if (!limits.has_room(model)) {
      for (const int i : cheapest_term(path, features, limits.term)) remove(i);
    } else {
      return model;
    }
  }
}

}  // namespace glasswood
