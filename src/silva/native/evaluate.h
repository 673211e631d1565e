// Which leaf a row reaches: the forest's nodes as tables, and one step of the walk over lanes.
#pragma once
#include "split.h"

namespace silva {

// A node's second word: the left child (Packed), the side of missing values, whether the split is categorical, and the
// feature. Packed trees have at most 2^16 nodes and 2^14 features; others keep the child in a table of its own.
template <bool Packed>
struct NodeWord {
  static constexpr int kFeatureBits = Packed ? 14 : 30;
  static constexpr int32_t kFeature = (int32_t(1) << kFeatureBits) - 1;
  static constexpr int kCategoricalBit = kFeatureBits;
  static constexpr int kDefaultRightBit = kFeatureBits + 1;
  static constexpr int kLeftBit = 16;
};

// Nodes of all trees, breadth-first. A leaf is its own left child behind a threshold that nothing fails, so that lanes
// may step on from it.
struct EvaluateTables {
  const float* threshold;   // NaN: every number goes left; a categorical split: bits of its index into sets
  const int32_t* word;      // NodeWord
  const int32_t* left;      // tree-local, only if the words are not packed
  const double* value;      // [node][width], times the tree's weight; 0 at splits
  const int32_t* leaf_id;   // [node]
  const int32_t* tree_first;    // [tree + 1]
  const int32_t* tree_depth;    // [tree]
  const int32_t* tree_output;   // [tree]
  const uint8_t* tree_is_categorical;  // [tree]
  const double* base_score;     // [output]
  const CategorySet* sets;
  const uint32_t* words;
  int32_t n_trees, n_outputs, width, packed;
};

// Lanes whose split is categorical take the set's decision instead of the comparison's.
template <class L, bool Packed>
SILVA_INLINE void decide_categories(const EvaluateTables& forest, typename L::Value x, typename L::Value threshold,
                                    typename L::Index word, typename L::Mask& right) {
  for (int lane = 0; lane < L::width; ++lane) {
    int32_t bits;
    float value, code;
    if constexpr (L::width == 1) {
      bits = word, value = x, code = threshold;
    } else {
      bits = word[lane], value = x[lane], code = threshold[lane];
    }
    if (!((bits >> NodeWord<Packed>::kCategoricalBit) & 1)) continue;
    int32_t set;
    __builtin_memcpy(&set, &code, sizeof set);
    L::set(right, lane, !category_goes_left(forest.sets[set], forest.words, value));
  }
}

// The child, given the node's threshold, word and left child and the rows' values.
template <class L, bool Packed, bool Missing, bool Categorical>
SILVA_INLINE typename L::Index step(const EvaluateTables& forest, typename L::Value x, typename L::Value threshold,
                                    typename L::Index word, typename L::Index left) {
  auto right = x >= threshold;
  if constexpr (Categorical) decide_categories<L, Packed>(forest, x, threshold, word, right);
  if constexpr (Missing) {
    constexpr int bit = NodeWord<Packed>::kDefaultRightBit;
    right = L::choose(L::missing(x), L::equal((word >> bit) & 1, L::splat_index(1)), right);
  }
  return left + L::one_where(right);
}

template <bool Packed, class Index>
SILVA_INLINE Index unpack_left(Index word) {
  static_assert(Packed);
  return (word >> NodeWord<Packed>::kLeftBit) & 0xffff;
}

}  // namespace silva
