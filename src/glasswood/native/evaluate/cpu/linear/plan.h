// The linear models of a forest's leaves, laid out for evaluate/cpu/linear/leaves.h.
#pragma once
#include <limits>
#include <vector>

#include "common/forest_view.h"
#include "common/linear_term.h"
#include "evaluate/cpu/linear/leaves.h"

namespace glasswood {

// Empty where leaves are constant.
class LinearPlan {
 public:
  explicit LinearPlan(const ForestView& forest) {
    if (!forest.is_linear()) return;
    weight_.assign(forest.tree_weight.begin(), forest.tree_weight.end());
    category_.assign(forest.linear_category.begin(), forest.linear_category.end());
    for (const double mean : forest.linear_mean)
      if (mean != 0) mean_.assign(forest.linear_mean.begin(), forest.linear_mean.end());
    add_terms(forest);
    for (size_t leaf = 0; leaf < forest.leaf_value.size(); ++leaf) add_leaf(forest, leaf);
    models_.push_back({0, int64_t(terms_.size())});
    for (int64_t node = 0, leaf = 0, tree = 0; tree <= forest.n_trees(); ++tree) {
      for (; node < forest.tree_offsets[tree]; ++node) leaf += !forest.is_split(node);
      first_leaf_.push_back(leaf);
    }
  }
  bool empty() const { return models_.empty(); }
  LinearLeaves view() const {
    if (empty()) return {};
    return {&linear_kernels(),
            terms_.data(),
            category_.data(),
            mean_.empty() ? nullptr : mean_.data(),
            models_.data(),
            bounds_.data(),
            first_leaf_.data(),
            weight_.data(),
            features_.data(),
            int32_t(features_.size()),
            plain_,
            in_lanes()};
  }

 private:
  std::vector<LinearTerm> terms_;
  std::vector<int32_t> category_;
  std::vector<double> mean_;
  std::vector<LinearModel> models_;
  std::vector<LinearBounds> bounds_;
  std::vector<int64_t> first_leaf_;
  std::vector<double> weight_;
  std::vector<int32_t> features_;  // rising
  bool plain_ = true;

  // Laying a row out costs what this number of its terms saves.
  bool in_lanes() const {
    constexpr double kLayOut = 1;
    const double n_terms = double(terms_.size()) / double(bounds_.size()) * double(weight_.size());
    return n_terms > kLayOut * double(features_.size());
  }

  void add_terms(const ForestView& forest) {
    std::vector<int32_t> column(forest.n_features, -1);
    for (const int32_t feature : forest.linear_feature) column[feature] = 0;
    for (int32_t feature = 0; feature < forest.n_features; ++feature)
      if (column[feature] == 0) {
        column[feature] = int32_t(features_.size()) * kLinearGroup;
        features_.push_back(feature);
      }
    for (size_t term = 0; term < forest.linear_feature.size(); ++term) {
      const int32_t feature = forest.linear_feature[term];
      terms_.push_back({forest.linear_coefficient[term], feature, column[feature]});
    }
  }

  void add_leaf(const ForestView& forest, size_t leaf) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double low = forest.leaf_range[2 * leaf], high = forest.leaf_range[2 * leaf + 1];
    bool plain = true;
    for (int64_t t = forest.linear_offsets[leaf]; t < forest.linear_offsets[leaf + 1]; ++t)
      plain &= forest.linear_category[t] == kTermOfNumber;
    plain_ &= plain && low == -kInfinity && high == kInfinity;
    models_.push_back({forest.leaf_value[leaf], forest.linear_offsets[leaf]});
    bounds_.push_back({low, high, forest.leaf_missing.empty() ? kNoValue : forest.leaf_missing[leaf], plain});
  }
};

}  // namespace glasswood
