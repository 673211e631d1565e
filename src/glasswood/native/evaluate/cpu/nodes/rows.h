// From a caller's rows to rows of codes, [row][column]. Included by evaluate/cpu/nodes/kernels.cpp only.
#pragma once
#include "evaluate/cpu/nodes/tables.h"
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace glasswood {
namespace {

// Pivots of a node of the search that are not above x.
GLASSWOOD_INLINE int count_not_above(const float* pivots, float x) {
#if defined(__AVX512BW__)
  return __builtin_popcount(_mm512_cmp_ps_mask(_mm512_set1_ps(x), _mm512_loadu_ps(pivots), _CMP_GE_OQ));
#else
  int count = 0;
  for (int i = 0; i < kSearchWidth; ++i) count += x >= pivots[i];
  return count;
#endif
}
GLASSWOOD_INLINE int count_not_above(const double* pivots, double x) {
#if defined(__AVX512BW__)
  const __m512d all = _mm512_set1_pd(x);
  const unsigned low = _mm512_cmp_pd_mask(all, _mm512_loadu_pd(pivots), _CMP_GE_OQ);
  return __builtin_popcount(low | unsigned(_mm512_cmp_pd_mask(all, _mm512_loadu_pd(pivots + 8), _CMP_GE_OQ)) << 8);
#else
  int count = 0;
  for (int i = 0; i < kSearchWidth; ++i) count += x >= pivots[i];
  return count;
#endif
}

// How many of the column's thresholds are not above x: 15 of them rule out all but a sixteenth of the rest.
template <class Real>
GLASSWOOD_INLINE int rank_in(const NodeColumn& column, const Real* nodes, Real x) {
  int rank = 0;
  for (int level = 0; level < column.n_levels; ++level)
    rank = kSearchWidth * rank + count_not_above(nodes + int64_t(column.search[level] + rank) * kSearchWidth, x);
  return rank;
}

// The number that common/rows.h compares, or the class.
template <class Input>
GLASSWOOD_INLINE float float_code(const NodeTask& task, const NodeColumn& column, Input x) {
  const float code = task.coding.ranked ? encode_ranked(task.coding, column.feature, double(x))
                                        : encode_cast(task.coding, column.feature, float(x));
  return column.n_classes ? float(class_of(task.classes, task.classes.features[column.feature], code)) : code;
}

// Whether a column has more classes than a byte has places: its flags hold the page of 256 places and a bit's number.
template <class Code>
GLASSWOOD_INLINE bool has_pages(const NodeColumn& column) {
  return sizeof(Code) == 1 && column.n_classes > kPageClasses;
}

// The code of one value, and its flag. A number's is its rank; a missing one has none, and all bits of its flag set. A
// class's is its place among groups of 8, and the flag its bit there.
template <class Code, class Input>
GLASSWOOD_INLINE Code code_of(const NodeTask& task, const NodeColumn& column, Input x, Code& flag, bool& missing) {
  if constexpr (sizeof(Code) == 4) {
    const float code = float_code(task, column, x);
    missing = code != code;
    return code;
  } else {
    if (column.n_classes) {
      const uint32_t c = uint32_t(float_code(task, column, x));
      flag = has_pages<Code>(column) ? Code(c / kPageClasses << 3 | (c & 7)) : Code(1 << (c & 7));
      return Code(c >> 3);
    }
    int rank;
    if (task.coding.ranked) {
      const double settled = settle(task.coding, column.feature, double(x));
      missing = settled != settled;
      rank = rank_in(column, task.forest.search64, settled);
    } else {
      const float settled = encode_cast(task.coding, column.feature, float(x));
      missing = settled != settled;
      rank = rank_in(column, task.forest.search32, settled);
    }
    flag = missing ? Code(~0) : Code(0);
    return Code(rank);
  }
}

// The class that code and flag of a row stand for in a split's column.
template <class Code>
GLASSWOOD_INLINE uint32_t class_at(const Code* codes, const Code* flags, const ClassSplit& split) {
  const uint32_t code = uint32_t(codes[split.column]);
  if constexpr (sizeof(Code) == 4) return code;
  const uint32_t flag = uint32_t(flags[split.column]);
  if (sizeof(Code) == 1 && split.has_pages) return flag / 8 * kPageClasses + 8 * code + flag % 8;
  return 8 * code + uint32_t(__builtin_ctz(flag));
}

// How codes lie: [row][column], or [column][row].
template <bool RowByRow>
struct CodeOrder {
  int64_t stride;
};

constexpr int kTogether = kSearchWidth;  // values of a column that are encoded side by side
template <class T>
struct Together {
  typedef T Vector __attribute__((vector_size(sizeof(T) * kTogether)));
};
using Floats = Together<float>::Vector;
using Doubles = Together<double>::Vector;
using Ints = Together<int32_t>::Vector;

// How many pivots of one node are not above each x: four comparisons halve the pivots that are left.
GLASSWOOD_INLINE Ints counts_not_above(const float* pivots, const Floats& x) {
#if defined(__AVX512BW__)
  const __m512 table = _mm512_loadu_ps(pivots);
  __m512i at = _mm512_setzero_si512();
  GLASSWOOD_UNROLL
  for (int step = kSearchWidth / 2; step; step /= 2) {
    const __m512 pivot = _mm512_permutexvar_ps(_mm512_add_epi32(at, _mm512_set1_epi32(step - 1)), table);
    at = _mm512_mask_add_epi32(at, _mm512_cmp_ps_mask(__m512(x), pivot, _CMP_GE_OQ), at, _mm512_set1_epi32(step));
  }
  return Ints(at);
#else
  Ints count;
  for (int i = 0; i < kTogether; ++i) count[i] = count_not_above(pivots, x[i]);
  return count;
#endif
}
GLASSWOOD_INLINE Ints counts_not_above(const double* pivots, const Doubles& x) {
  Ints count;
  for (int i = 0; i < kTogether; ++i) count[i] = count_not_above(pivots, x[i]);
  return count;
}

template <class Code>
GLASSWOOD_INLINE void put_together(Code* at, const Ints& numbers) {
  const auto narrow = __builtin_convertvector(numbers, typename Together<Code>::Vector);
  __builtin_memcpy(at, &narrow, sizeof narrow);
}

// Ranks of settled values, and all bits of the flags of missing ones. Returns whether there are any.
template <class Code, class Vector, class Real>
GLASSWOOD_INLINE bool rank_together(const NodeColumn& column, const Real* nodes, const Vector& x, Code* codes,
                                    Code* flags) {
  Ints rank{};
  if (column.n_levels) rank = counts_not_above(nodes + int64_t(column.search[0]) * kSearchWidth, x);
  for (int level = 1; level < column.n_levels; ++level) {
    const Real* first = nodes + int64_t(column.search[level]) * kSearchWidth;
    int32_t each[kTogether];
    Real values[kTogether];
    __builtin_memcpy(each, &rank, sizeof each);
    __builtin_memcpy(values, &x, sizeof values);
    for (int i = 0; i < kTogether; ++i)
      each[i] = kSearchWidth * each[i] + count_not_above(first + int64_t(each[i]) * kSearchWidth, values[i]);
    __builtin_memcpy(&rank, each, sizeof each);
  }
  const Ints missing = __builtin_convertvector(x != x, Ints);
  put_together(codes, rank);
  put_together(flags, missing);
  int32_t any = 0;
  for (int i = 0; i < kTogether; ++i) any |= missing[i];
  return any != 0;
}

// Places of the classes among groups of 8, and their bits there.
template <class Code>
GLASSWOOD_INLINE void class_together(const NodeTask& task, const NodeColumn& column, const Floats& x, Code* codes,
                                     Code* flags) {
  const FeatureClasses& feature = task.classes.features[column.feature];
  const int32_t* class_of = task.classes.class_of + feature.first;
  const int32_t n = feature.n_categories;
  const Ints is_category = Ints(x >= 0.0f) & Ints(x < float(n)), is_fraction = Ints(x > -1.0f) & Ints(x < 0.0f);
  const Ints other = (Ints{} + n) - is_fraction - 2 * Ints(x != x);
  const Ints place = is_category ? __builtin_convertvector(is_category ? x : Floats{}, Ints) : other;
  Ints c;
  for (int i = 0; i < kTogether; ++i) c[i] = class_of[place[i]];
  put_together(codes, c >> 3);
  put_together(flags, has_pages<Code>(column) ? c / kPageClasses << 3 | (c & 7) : (Ints{} + 1) << (c & 7));
}

// Vector of `encode` of each value. Values that are compared as they are stay in registers: what is stored one by one
// waits until it can be loaded as a vector.
template <class Real, class Vector, class Encode>
GLASSWOOD_INLINE typename Together<Real>::Vector encoded(const Vector& x, bool plain, const Encode& encode) {
  auto result = __builtin_convertvector(x, typename Together<Real>::Vector);
  if (!plain)
    for (int i = 0; i < kTogether; ++i) result[i] = encode(x[i]);
  return result;
}

template <class Code, class Vector>
GLASSWOOD_INLINE bool encode_together(const NodeTask& task, const NodeColumn& column, const Vector& x, Code* codes,
                                      Code* flags) {
  const RowCoding& coding = task.coding;
  const int feature = column.feature;
  const bool plain = coding.zero_threshold <= 0 && !coding.flags[feature];
  if (coding.ranked && !column.n_classes) {
    const Doubles settled = encoded<double>(x, plain, [&](double each) { return settle(coding, feature, each); });
    return rank_together(column, task.forest.search64, settled, codes, flags);
  }
  const Floats code =
      coding.ranked ? encoded<float>(x, false, [&](double each) { return encode_ranked(coding, feature, each); })
                    : encoded<float>(x, plain, [&](auto each) { return encode_cast(coding, feature, float(each)); });
  if (!column.n_classes) return rank_together(column, task.forest.search32, code, codes, flags);
  class_together(task, column, code, codes, flags);
  return false;
}

// Returns whether any value is missing; writes flags beside ranks and classes.
template <class Code, class Input>
bool encode_codes(const NodeTask& task, int64_t first_row, int n_rows, CodeOrder<true> order, Code* codes,
                  Code* flags) {
  const Input* data = static_cast<const Input*>(task.rows.data) + first_row * task.rows.row_stride;
  bool any_missing = false;
  for (int row = 0; row < n_rows; ++row)
    for (int c = 0; c < task.forest.n_columns; ++c) {
      const NodeColumn& column = task.forest.columns[c];
      bool missing = false;
      if (const uint8_t* ranks = task.given.of(column.feature)) {
        codes[row * order.stride + c] = Code(ranks[first_row + row]), flags[row * order.stride + c] = 0;
        continue;
      }
      const Input x = data[row * task.rows.row_stride + column.feature * task.rows.feature_stride];
      codes[row * order.stride + c] = code_of<Code>(task, column, x, flags[row * order.stride + c], missing);
      any_missing |= missing;
    }
  return any_missing;
}

template <class Code>
GLASSWOOD_INLINE void copy_ranks(const uint8_t* ranks, int n_rows, int64_t stride, Code* codes) {
  if constexpr (sizeof(Code) == 1)
    __builtin_memcpy(codes, ranks, n_rows);
  else
    for (int row = 0; row < n_rows; ++row) codes[row] = Code(ranks[row]);
  for (int64_t row = n_rows; row < stride; ++row) codes[row] = 0;
}

// Ranks that are given are of no missing values; flags are read only where any value is missing.
template <class Code>
GLASSWOOD_INLINE void clear_flags_of_ranks(const NodeTask& task, int64_t stride, Code* flags) {
  for (int c = 0; c < task.forest.n_columns; ++c)
    for (int64_t row = 0; row < stride && task.given.of(task.forest.columns[c].feature); ++row)
      flags[c * stride + row] = 0;
}

// Columns are whole vectors: lanes beyond the rows, which look classes up too, have values of 0.
template <class Code, class Input>
bool encode_codes(const NodeTask& task, int64_t first_row, int n_rows, CodeOrder<false> order, Code* codes,
                  Code* flags) {
  const Input* data = static_cast<const Input*>(task.rows.data) + first_row * task.rows.row_stride;
  bool any_missing = false;
  for (int c = 0; c < task.forest.n_columns; ++c) {
    const NodeColumn& column = task.forest.columns[c];
    if (const uint8_t* ranks = task.given.of(column.feature)) {
      copy_ranks(ranks + first_row, n_rows, order.stride, codes + c * order.stride);
      continue;
    }
    const Input* values = data + column.feature * task.rows.feature_stride;
    for (int64_t row = 0; row < order.stride; row += kTogether) {
      typename Together<Input>::Vector x{};
      const int64_t n = n_rows - row < kTogether ? n_rows - row : kTogether;
      if (task.rows.row_stride == 1 && n == kTogether)
        __builtin_memcpy(&x, values + row, sizeof x);
      else
        for (int i = 0; i < n; ++i) x[i] = values[(row + i) * task.rows.row_stride];
      const int64_t at = c * order.stride + row;
      any_missing |= encode_together(task, column, x, codes + at, flags + at);
    }
  }
  if (any_missing) clear_flags_of_ranks(task, order.stride, flags);
  return any_missing;
}

template <class Code, bool RowByRow>
bool encode_codes(const NodeTask& task, int64_t first_row, int n_rows, CodeOrder<RowByRow> at, Code* codes,
                  Code* flags) {
  return task.rows.is_double ? encode_codes<Code, double>(task, first_row, n_rows, at, codes, flags)
                             : encode_codes<Code, float>(task, first_row, n_rows, at, codes, flags);
}

}  // namespace
}  // namespace glasswood
