// What a term of a leaf's linear model takes of a row, and what becomes of the sum; host and device.
#pragma once
#ifndef SILVA_DEVICE
#define SILVA_DEVICE inline
#endif

namespace silva {

// In place of a category: the feature's number itself, and 1 where it is missing.
constexpr int kTermOfNumber = -1, kTermOfMissing = -2;

#ifndef __CUDACC__  // NVRTC has no constant NaN
// Of a leaf where missing numbers count as their means.
constexpr double kNoValue = __builtin_nan("");
#endif

// The term's value about its mean. A missing number counts as the mean; of a category, a row has it or not.
SILVA_DEVICE double term_deviation(double x, int category, double mean) {
  const bool is_missing = x != x;
  if (category == kTermOfNumber) return is_missing ? 0 : x - mean;
  return double(category == kTermOfMissing ? is_missing : x == double(category)) - mean;
}

SILVA_DEVICE bool lacks_number(double x, int category) { return category == kTermOfNumber && x != x; }

// What a leaf returns for the value of its model. missing: its value for rows that lack a number, NaN where missing
// numbers count as their means.
SILVA_DEVICE double model_value(double value, bool is_missing, double missing, double low, double high) {
  if (is_missing && missing == missing) return missing;
  return value < low ? low : value > high ? high : value;
}

}  // namespace silva
