// The test of a split, for one node and all lanes.
#pragma once
#include "common/lanes.h"

namespace silva {

// The categories that go left at one split.
struct CategorySet {
  float lowest;          // smallest value that counts as a category
  int32_t n_categories;  // bits in the set
  int64_t first_word;
  int32_t others_left;  // side of numbers without a bit
  int32_t padding;
};

enum SplitFlag : int32_t {
  kDefaultLeft = 1,  // rows with a missing value go left
  kCategorical = 2,
};

SILVA_INLINE bool category_goes_left(const CategorySet& set, const uint32_t* words, float x) {
  // An empty set has no bit for -0.5 either, which truncates to category 0.
  if (set.n_categories == 0 || !(x >= set.lowest && x < float(set.n_categories))) return set.others_left;
  const int category = int(x);
  return (words[set.first_word + (category >> 5)] >> (category & 31)) & 1;
}

template <class L>
SILVA_INLINE typename L::Mask categories_go_left(const CategorySet& set, const uint32_t* words, typename L::Value x) {
  typename L::Mask result = L::uniform(false);
  for (int lane = 0; lane < L::width; ++lane)
    L::set(result, lane, category_goes_left(set, words, float(L::lane(x, lane))));
  return result;
}

}  // namespace silva
