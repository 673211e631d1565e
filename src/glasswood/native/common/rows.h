// From a caller's matrix to tiles of encoded rows, [feature][lane].
//
// float32 forests route by the row's value cast to float32. float64 forests route by exact ranks: a value becomes the
// number of the feature's thresholds that are not above it, so that kernels compare small integers in float lanes and
// still decide every row as the float64 comparison does.
#pragma once
#include "common/lanes.h"

namespace glasswood {

enum ColumnFlag : uint8_t {
  kZeroIsMissing = 1,
  kTruncate = 2,  // categories of a float64 forest: the integer part
};

struct RowCoding {
  int32_t n_features;
  int32_t ranked;         // 0: cast to float32
  double zero_threshold;  // numbers of at most this magnitude are 0
  const uint8_t* flags;   // [feature] ColumnFlag
  const int64_t* first;   // [feature + 1] into thresholds
  const double* thresholds;
  const int32_t* used;  // features that any tree splits, rising
  int32_t n_used;
};

struct RowSource {
  const void* data;
  int64_t n_rows;
  int64_t row_stride, feature_stride;  // in elements
  int32_t is_double;
};

// Code of numbers in (-1, 0), which are category 0 for libraries that truncate before they test the sign.
constexpr float kFractionBelowZero = -0.5f;

constexpr float kMissing = __builtin_nanf("");

// How many of the thresholds are <= x.
GLASSWOOD_INLINE float rank_of(const double* thresholds, int64_t n, double x) {
  int64_t low = 0;
  while (n > 0) {
    const int64_t half = n >> 1;
    const bool above = thresholds[low + half] <= x;
    low = above ? low + half + 1 : low;
    n = above ? n - half - 1 : half;
  }
  return float(low);
}

// A float64 forest's value before it is ranked; NaN if it is missing.
GLASSWOOD_INLINE double settle(const RowCoding& coding, int feature, double x) {
  if (__builtin_fabs(x) <= coding.zero_threshold) x = 0;
  return (coding.flags[feature] & kZeroIsMissing) && x == 0 ? double(kMissing) : x;
}

GLASSWOOD_INLINE float encode_ranked(const RowCoding& coding, int feature, double x) {
  x = settle(coding, feature, x);
  if (x != x) return kMissing;
  if (coding.flags[feature] & kTruncate) return x < 0 && x > -1 ? kFractionBelowZero : float(__builtin_trunc(x));
  return rank_of(coding.thresholds + coding.first[feature], coding.first[feature + 1] - coding.first[feature], x);
}

GLASSWOOD_INLINE float encode_cast(const RowCoding& coding, int feature, float x) {
  if (coding.zero_threshold > 0 && __builtin_fabs(double(x)) <= coding.zero_threshold) x = 0;
  if ((coding.flags[feature] & kZeroIsMissing) && x == 0) return kMissing;
  return x;
}

// Writes rows first_row ... first_row + n_rows - 1 to tile[feature * stride + row], features that no tree splits left
// out; rows beyond repeat the last one, so that no lane computes on garbage. Returns whether any value is missing.
// Static: the kernel file is compiled for several instruction sets, and the linker must not merge them.
template <class Real, class Input>
static bool encode_rows(const RowCoding& coding, const RowSource& source, int64_t first_row, int n_rows, int n_lanes,
                        int stride, Real* tile) {
  const Input* data = static_cast<const Input*>(source.data);
  bool any_missing = false;
  for (int lane = 0; lane < n_lanes; ++lane) {
    const int64_t row = first_row + (lane < n_rows ? lane : n_rows - 1);
    const Input* values = data + row * source.row_stride;
    for (int i = 0; i < coding.n_used; ++i) {
      const int feature = coding.used[i];
      const Input x = values[feature * source.feature_stride];
      const float code =
          coding.ranked ? encode_ranked(coding, feature, double(x)) : encode_cast(coding, feature, float(x));
      any_missing |= code != code;
      tile[int64_t(feature) * stride + lane] = code;
    }
  }
  return any_missing;
}

template <class Real>
static bool encode_rows(const RowCoding& coding, const RowSource& source, int64_t first_row, int n_rows, int n_lanes,
                        int stride, Real* tile) {
  return source.is_double ? encode_rows<Real, double>(coding, source, first_row, n_rows, n_lanes, stride, tile)
                          : encode_rows<Real, float>(coding, source, first_row, n_rows, n_lanes, stride, tile);
}

// Writes the values of the rows as they are to tile[feature * n_lanes + lane]; lanes beyond the rows repeat the last.
[[maybe_unused]] static void copy_rows(const RowSource& source, int64_t n_features, int64_t first_row, int n_rows,
                                       int n_lanes, double* tile) {
  for (int lane = 0; lane < n_lanes; ++lane) {
    const int64_t start = (first_row + (lane < n_rows ? lane : n_rows - 1)) * source.row_stride;
    for (int64_t feature = 0; feature < n_features; ++feature) {
      const int64_t at = start + feature * source.feature_stride;
      tile[feature * n_lanes + lane] = source.is_double ? static_cast<const double*>(source.data)[at]
                                                        : double(static_cast<const float*>(source.data)[at]);
    }
  }
}

}  // namespace glasswood
