// How small leaves and how large trees may become.
#pragma once
#include <algorithm>
#include <cmath>

#include "grow/data/box.h"

namespace silva {

struct GrowLimits {
  int min_samples_leaf = 5;
  int max_leaves = 64;
  int max_depth = kMaxDepth;
  double rows_per_parameter = 1;  // of a leaf's model, intercept included

  // Of a leaf with this model.
  int least_rows(const FeatureSet& model) const {
    const int by_model = int(std::ceil(rows_per_parameter * (model.count() + 1)));
    return std::max({min_samples_leaf, model.count() + 2, by_model});
  }
  // In the model of a leaf of so many rows.
  int most_features(int64_t n_rows) const {
    const double by_rows = double(n_rows) / std::max(rows_per_parameter, 1.0) - 1;
    return std::max(0, int(std::min<double>(double(n_rows - 2), by_rows)));
  }
};

}  // namespace silva
