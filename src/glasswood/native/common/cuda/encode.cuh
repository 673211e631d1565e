// Values of rows to rank codes (glasswood/cuda/codes.py), for the kernels that read rows.
#pragma once

namespace glasswood {

constexpr int MOST_STEPS = 4;  // as in glasswood/cuda/encoder.py

// How the line of numbers is cut into equal buckets, 4 << height of them: value x is in bucket (x - low) * scale, at
// most 1, times the last one's number, rounded to a whole number. All operations are monotone as they are rounded, so
// thresholds in lower buckets are smaller than x, those in higher ones are larger, and only those in x's own bucket are
// compared: `steps` at most.
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
  // Truncated: -0.5 may count as category 0, which an empty set does not hold. NaN is not a category either.
  if (!(x >= smallest && trunc(x) < Value(n_bits))) return columns.set_others_left[set];
  const int category = int(x);
  return columns.set_words[first + category / 32] >> (category % 32) & 1;
}

// The tables as parameters of a kernel, in the order of CodeTables.tables (glasswood/cuda/encoder.py), and in one
// piece.
// clang-format off
#define CODE_TABLE_PARAMETERS                                                                                     \
  const int *__restrict__ feature, const int *__restrict__ category_set, const int *__restrict__ missing,         \
  const int *__restrict__ height, const long long *__restrict__ offsets, const glasswood::Buckets *__restrict__ buckets, \
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

// What encoding needs of one column; its thresholds lie `at` entries from an origin.
struct alignas(16) Column {
  float low, scale, last;
  int steps;
  int category_set, missing, at;
  unsigned char height;
  bool nan_counts;       // NaN, which has reached no threshold, has another code than 0
  bool has_other_rules;  // some numbers are missing, or as good as zero
  bool zero_is_missing;
};

template <class Value>
__device__ __forceinline__ Column describe_column(const CodeTables<Value>& columns, int c, long long origin = 0) {
  const Buckets buckets = columns.buckets[c];
  const int set = columns.category_set[c], missing = columns.missing[c];
  const bool zero_is_missing = columns.zero_missing != nullptr && columns.zero_missing[columns.feature[c]];
  const bool has_other_rules =
      zero_is_missing || columns.zero_threshold > 0 || columns.missing_value == columns.missing_value;
  const int height = columns.height[c];
  Column column = {buckets.low, buckets.scale, float((4 << height) - 1), buckets.steps, set, missing};
  column.height = height;
  column.at = int(columns.offsets[c] - origin);
  column.nan_counts = missing != 0 || set >= 0;
  column.has_other_rules = has_other_rules;
  column.zero_is_missing = zero_is_missing;
  return column;
}

// Bucket of x; NaN is in the first. From 2^23 on float32 numbers are whole, and so are their bits behind the exponent:
// no conversion.
__device__ __forceinline__ int bucket_of(const Column& column, float x) {
  constexpr float WHOLE = 8388608;
  const float at = fmaf(__saturatef((x - column.low) * column.scale), column.last, WHOLE);
  return __float_as_int(at) - 0x4b000000;
}

// How many of a column's thresholds are <= x, for each of `n` values side by side: of the `steps` thresholds from the
// bucket's first on, none counts behind a threshold that x has not reached. Those of other columns lie there.
template <int steps, int n, class Value>
__device__ __forceinline__ void count_in_buckets(const Column& column, const Thresholds<Value>& thresholds,
                                                 const Value (&x)[n], unsigned (&rank)[n]) {
#pragma unroll
  for (int k = 0; k < n; ++k) rank[k] = thresholds.starts[bucket_of(column, float(x[k]))];
#pragma unroll
  for (int k = 0; k < n; ++k) {
    const Value* const first = thresholds.values + rank[k];
    bool reached = true;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      // One value is nothing but latency: all of its bucket are read at once. Many wait for banks of shared memory.
      reached = n == 1 ? reached & (first[step] <= x[k]) : reached && first[step] <= x[k];
      rank[k] += reached;
    }
  }
}

// The same by the search tree, which is walked by bytes.
template <int n, class Value>
__device__ __forceinline__ void search_tree(const Value* tree, int height, const Value (&x)[n], unsigned (&rank)[n]) {
  unsigned at[n];
#pragma unroll
  for (int k = 0; k < n; ++k) at[k] = sizeof(Value);
#pragma unroll 1
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

// How many of a column's thresholds the values x have reached, or which side of its set they are on.
template <int n, class Value>
__device__ __forceinline__ void find_codes(const CodeTables<Value>& columns, const Column& column,
                                           const Thresholds<Value>& thresholds, const Value (&x)[n],
                                           unsigned (&code)[n]) {
  if (column.steps == 1)
    count_in_buckets<1>(column, thresholds, x, code);
  else if (column.steps == 2)
    count_in_buckets<2>(column, thresholds, x, code);
  else if (column.steps > 0)
    count_in_buckets<MOST_STEPS>(column, thresholds, x, code);
  else if (column.category_set < 0)
    search_tree(thresholds.values, column.height, x, code);
  else
#pragma unroll
    for (int k = 0; k < n; ++k) code[k] = !in_set(columns, column.category_set, thresholds.values[1], x[k]);
}

template <int n, class Value>
__device__ __forceinline__ void mark_nan(const Column& column, const Value (&x)[n], unsigned (&code)[n]) {
  if (!column.nan_counts) return;
#pragma unroll
  for (int k = 0; k < n; ++k) code[k] = x[k] == x[k] ? code[k] : unsigned(column.missing);
}

// Columns of few thresholds a bucket whose values mean what they are: most.
__device__ __forceinline__ bool is_plain(const Column& column) {
  return (column.steps == 1 || column.steps == 2) && !column.has_other_rules;
}

// Codes of the values x of such a column.
template <int n, class Value>
__device__ __forceinline__ void plain_codes_of(const Column& column, const Thresholds<Value>& thresholds,
                                               const Value (&x)[n], unsigned (&code)[n]) {
  if (column.steps == 1)
    count_in_buckets<1>(column, thresholds, x, code);
  else
    count_in_buckets<2>(column, thresholds, x, code);
  mark_nan(column, x, code);
}

// Codes of the values x. Columns with rules of their own have a branch of their own: asking for each rule, compiled
// without branches, would cost the others a tenth of their instructions.
template <int n, class Value>
__device__ __forceinline__ void codes_of(const CodeTables<Value>& columns, const Column& column,
                                         const Thresholds<Value>& thresholds, Value (&x)[n], unsigned (&code)[n]) {
  if (!column.has_other_rules) {
    find_codes(columns, column, thresholds, x, code);
    mark_nan(column, x, code);
    return;
  }
  const Value zero = columns.zero_threshold, none = columns.missing_value;
#pragma unroll
  for (int k = 0; k < n; ++k) x[k] = zero > 0 && x[k] <= zero && x[k] >= -zero ? 0 : x[k];
  find_codes(columns, column, thresholds, x, code);
#pragma unroll
  for (int k = 0; k < n; ++k)
    if (x[k] != x[k] || x[k] == none || (column.zero_is_missing && x[k] == 0)) code[k] = unsigned(column.missing);
}

}  // namespace glasswood
