// The arrays of a Forest as C++ spans, and the coding of rows that all plans share.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/rows.h"
#include "common/split.h"

namespace glasswood {

// Validated (glasswood.model.validation) before any plan is built.
struct ForestView {
  std::span<const int64_t> tree_offsets;
  std::span<const int32_t> feature;
  std::vector<double> threshold;
  std::span<const int32_t> left;
  std::span<const bool> default_left;
  std::span<const double> cover;
  std::span<const double> leaf_value;  // [leaf][width]
  std::span<const int32_t> leaf_id;
  std::span<const int32_t> tree_output;
  std::span<const double> tree_weight;
  std::span<const double> base_score;
  std::span<const int32_t> category_set;  // empty: no categorical split
  std::span<const int64_t> set_offsets;
  std::span<const uint32_t> set_words;
  std::span<const bool> set_others_left;
  std::span<const bool> zero_missing;       // empty: none
  std::span<const int64_t> linear_offsets;  // terms of each leaf's linear model; empty: constant leaves
  std::span<const int32_t> linear_feature;
  std::span<const int32_t> linear_category;  // what a term takes of its feature (common/linear_term.h)
  std::span<const double> linear_coefficient, linear_mean;
  std::span<const double> leaf_range;    // [leaf][2]
  std::span<const double> leaf_missing;  // of rows that lack a number; empty: they count as their means
  double zero_threshold;
  int32_t n_features;
  int32_t width;
  bool row_is_double;

  int32_t n_trees() const { return int32_t(tree_offsets.size()) - 1; }
  int32_t n_outputs() const { return int32_t(base_score.size()); }
  bool is_categorical(int64_t node) const { return !category_set.empty() && category_set[node] >= 0; }
  bool is_linear() const { return !linear_offsets.empty(); }
  bool is_split(int64_t node) const { return feature[node] >= 0; }
};

// How rows become the numbers that kernels compare, and the forest's thresholds in the same numbers.
struct Coding {
  std::vector<uint8_t> flags;
  std::vector<int64_t> first;
  std::vector<double> thresholds;
  std::vector<int32_t> used;   // features of any split, rising
  std::vector<float> encoded;  // [node]; NaN: every number goes left; 0 at leaves and categorical splits
  double zero_threshold;
  bool ranked;

  explicit Coding(const ForestView& forest)
      : flags(forest.n_features, 0),
        first(forest.n_features + 1, 0),
        encoded(forest.feature.size(), 0.0f),
        zero_threshold(forest.zero_threshold),
        ranked(forest.row_is_double) {
    for (size_t f = 0; f < forest.zero_missing.size(); ++f)
      if (forest.zero_missing[f]) flags[f] |= kZeroIsMissing;
    if (ranked) collect_thresholds(forest);
    std::vector<bool> is_used(forest.n_features, false);
    for (const int32_t feature : forest.feature)
      if (feature >= 0) is_used[feature] = true;
    for (int32_t f = 0; f < forest.n_features; ++f)
      if (is_used[f]) used.push_back(f);
    for (size_t node = 0; node < encoded.size(); ++node)
      if (forest.is_split(node) && !forest.is_categorical(node)) encoded[node] = encode(forest, node);
  }

  RowCoding view() const {
    return {int32_t(flags.size()), ranked,      zero_threshold,      flags.data(), first.data(),
            thresholds.data(),     used.data(), int32_t(used.size())};
  }

 private:
  void collect_thresholds(const ForestView& forest) {
    std::vector<std::vector<double>> of(forest.n_features);
    for (size_t node = 0; node < forest.feature.size(); ++node) {
      if (!forest.is_split(node)) continue;
      if (forest.is_categorical(node))
        flags[forest.feature[node]] |= kTruncate;
      else if (std::isfinite(forest.threshold[node]))
        of[forest.feature[node]].push_back(forest.threshold[node]);
    }
    constexpr size_t kExactInFloat = size_t(1) << 24;
    for (int32_t f = 0; f < forest.n_features; ++f) {
      auto& values = of[f];
      if ((flags[f] & kTruncate) && !values.empty())
        throw std::invalid_argument("feature " + std::to_string(f) +
                                    " is split both as a number and as a category; this is not supported");
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
      if (values.size() >= kExactInFloat)
        throw std::invalid_argument("feature " + std::to_string(f) + " has " + std::to_string(values.size()) +
                                    " thresholds, at most 16777215 are supported");
      thresholds.insert(thresholds.end(), values.begin(), values.end());
      first[f + 1] = int64_t(thresholds.size());
    }
  }

  // A float64 threshold t becomes 1 + its position among the feature's: x < t exactly if fewer thresholds are <= x.
  float encode(const ForestView& forest, size_t node) const {
    const double t = forest.threshold[node];
    if (t == std::numeric_limits<double>::infinity()) return kMissing;
    if (!ranked) return float(t);
    if (t == -std::numeric_limits<double>::infinity()) return 0.0f;
    const int32_t f = forest.feature[node];
    const auto begin = thresholds.begin() + first[f], end = thresholds.begin() + first[f + 1];
    return float(std::lower_bound(begin, end, t) - begin + 1);
  }
};

// One record a categorical split.
inline CategorySet category_set_of(const ForestView& forest, int64_t node) {
  const int32_t set = forest.category_set[node];
  const int64_t first = forest.set_offsets[set], words = forest.set_offsets[set + 1] - first;
  // Rows of float64 forests are truncated when they are encoded, except for those that count as category 0 only in a
  // library that truncates before it tests the sign.
  const bool truncates = forest.row_is_double && forest.threshold[node] < 0;
  return {truncates ? kFractionBelowZero : float(forest.threshold[node]), int32_t(words * 32), first,
          forest.set_others_left[set], 0};
}

inline int32_t split_flags(const ForestView& forest, int64_t node) {
  return (forest.default_left[node] ? kDefaultLeft : 0) | (forest.is_categorical(node) ? kCategorical : 0);
}

}  // namespace glasswood
