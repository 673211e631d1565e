// How small leaves and how large trees may become.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "grow/data/box.h"

namespace glasswood {

struct GrowLimits {
  int min_samples_leaf = 5;
  int max_leaves = 64;
  int max_depth = kMaxDepth;
  double rows_per_parameter = 1;  // of a leaf's model, intercept included
  int max_terms = -1;             // of a leaf's model; -1: any number
  std::vector<int> term;          // by feature: columns of one number are one term

  // The fewest rows of a leaf with this model.
  int least_rows(const FeatureSet& model) const {
    const int by_model = int(std::ceil(rows_per_parameter * (model.count() + 1)));
    return std::max({min_samples_leaf, model.count() + 2, by_model});
  }
  // In the model of a leaf of `n_rows` rows.
  int most_features(int64_t n_rows) const {
    const double by_rows = double(n_rows) / std::max(rows_per_parameter, 1.0) - 1;
    return std::max(0, int(std::min<double>(double(n_rows - 2), by_rows)));
  }
  bool has_room(const FeatureSet& model) const {
    if (max_terms < 0 || model.count() <= max_terms) return true;
    std::vector<char> seen(term.size(), 0);
    int n_terms = 0;
    for (int a = 0; a < int(term.size()); ++a)
      if (model.has(a) && !seen[term[a]]) seen[term[a]] = 1, ++n_terms;
    return n_terms <= max_terms;
  }
};

}  // namespace glasswood
