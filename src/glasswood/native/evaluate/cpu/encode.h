// Tiles of encoded rows whose categories are classes.
#pragma once
#include "common/classes.h"
#include "common/rows.h"

namespace glasswood {

// As encode_rows. Static for its reason.
static bool encode_tile(const RowCoding& coding, const ClassCoding& classes, const RowSource& source, int64_t first_row,
                        int n_rows, int n_lanes, int stride, float* tile) {
  const bool any_missing = encode_rows<float>(coding, source, first_row, n_rows, n_lanes, stride, tile);
  if (!classes.features) return any_missing;
  for (int i = 0; i < coding.n_used; ++i) {
    const FeatureClasses& feature = classes.features[coding.used[i]];
    float* values = tile + int64_t(coding.used[i]) * stride;
    for (int lane = 0; lane < n_lanes && feature.n_classes; ++lane)
      values[lane] = float(class_of(classes, feature, values[lane]));
  }
  return any_missing;
}

}  // namespace glasswood
