// From encoded values of rows (common/rows.h) to codes.
#pragma once
#include "common/lanes.h"
#include "explain/tables/columns.h"

namespace glasswood {
namespace {

// The codes of N values of a column.
template <int N>
GLASSWOOD_INLINE void encode_column(const CodeColumn& column, const float* thresholds, const uint16_t* category_codes,
                                    const float* x, int16_t* codes) {
  int32_t rank[N];
  if (column.categories) {
    for (int i = 0; i < N; ++i) {
      const bool known = x[i] >= 0 && x[i] < float(column.categories);
      const int32_t value = known ? int32_t(x[i]) : column.categories + (x[i] > -1 && x[i] < 0);
      rank[i] = category_codes[column.first + value];
    }
  } else if (column.top == 0) {
    for (int i = 0; i < N; ++i) rank[i] = x[i] == x[i] ? int32_t(x[i]) : 0;
  } else {
    const float* t = thresholds + column.first - 1;
    for (int i = 0; i < N; ++i) rank[i] = 0;
    for (int32_t step = column.top; step; step >>= 1)
      for (int i = 0; i < N; ++i) rank[i] += t[rank[i] + step] <= x[i] ? step : 0;
  }
  for (int i = 0; i < N; ++i) codes[i] = int16_t((x[i] == x[i] ? rank[i] : kMissingCode) - kCodeBias);
}

}  // namespace
}  // namespace glasswood
