// Categories of a feature that all its splits treat alike, as one number: a split tests one bit of its words.
#pragma once
#include "common/lanes.h"

namespace glasswood {

// Values of a feature of categories by place: categories, other numbers, fractions in (-1, 0), missing.
struct FeatureClasses {
  int32_t n_classes;     // 0: a feature of numbers
  int32_t n_categories;  // that any set mentions
  int64_t first;         // into the classes of all features
};

struct ClassCoding {
  const FeatureClasses* features;  // [feature]; null: no categories
  const int32_t* class_of;         // [place]
};

// The class of a value as common/rows.h codes it.
GLASSWOOD_INLINE int32_t class_of(const ClassCoding& coding, const FeatureClasses& feature, float x) {
  const int64_t n = feature.n_categories;
  const int64_t place = x >= 0 && x < float(n) ? int64_t(x) : x != x ? n + 2 : x > -1 && x < 0 ? n + 1 : n;
  return coding.class_of[feature.first + place];
}

GLASSWOOD_INLINE bool class_goes_right(const uint32_t* words, uint32_t c) { return words[c >> 5] >> (c & 31) & 1; }

}  // namespace glasswood
