// What a term of a leaf's linear model takes of a row, and what becomes of the sum; host and device.
#pragma once
#ifndef __CUDACC__
#include <cmath>
#endif
#ifndef GLASSWOOD_DEVICE
#define GLASSWOOD_DEVICE static inline  // of each file its own: files are compiled for different processors
#endif

namespace glasswood {

// In place of a category: the feature's number itself, 1 where it is missing, and the number's natural logarithm.
constexpr int kTermOfNumber = -1, kTermOfMissing = -2, kTermOfLogarithm = -3;

#ifndef __CUDACC__  // NVRTC has no constant NaN
// What a leaf has in place of its value for missing numbers where these count as their means.
constexpr double kNoValue = __builtin_nan("");
#endif

// Whether a row lacks the number that the term is of: it is missing or, of a logarithm, not positive.
GLASSWOOD_DEVICE bool lacks_number(double x, int category) {
  return category == kTermOfNumber ? x != x : category == kTermOfLogarithm && !(x > 0);
}

// The term's value about its mean. What a row lacks counts as the mean; of a category, a row has it or not.
GLASSWOOD_DEVICE double term_deviation(double x, int category, double mean) {
  if (lacks_number(x, category)) return 0;
  if (category == kTermOfNumber) return x - mean;
  if (category == kTermOfLogarithm) return log(x) - mean;
  return double(category == kTermOfMissing ? x != x : x == double(category)) - mean;
}

// What a leaf returns for the value of its model. missing: its value for rows that lack a number, NaN where missing
// numbers count as their means.
GLASSWOOD_DEVICE double model_value(double value, bool is_missing, double missing, double low, double high) {
  if (is_missing && missing == missing) return missing;
  return value < low ? low : value > high ? high : value;
}

}  // namespace glasswood
