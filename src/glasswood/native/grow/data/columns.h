// The columns of z that the sums of a leaf take.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "grow/data/dataset.h"
#include "grow/data/tree.h"
#include "grow/sums/gram.h"

namespace glasswood {

inline FeatureSet all_features(const GrowData& data) {
  FeatureSet all(data.n_features);
  for (int a = 0; a < data.n_features; ++a) all.set(a, data.column[a] >= 0);
  return all;
}

// Columns of z of the intercept and the model.
inline void model_columns(const GrowData& data, const FeatureSet& model, std::vector<int32_t>& columns) {
  columns.assign(1, 0);
  for (int a = 0; a < data.n_features; ++a)
    if (data.column[a] >= 0 && model.has(a)) columns.push_back(data.column[a]);
}

// Positions of a column and of the indicator of its missing values.
using Imputed = std::vector<std::pair<int32_t, int32_t>>;

// Missing values stand as 0 in the sums; the indicator columns tell how many and beside what. The congruence puts the
// leaf's own mean in their place.
inline void impute(const Imputed& imputed, int width, double* gram) {
  for (const auto& [column, indicator] : imputed) {
    const double present = gram[0] - gram[packed(0, indicator, width)];
    const double mean = present > 1e-12 * gram[0] ? gram[packed(0, column, width)] / present : 0;
    const double both = gram[packed(column, indicator, width)], marks = gram[packed(indicator, indicator, width)];
    for (int b = 0; b < width; ++b)
      if (b != column) gram[packed(column, b, width)] += mean * gram[packed(indicator, b, width)];
    gram[packed(column, column, width)] += 2 * mean * both + mean * mean * marks;
  }
}

// What the model of a leaf needs of z: all columns, or those of the model alone where that saves whole vectors.
class ModelColumns {
 public:
  ModelColumns() = default;
  ModelColumns(const GrowData& data, const FeatureSet& model) : is_all_(false) {
    std::vector<char> needed(data.width, 0);
    needed[0] = needed[data.width - 1] = 1;
    for (int a = 0; a < data.n_features; ++a) {
      if (data.column[a] < 0 || !model.has(a)) continue;
      needed[data.column[a]] = 1;
      if (data.indicator[a] >= 0) needed[data.indicator[a]] = 1;
    }
    const int n_needed = int(std::count(needed.begin(), needed.end(), 1));
    is_all_ = padded(n_needed) == padded(data.width);
    std::vector<int32_t> position(data.width, -1);
    for (int c = 0; c < data.width; ++c) {
      if (!needed[c] && !is_all_) continue;
      position[c] = int32_t(taken_.size());
      taken_.push_back(c);
    }
    solved_.assign(1, 0);
    for (int a = 0; a < data.n_features; ++a) {
      if (data.column[a] < 0 || position[data.column[a]] < 0) continue;
      if (model.has(a)) solved_.push_back(position[data.column[a]]);
      if (data.indicator[a] >= 0) imputed_.emplace_back(position[data.column[a]], position[data.indicator[a]]);
    }
  }

  bool is_all() const { return is_all_; }
  int width() const { return int(taken_.size()); }
  size_t n_entries() const { return packed_size(width()); }
  const std::vector<int32_t>& taken() const { return taken_; }    // columns of z, rising
  const std::vector<int32_t>& solved() const { return solved_; }  // positions of the intercept and the model
  const Imputed& imputed() const { return imputed_; }

 private:
  static int padded(int n) { return (n + kLanes - 1) / kLanes; }

  bool is_all_ = true;
  std::vector<int32_t> taken_, solved_;
  Imputed imputed_;
};

}  // namespace glasswood
