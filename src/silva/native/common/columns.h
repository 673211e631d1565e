// Values of rows to rank codes (silva/cuda/codes.py), for the kernels that read rows.
#pragma once

namespace silva {

constexpr int MOST_STEPS = 4;  // as in silva/cuda/encoder.py

// A column of codes and how its thresholds are looked up (silva/cuda/encoder.py lays it out).
//
// The line of numbers is cut into 4 << height buckets: value x is in bucket round(saturate((x - low) * scale) * last).
// All operations are monotone as they are rounded, so thresholds in lower buckets are smaller than x, those in higher
// ones are larger, and only those in x's own bucket are compared: `steps` at most.
struct alignas(16) Column {
  float low, scale;
  int steps;   // 0: the thresholds are a search tree
  int height;  // room for 1 << height thresholds, at least 4
  int feature, category_set;
  int missing, zero_is_missing;  // code of missing values; whether a zero is one
  long long offset;              // of the thresholds; the starts of the buckets begin at four times as much
};

// A numerical column's thresholds are sorted where they spread well over the buckets: `starts` says for each bucket
// how many lie below. Otherwise they are a complete search tree of `height` levels in breadth-first order, entry 1 its
// root and entry 0 unused: the upper levels lie in few banks and lines. NaN fills up, which no value reaches, as none
// reaches the threshold +inf. A column of categories holds the smallest value that counts as a category in entry 1.
template <class Value>
struct Columns {
  const Column* columns;
  const Value* thresholds;
  const unsigned char* starts;
  const long long* set_offsets;
  const unsigned* set_words;
  const bool* set_others_left;
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

// Thresholds of one column, wherever they were copied to. Of `PITCH` columns side by side entries alternate, and so do
// words of four starts.
template <class Value, int PITCH = 1>
struct Thresholds {
  const Value* values;
  const unsigned char* starts;

  __device__ __forceinline__ Value value(unsigned entry) const { return values[entry * PITCH]; }
  __device__ __forceinline__ unsigned start(unsigned bucket) const {
    return PITCH == 1 ? starts[bucket] : (starts + (bucket & ~3u) * PITCH)[bucket & 3];
  }
};

// Bucket of a value; NaN is in the first. The last step rounds to an integer: floats from 2^23 to 2^24 have no others.
__device__ __forceinline__ unsigned bucket_of(float low, float scale, float last, float x) {
  return __float_as_uint(fmaf(__saturatef((x - low) * scale), last, 8388608.0f)) & 0x7fffffu;
}

// How many of a column's thresholds are <= x, for each of `n` values side by side.
template <int n, class Value, int PITCH>
__device__ __forceinline__ void count_in_buckets(const Column& column, int steps,
                                                 const Thresholds<Value, PITCH>& thresholds, const Value (&x)[n],
                                                 unsigned (&rank)[n]) {
  const float last = float((4 << column.height) - 1);
#pragma unroll
  for (int k = 0; k < n; ++k) rank[k] = thresholds.start(bucket_of(column.low, column.scale, last, float(x[k])));
  if (n == 1 && steps > 1) {
    // All of a bucket at once, for one value is nothing but latency. Behind the last threshold there is NaN.
    bool reached = true;
    const unsigned first = rank[0];
#pragma unroll
    for (int step = 0; step < MOST_STEPS; ++step) {
      reached = reached && thresholds.value(first + step) <= x[0];
      rank[0] += reached;
    }
    return;
  }
#pragma unroll 1
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int k = 0; k < n; ++k) rank[k] += thresholds.value(rank[k]) <= x[k];
}

// The same by the search tree, which is walked by bytes.
template <int n, class Value, int PITCH>
__device__ __forceinline__ void search_tree(const Thresholds<Value, PITCH>& tree, int height, const Value (&x)[n],
                                            unsigned (&rank)[n]) {
  constexpr unsigned ENTRY = PITCH * sizeof(Value);
  unsigned at[n];
#pragma unroll
  for (int k = 0; k < n; ++k) at[k] = ENTRY;
  for (int level = 0; level < height; ++level)
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const Value threshold = *reinterpret_cast<const Value*>(reinterpret_cast<const char*>(tree.values) + at[k]);
      at[k] = 2 * at[k] + (threshold <= x[k] ? ENTRY : 0u);
    }
#pragma unroll
  for (int k = 0; k < n; ++k) rank[k] = at[k] / ENTRY - (1u << height);
}

template <class Value>
__device__ __forceinline__ Thresholds<Value> thresholds_of(const Columns<Value>& columns, const Column& column) {
  return {columns.thresholds + column.offset, columns.starts + 4 * column.offset};
}

// Codes of the values x.
template <int n, class Value, int PITCH>
__device__ __forceinline__ void codes_of(const Columns<Value>& columns, const Column& column,
                                         const Thresholds<Value, PITCH>& thresholds, Value (&x)[n],
                                         unsigned (&code)[n]) {
  if (columns.zero_threshold > 0)
#pragma unroll
    for (int k = 0; k < n; ++k) x[k] = x[k] <= columns.zero_threshold && x[k] >= -columns.zero_threshold ? 0 : x[k];
  if (column.steps > 0)
    count_in_buckets(column, column.steps, thresholds, x, code);
  else if (column.category_set < 0)
    search_tree(thresholds, column.height, x, code);
  else
#pragma unroll
    for (int k = 0; k < n; ++k) code[k] = !in_set(columns, column.category_set, thresholds.value(1), x[k]);
#pragma unroll
  for (int k = 0; k < n; ++k)
    if (x[k] != x[k] || x[k] == columns.missing_value || (column.zero_is_missing && x[k] == 0))
      code[k] = unsigned(column.missing);
}

}  // namespace silva
