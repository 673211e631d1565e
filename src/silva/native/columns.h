// Values of rows to rank codes (silva/cuda/codes.py), for the kernels that read rows.
#pragma once

namespace silva {

// A numerical column's thresholds are a complete search tree of `height` levels in breadth-first order, entry 1 its root
// and entry 0 unused: the upper levels lie in few banks and lines. NaN fills up, which no value reaches, as none
// reaches the threshold +inf. A column of categories holds the smallest value that counts as a category in entry 1.
template <class Value>
struct Columns {
  const int *feature, *category_set, *missing, *height;
  const long long* offsets;
  const Value* thresholds;
  const long long* set_offsets;
  const unsigned* set_words;
  const bool *set_others_left, *zero_missing;  // zero_missing: null if no feature's zeros are missing
  Value zero_threshold, missing_value;
};

template <class Value>
__device__ __forceinline__ bool in_set(const Columns<Value>& columns, int set, Value smallest, Value x) {
  const long long first = columns.set_offsets[set], n_bits = (columns.set_offsets[set + 1] - first) * 32;
  // Truncated: -0.5 may count as category 0, which an empty set does not hold.
  if (x < smallest || trunc(x) >= Value(n_bits)) return columns.set_others_left[set];
  const int category = int(x);
  return columns.set_words[first + category / 32] >> (category % 32) & 1;
}

// How many of a column's thresholds are <= x.
template <class Value>
__device__ __forceinline__ unsigned rank_of(const Value* tree, int height, Value x) {
  unsigned at = 1;
  for (int level = 0; level < height; ++level) at = 2 * at + (tree[at] <= x);
  return at - (1u << height);
}

// Code of x; `tree` holds the column's thresholds, wherever they were copied to.
template <class Value>
__device__ __forceinline__ unsigned code_of(const Columns<Value>& columns, int column, const Value* tree, Value x) {
  if (columns.zero_threshold > 0 || columns.zero_missing != nullptr)
    if (x <= columns.zero_threshold && x >= -columns.zero_threshold) x = 0;
  const bool zero_is_missing = columns.zero_missing != nullptr && columns.zero_missing[columns.feature[column]];
  if (x != x || x == columns.missing_value || (zero_is_missing && x == 0)) return unsigned(columns.missing[column]);
  const int set = columns.category_set[column];
  if (set >= 0) return !in_set(columns, set, tree[1], x);
  return rank_of(tree, columns.height[column], x);
}

}  // namespace silva
