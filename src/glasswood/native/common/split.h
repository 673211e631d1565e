// The test of a split, for one node and all lanes.
#pragma once
#include "common/lanes.h"

namespace glasswood {

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

GLASSWOOD_INLINE bool category_goes_left(const CategorySet& set, const uint32_t* words, float x) {
  // An empty set has no bit for -0.5 either, which truncates to category 0.
  if (set.n_categories == 0 || !(x >= set.lowest && x < float(set.n_categories))) return set.others_left;
  const int category = int(x);
  return (words[set.first_word + (category >> 5)] >> (category & 31)) & 1;
}

// Vectors take no branch a lane, and of up to 64 categories no load a lane.
template <class L>
GLASSWOOD_INLINE typename L::Mask categories_go_left(const CategorySet& set, const uint32_t* words,
                                                     typename L::Value x) {
#if !defined(__CUDACC__)
  if constexpr (L::width > 1) {
    using Mask = typename L::Mask;
    if (set.n_categories == 0) return L::uniform(set.others_left);
    const uint32_t* own = words + set.first_word;
    const Mask known = (x >= L::splat(set.lowest)) & (x < L::splat(typename L::Real(set.n_categories)));
    const Mask category = __builtin_convertvector(L::select(known, x, L::splat(0)), Mask);
    Mask word = Mask{} + int32_t(own[0]);
    if (set.n_categories > 64)
      for (int lane = 0; lane < L::width; ++lane) word[lane] = int32_t(own[category[lane] >> 5]);
    else if (set.n_categories > 32)
      word = L::choose((category & 32) != 0, Mask{} + int32_t(own[1]), word);
    return L::choose(known, -(word >> (category & 31) & 1), L::uniform(set.others_left));
  } else
#endif
    return category_goes_left(set, words, float(x));
}

}  // namespace glasswood
