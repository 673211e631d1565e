// What leaves count in the game of a forest, for the walk and the tables alike.
#pragma once
#include <algorithm>

#include "common/forest_view.h"

namespace glasswood {

inline double cover_ratio(const ForestView& forest, int64_t node, int64_t child) {
  return forest.cover[node] > 0 ? forest.cover[child] / forest.cover[node] : 0.5;
}

// XGBoost sums covers in float32.
inline bool covers_add_up(const ForestView& forest, int32_t tree) {
  constexpr double kFloatSums = 1e-6;
  const int64_t root = forest.tree_offsets[tree];
  for (int64_t node = root; node < forest.tree_offsets[tree + 1]; ++node) {
    if (!forest.is_split(node)) continue;
    const int64_t left = root + forest.left[node];
    const double sum = cover_ratio(forest, node, left) + cover_ratio(forest, node, left + 1);
    if (std::abs(sum - 1) > kFloatSums) return false;
  }
  return true;
}

// What a leaf with a linear model returns at the means of its features: smoothing may leave the range.
inline double value_at_means(const ForestView& forest, int64_t leaf) {
  return std::clamp(forest.leaf_value[leaf], forest.leaf_range[2 * leaf], forest.leaf_range[2 * leaf + 1]);
}

// Leaf values about the middle of their tree where that does not change the game: SHAP values ignore a constant added
// to a tree whose covers add up. Values around 0 keep the rounding of float32 relative to the tree's range, not to its
// level (a random forest of large means). A game of background rows shares nothing out by covers: any constant does.
struct WeightedLeaves {
  std::vector<double> values;  // [leaf][width]: value times weight, minus the middle
  std::vector<double> middle;  // [tree][width]; 0 where leaves keep their level

  WeightedLeaves(const ForestView& forest, bool centers, bool has_background = false)
      : values(forest.leaf_value.begin(), forest.leaf_value.end()),
        middle(int64_t(forest.n_trees()) * forest.width, 0.0) {
    const int64_t width = forest.width;
    for (size_t leaf = 0; 2 * leaf < forest.leaf_range.size(); ++leaf) values[leaf] = value_at_means(forest, leaf);
    int64_t first = 0;
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree) {
      const int64_t end = first + (forest.tree_offsets[tree + 1] - forest.tree_offsets[tree] + 1) / 2;
      const bool about_middle = centers && (has_background || covers_add_up(forest, tree));
      for (int64_t o = 0; o < width; ++o) {
        double low = std::numeric_limits<double>::infinity(), high = -low;
        for (int64_t leaf = first; leaf < end; ++leaf) {
          double& v = values[leaf * width + o];
          v *= forest.tree_weight[tree];
          low = std::min(low, v), high = std::max(high, v);
        }
        if (!about_middle) continue;
        middle[tree * width + o] = low + (high - low) / 2;
        for (int64_t leaf = first; leaf < end; ++leaf) values[leaf * width + o] -= middle[tree * width + o];
      }
      first = end;
    }
  }
};

}  // namespace glasswood
