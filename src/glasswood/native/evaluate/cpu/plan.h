// Builds the tables of evaluate/cpu/tables.h from a forest.
#pragma once
#include "common/category_classes.h"
#include "common/forest.h"
#include "common/forest_view.h"
#include "evaluate/cpu/linear/plan.h"
#include "evaluate/cpu/tables.h"

namespace glasswood {

struct EvaluatePlan {
  Coding coding;
  CategoryClasses classes;
  std::vector<EvaluateNode> node, top;
  std::vector<int32_t> exit, left, leaf_id, leaf_place, tree_first, tree_depth, tree_output;
  std::vector<double> value, base_score;
  std::vector<uint8_t> tree_is_categorical;
  std::vector<int32_t> class_words;
  LinearPlan linear;
  int32_t width;
  bool packed;

  explicit EvaluatePlan(const ForestView& forest)
      : coding(forest),
        classes(forest),
        tree_output(forest.tree_output.begin(), forest.tree_output.end()),
        base_score(forest.base_score.begin(), forest.base_score.end()),
        tree_is_categorical(forest.n_trees(), 0),
        linear(forest),
        width(forest.width),
        packed(fits_packed(forest)) {
    const size_t n_nodes = forest.feature.size();
    for (int32_t f = 0; f < forest.n_features && !classes.empty(); ++f)
      class_words.push_back((classes.n_classes(f) + 31) / 32);
    node.assign(n_nodes, EvaluateNode{kMissing, 0});
    left.assign(packed ? 0 : n_nodes, 0);
    leaf_id.assign(n_nodes, -1);
    leaf_place.assign(linear.empty() ? 0 : n_nodes, 0);
    value.assign(n_nodes * width, 0.0);
    const std::vector<int32_t> depth = node_depth(forest.tree_offsets, forest.left);
    int64_t leaf = 0;
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree) {
      const int64_t begin = forest.tree_offsets[tree], end = forest.tree_offsets[tree + 1];
      tree_first.push_back(int32_t(begin));
      tree_depth.push_back(depth[end - 1]);
      for (int64_t at = begin; at < end; ++at) {
        if (forest.is_split(at))
          add_split(forest, tree, at);
        else
          add_leaf(forest, tree, at, leaf++);
      }
    }
    tree_first.push_back(int32_t(n_nodes));
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree) add_top(forest, tree);
  }

  EvaluateTables view() const {
    return {node.data(),
            left.data(),
            top.data(),
            exit.data(),
            value.data(),
            leaf_id.data(),
            leaf_place.data(),
            tree_first.data(),
            tree_depth.data(),
            tree_output.data(),
            tree_is_categorical.data(),
            base_score.data(),
            classes.words.data(),
            class_words.data(),
            int32_t(tree_depth.size()),
            int32_t(base_score.size()),
            width,
            packed};
  }

 private:
  static bool fits_packed(const ForestView& forest) {
    int64_t largest = 0;
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree)
      largest = std::max(largest, forest.tree_offsets[tree + 1] - forest.tree_offsets[tree]);
    return largest <= (int64_t(1) << 16) && forest.n_features <= (1 << NodeWord<true>::kFeatureBits);
  }

  void set_word(int64_t at, int32_t feature, bool categorical, bool default_right, int32_t left_child) {
    const int bits = packed ? NodeWord<true>::kFeatureBits : NodeWord<false>::kFeatureBits;
    uint32_t w = uint32_t(feature) | uint32_t(categorical) << bits | uint32_t(default_right) << (bits + 1);
    if (packed)
      w |= uint32_t(left_child) << NodeWord<true>::kLeftBit;
    else
      left[at] = left_child;
    node[at].word = int32_t(w);
  }

  void add_split(const ForestView& forest, int32_t tree, int64_t at) {
    node[at].threshold = coding.encoded[at];
    const bool categorical = forest.is_categorical(at);
    if (categorical) {
      const uint32_t first = uint32_t(classes.first_word[at]);
      std::memcpy(&node[at].threshold, &first, sizeof first);
      tree_is_categorical[tree] = 1;
    }
    set_word(at, forest.feature[at], categorical, !forest.default_left[at], forest.left[at]);
  }

  void add_top(const ForestView& forest, int32_t tree) {
    const int64_t first = forest.tree_offsets[tree];
    int32_t at[kTopSplits + kTopExits] = {0};
    for (int slot = 0; slot < kTopSplits; ++slot) {
      const bool is_split = forest.is_split(first + at[slot]);
      top.push_back(node[first + at[slot]]);
      for (int side = 0; side < 2; ++side)
        at[2 * slot + 1 + side] = is_split ? forest.left[first + at[slot]] + side : at[slot];
    }
    exit.insert(exit.end(), at + kTopSplits, at + kTopSplits + kTopExits);
  }

  void add_leaf(const ForestView& forest, int32_t tree, int64_t at, int64_t leaf) {
    set_word(at, 0, false, false, int32_t(at - forest.tree_offsets[tree]));
    leaf_id[at] = forest.leaf_id[leaf];
    if (!linear.empty()) leaf_place[at] = int32_t(leaf);
    for (int32_t i = 0; i < width; ++i)
      value[at * width + i] = forest.leaf_value[leaf * width + i] * forest.tree_weight[tree];
  }
};

}  // namespace glasswood
