// Builds the tables of evaluate.h from a forest.
#pragma once
#include "evaluate.h"
#include "forest.h"
#include "forest_view.h"

namespace silva {

struct EvaluatePlan {
  Coding coding;
  std::vector<float> threshold;
  std::vector<int32_t> word, left, leaf_id, tree_first, tree_depth, tree_output;
  std::vector<double> value, base_score;
  std::vector<uint8_t> tree_is_categorical;
  std::vector<CategorySet> sets;
  std::vector<uint32_t> words;
  int32_t width;
  bool packed;

  explicit EvaluatePlan(const ForestView& forest)
      : coding(forest),
        tree_output(forest.tree_output.begin(), forest.tree_output.end()),
        base_score(forest.base_score.begin(), forest.base_score.end()),
        tree_is_categorical(forest.n_trees(), 0),
        words(forest.set_words.begin(), forest.set_words.end()),
        width(forest.width),
        packed(fits_packed(forest)) {
    // Kernels load the first two registers of a tree at once, also of the last tree.
    constexpr int kPadding = 64;
    const size_t n_nodes = forest.feature.size();
    threshold.assign(n_nodes + kPadding, kMissing);
    word.assign(n_nodes + kPadding, 0);
    left.assign(packed ? 0 : n_nodes + kPadding, 0);
    leaf_id.assign(n_nodes, -1);
    value.assign(n_nodes * width, 0.0);
    const std::vector<int32_t> depth = node_depth(forest.tree_offsets, forest.left);
    int64_t leaf = 0;
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree) {
      const int64_t begin = forest.tree_offsets[tree], end = forest.tree_offsets[tree + 1];
      tree_first.push_back(int32_t(begin));
      tree_depth.push_back(depth[end - 1]);
      for (int64_t node = begin; node < end; ++node) {
        if (forest.is_split(node))
          add_split(forest, tree, node);
        else
          add_leaf(forest, tree, node, leaf++);
      }
    }
    tree_first.push_back(int32_t(n_nodes));
  }

  EvaluateTables view() const {
    return {threshold.data(),  word.data(),        left.data(),       value.data(),
            leaf_id.data(),    tree_first.data(),  tree_depth.data(), tree_output.data(),
            tree_is_categorical.data(), base_score.data(), sets.data(),       words.data(),
            int32_t(tree_depth.size()), int32_t(base_score.size()), width, packed};
  }

 private:
  static bool fits_packed(const ForestView& forest) {
    int64_t largest = 0;
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree)
      largest = std::max(largest, forest.tree_offsets[tree + 1] - forest.tree_offsets[tree]);
    return largest <= (int64_t(1) << 16) && forest.n_features <= (1 << NodeWord<true>::kFeatureBits);
  }

  void set_word(int64_t node, int32_t feature, bool categorical, bool default_right, int32_t left_child) {
    const int bits = packed ? NodeWord<true>::kFeatureBits : NodeWord<false>::kFeatureBits;
    uint32_t w = uint32_t(feature) | uint32_t(categorical) << bits | uint32_t(default_right) << (bits + 1);
    if (packed)
      w |= uint32_t(left_child) << NodeWord<true>::kLeftBit;
    else
      left[node] = left_child;
    word[node] = int32_t(w);
  }

  void add_split(const ForestView& forest, int32_t tree, int64_t node) {
    threshold[node] = coding.encoded[node];
    const bool categorical = forest.is_categorical(node);
    if (categorical) {
      const int32_t index = int32_t(sets.size());
      std::memcpy(&threshold[node], &index, sizeof index);
      sets.push_back(category_set_of(forest, node));
      tree_is_categorical[tree] = 1;
    }
    set_word(node, forest.feature[node], categorical, !forest.default_left[node], forest.left[node]);
  }

  void add_leaf(const ForestView& forest, int32_t tree, int64_t node, int64_t leaf) {
    set_word(node, 0, false, false, int32_t(node - forest.tree_offsets[tree]));
    leaf_id[node] = forest.leaf_id[leaf];
    for (int32_t i = 0; i < width; ++i)
      value[node * width + i] = forest.leaf_value[leaf * width + i] * forest.tree_weight[tree];
  }
};

}  // namespace silva
