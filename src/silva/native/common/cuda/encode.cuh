// Values of rows to rank codes (silva/cuda/codes.py), for the kernels that read rows.
#pragma once

namespace silva {

constexpr int MOST_STEPS = 4;  // as in silva/cuda/encoder.py

// How the line of numbers is cut into equal buckets, 4 << height of them: value x is in bucket (x - low) * scale. Both
// operations are monotone as they are rounded, so thresholds in lower buckets are smaller than x, those in higher ones
// are larger, and only those in x's own bucket are compared: `steps` at most.
struct alignas(16) Buckets {
  float low, scale;
  int steps;  // 0: the thresholds are a search tree
  int reserved;
};

// The columns of codes of a forest. A numerical column has room for 1 << height thresholds, at least 4. They are sorted
// where they spread well over the buckets: `starts` says for each bucket how many lie below. Otherwise they are a
// complete search tree of `height` levels in breadth-first order, entry 1 its root and entry 0 unused: the upper levels
// lie in few banks and lines. NaN fills up, which no value reaches, as none reaches the threshold +inf. A column of
// categories holds the smallest value that counts as a category in entry 1.
template <class Value>
struct CodeTables {
  const int *feature, *category_set, *missing, *height;
  const long long* offsets;
  const Buckets* buckets;
  const Value* thresholds;
  const unsigned char* starts;  // column c's from 4 * offsets[c] on
  const long long* set_offsets;
  const unsigned* set_words;
  const bool *set_others_left, *zero_missing;  // zero_missing: null if no feature's zeros are missing
  Value zero_threshold, missing_value;
};

template <class Value>
__device__ __forceinline__ bool in_set(const CodeTables<Value>& columns, int set, Value smallest, Value x) {
  const long long first = columns.set_offsets[set], n_bits = (columns.set_offsets[set + 1] - first) * 32;
  // Truncated: -0.5 may count as category 0, which an empty set does not hold. NaN is no category either.
  if (!(x >= smallest && trunc(x) < Value(n_bits))) return columns.set_others_left[set];
  const int category = int(x);
  return columns.set_words[first + category / 32] >> (category % 32) & 1;
}

// The tables as parameters of a kernel, in the order of CodeTables.tables (silva/cuda/encoder.py), and in one piece.
// clang-format off
#define CODE_TABLE_PARAMETERS                                                                                     \
  const int *__restrict__ feature, const int *__restrict__ category_set, const int *__restrict__ missing,         \
  const int *__restrict__ height, const long long *__restrict__ offsets, const silva::Buckets *__restrict__ buckets, \
  const Value *__restrict__ thresholds, const unsigned char *__restrict__ bucket_starts,                          \
  const long long *set_offsets, const unsigned *set_words, const bool *set_others_left, const bool *zero_missing, \
  double zero_threshold, double missing_value
#define CODE_TABLES                                                                                          \
  {feature, category_set, missing, height, offsets, buckets, thresholds, bucket_starts, set_offsets, set_words, \
   set_others_left, zero_missing, Value(zero_threshold), Value(missing_value)}
// clang-format on

// Thresholds of one column, wherever they were copied to.
template <class Value>
struct Thresholds {
  const Value* values;
  const unsigned char* starts;
};

// How many of a column's thresholds are <= x, for each of `n` values side by side.
template <int n, class Value>
__device__ __forceinline__ void count_in_buckets(const Buckets& buckets, int height,
                                                 const Thresholds<Value>& thresholds, const Value (&x)[n],
                                                 unsigned (&rank)[n]) {
  const float last = float((4 << height) - 1);
#pragma unroll
  for (int k = 0; k < n; ++k)
    rank[k] = thresholds.starts[unsigned(fminf(fmaxf((float(x[k]) - buckets.low) * buckets.scale, 0), last))];
  if (n == 1 && buckets.steps > 1) {
    // All of a bucket at once, for one value is nothing but latency. Behind the last threshold there is NaN.
    bool reached = true;
    const Value* const first = thresholds.values + rank[0];
#pragma unroll
    for (int step = 0; step < MOST_STEPS; ++step) {
      reached = reached && first[step] <= x[0];
      rank[0] += reached;
    }
    return;
  }
#pragma unroll 1
  for (int step = 0; step < buckets.steps; ++step)
#pragma unroll
    for (int k = 0; k < n; ++k) rank[k] += thresholds.values[rank[k]] <= x[k];
}

// The same by the search tree, which is walked by bytes.
template <int n, class Value>
__device__ __forceinline__ void search_tree(const Value* tree, int height, const Value (&x)[n], unsigned (&rank)[n]) {
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

template <class Value>
__device__ __forceinline__ Thresholds<Value> thresholds_of(const CodeTables<Value>& columns, int column) {
  const long long at = columns.offsets[column];
  return {columns.thresholds + at, columns.starts + 4 * at};
}

// Codes of the values x.
template <int n, class Value>
__device__ __forceinline__ void codes_of(const CodeTables<Value>& columns, int column,
                                         const Thresholds<Value>& thresholds, Value (&x)[n], unsigned (&code)[n]) {
  const Buckets buckets = columns.buckets[column];
  const int height = columns.height[column];
  if (columns.zero_threshold > 0)
#pragma unroll
    for (int k = 0; k < n; ++k) x[k] = x[k] <= columns.zero_threshold && x[k] >= -columns.zero_threshold ? 0 : x[k];
  const int set = columns.category_set[column];
  if (buckets.steps > 0)
    count_in_buckets(buckets, height, thresholds, x, code);
  else if (set < 0)
    search_tree(thresholds.values, height, x, code);
  else
#pragma unroll
    for (int k = 0; k < n; ++k) code[k] = !in_set(columns, set, thresholds.values[1], x[k]);
  const bool zero_is_missing = columns.zero_missing != nullptr && columns.zero_missing[columns.feature[column]];
  const unsigned missing = unsigned(columns.missing[column]);
#pragma unroll
  for (int k = 0; k < n; ++k)
    if (x[k] != x[k] || x[k] == columns.missing_value || (zero_is_missing && x[k] == 0)) code[k] = missing;
}

}  // namespace silva
