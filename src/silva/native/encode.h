// A value of a row to its rank code (silva/cuda/codes.py), in CUDA device code.
//
// Macros: INPUT (type of X), ROW (type of the thresholds), CODE (of the codes).
#pragma once

namespace silva {

using Input = INPUT;
using Value = ROW;
using Code = CODE;

// In the GPU's memory, written by silva/cuda/encoder.py: 8 bytes each.
struct Columns {
  const int *feature, *category_set, *missing;
  const long long* offsets;
  const Value* thresholds;
  const long long* set_offsets;
  const unsigned* set_words;
  const bool *set_others_left, *zero_missing;  // zero_missing: null where no feature counts zeros as missing
  double zero_threshold, missing_value;
  long long n_columns;
};

__device__ __forceinline__ bool in_set(const Columns& columns, int set, Value smallest, Value x) {
  const long long first = columns.set_offsets[set], n_bits = (columns.set_offsets[set + 1] - first) * 32;
  // Truncated: -0.5 may count as category 0, which an empty set does not hold.
  if (x < smallest || trunc(x) >= Value(n_bits)) return columns.set_others_left[set];
  const int category = int(x);
  return columns.set_words[first + category / 32] >> (category % 32) & 1;
}

__device__ __forceinline__ int encode(const Columns& columns, int column, Value x) {
  const Value zero = Value(columns.zero_threshold);
  if (columns.zero_missing != nullptr || zero > 0)
    if (x <= zero && x >= -zero) x = 0;
  const bool zero_is_missing = columns.zero_missing != nullptr && columns.zero_missing[columns.feature[column]];
  if (x != x || x == Value(columns.missing_value) || (zero_is_missing && x == 0)) return columns.missing[column];
  const long long begin = columns.offsets[column], end = columns.offsets[column + 1];
  if (columns.category_set[column] >= 0)
    return !in_set(columns, columns.category_set[column], columns.thresholds[begin], x);
  long long low = begin, high = end;
  while (low < high) {
    const long long middle = (low + high) / 2;
    // No number reaches the threshold +inf, not even +inf.
    if (columns.thresholds[middle] <= x && columns.thresholds[middle] - columns.thresholds[middle] == 0)
      low = middle + 1;
    else
      high = middle;
  }
  return int(low - begin);
}

}  // namespace silva

