// Names of the moves of the local search, the same up to small shifts of thresholds and of the price of a parameter:
// shifts that are too small to make a failed move worth another try.
#pragma once
#include <algorithm>
#include <cmath>

#include "grow/search/operators.h"

namespace glasswood {

// Position of a threshold among the rows, in few steps.
inline int64_t coarse_position(const GrowData& data, int feature, int32_t threshold) {
  constexpr int64_t kSteps = 500;
  return int64_t(data.starts[feature][std::min(threshold, data.n_distinct[feature])]) * kSteps / data.n_rows;
}

inline Key coarse_box(const GrowData& data, const Box& box) {
  Key key;
  for (int i = 0; i < box.size(); ++i) {
    const int a = box[i].feature;
    const uint64_t low = uint64_t(coarse_position(data, a, box[i].low));
    const uint64_t high = uint64_t(coarse_position(data, a, box[i].high));
    key = key.plus(uint64_t(a), low << 32 ^ high << 1 ^ uint64_t(box[i].missing));
  }
  return key;
}

// A move of this kind on the subtree at v.
inline Key move_key(const GrowData& data, const GrowTree& tree, int v, const Box& box, uint64_t kind, double price) {
  Key key = coarse_box(data, box).plus(0x9911, uint64_t(std::llround(std::log(price) / 0.1))).plus(0x7717, kind);
  for (int u = v; u < subtree_end(tree, v); ++u) {
    const GrowSplit& split = tree[u].split;
    if (tree[u].is_leaf()) continue;
    const uint64_t where =
        uint64_t(coarse_position(data, split.feature, split.threshold)) << 1 ^ uint64_t(split.missing_left);
    key = key.plus(uint64_t(u - v), where << 20 ^ uint64_t(split.feature));
  }
  return key;
}

}  // namespace glasswood
