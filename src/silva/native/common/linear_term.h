// What a term of a leaf's linear model takes of a row; host and device.
#pragma once
#ifndef SILVA_DEVICE
#define SILVA_DEVICE inline
#endif

namespace silva {

// In place of a category: the feature's number itself, and 1 where it is missing.
constexpr int kTermOfNumber = -1, kTermOfMissing = -2;

// The term's value about its mean. A missing number counts as the mean; of a category, a row has it or not.
SILVA_DEVICE double term_deviation(double x, int category, double mean) {
  const bool is_missing = x != x;
  if (category == kTermOfNumber) return is_missing ? 0 : x - mean;
  return double(category == kTermOfMissing ? is_missing : x == double(category)) - mean;
}

}  // namespace silva
