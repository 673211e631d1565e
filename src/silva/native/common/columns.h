// Values of rows to rank codes (silva/cuda/codes.py), for the kernels that read rows.
#pragma once

namespace silva {

// A numerical column's thresholds are a complete search tree of `height` levels in breadth-first order, entry 1 its
// root and entry 0 unused: the upper levels lie in few banks and lines. NaN fills up, which no value reaches, as none
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
  // Truncated: -0.5 may count as category 0, which an empty set does not hold. NaN is no category either.
  if (!(x >= smallest && trunc(x) < Value(n_bits))) return columns.set_others_left[set];
  const int category = int(x);
  return columns.set_words[first + category / 32] >> (category % 32) & 1;
}

// How many of a column's thresholds are <= x, for each of `n` values side by side: the search tree is walked by bytes.
template <int n, class Value>
__device__ __forceinline__ void ranks_of(const Value* tree, int height, const Value (&x)[n], unsigned (&rank)[n]) {
  unsigned at[n];
#pragma unroll
  for (int k = 0; k < n; ++k) at[k] = sizeof(Value);
  for (int level = 0; level < height; ++level)
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const Value threshold = *reinterpret_cast<const Value*>(reinterpret_cast<const char*>(tree) + at[k]);
      at[k] = 2 * at[k] + (threshold <= x[k] ? unsigned(sizeof(Value)) : 0u);
    }
#pragma unroll
  for (int k = 0; k < n; ++k) rank[k] = at[k] / unsigned(sizeof(Value)) - (1u << height);
}

// Codes of the values x; `tree` holds the column's thresholds, wherever they were copied to.
template <int n, class Value>
__device__ __forceinline__ void codes_of(const Columns<Value>& columns, int column, const Value* tree, Value (&x)[n],
                                         unsigned (&code)[n]) {
  if (columns.zero_threshold > 0)
#pragma unroll
    for (int k = 0; k < n; ++k) x[k] = x[k] <= columns.zero_threshold && x[k] >= -columns.zero_threshold ? 0 : x[k];
  const int set = columns.category_set[column];
  if (set < 0)
    ranks_of(tree, columns.height[column], x, code);
  else
#pragma unroll
    for (int k = 0; k < n; ++k) code[k] = !in_set(columns, set, tree[1], x[k]);
  const bool zero_is_missing = columns.zero_missing != nullptr && columns.zero_missing[columns.feature[column]];
  const unsigned missing = unsigned(columns.missing[column]);
#pragma unroll
  for (int k = 0; k < n; ++k)
    if (x[k] != x[k] || x[k] == columns.missing_value || (zero_is_missing && x[k] == 0)) code[k] = missing;
}

}  // namespace silva
