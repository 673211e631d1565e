// From a caller's rows to rows of codes, [row][column]. Included by evaluate/cpu/nodes/kernels.cpp only.
#pragma once
#include "evaluate/cpu/nodes/tables.h"
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace silva {
namespace {

// Pivots of a node of the search that are not above x.
SILVA_INLINE int count_not_above(const float* pivots, float x) {
#if defined(__AVX512BW__)
  return __builtin_popcount(_mm512_cmp_ps_mask(_mm512_set1_ps(x), _mm512_loadu_ps(pivots), _CMP_GE_OQ));
#else
  int count = 0;
  for (int i = 0; i < kSearchWidth; ++i) count += x >= pivots[i];
  return count;
#endif
}
SILVA_INLINE int count_not_above(const double* pivots, double x) {
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
SILVA_INLINE int rank_in(const NodeColumn& column, const Real* nodes, Real x) {
  int rank = 0;
  for (int level = 0; level < column.n_levels; ++level)
    rank = kSearchWidth * rank + count_not_above(nodes + int64_t(column.search[level] + rank) * kSearchWidth, x);
  return rank;
}

// The number that common/rows.h compares, or the class.
template <class Input>
SILVA_INLINE float float_code(const NodeTask& task, const NodeColumn& column, Input x) {
  const float code = task.coding.ranked ? encode_ranked(task.coding, column.feature, double(x))
                                        : encode_cast(task.coding, column.feature, float(x));
  return column.n_classes ? float(class_of(task.classes, task.classes.features[column.feature], code)) : code;
}

// The code of one value, and its flag. A number's is its rank; a missing one has none, and all bits of its flag set. A
// class's is its place among groups of 8, and the flag its bit there.
template <class Code, class Input>
SILVA_INLINE Code code_of(const NodeTask& task, const NodeColumn& column, Input x, Code& flag, bool& missing) {
  if constexpr (sizeof(Code) == 4) {
    const float code = float_code(task, column, x);
    missing = code != code;
    return code;
  } else {
    if (column.n_classes) {
      const uint32_t c = uint32_t(float_code(task, column, x));
      flag = Code(1 << (c & 7));
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

// The class that code and flag of a row's column stand for.
template <class Code>
SILVA_INLINE uint32_t class_at(const Code* codes, const Code* flags, int32_t column) {
  if constexpr (sizeof(Code) == 4) return uint32_t(codes[column]);
  return (uint32_t(codes[column]) << 3) | uint32_t(__builtin_ctz(uint32_t(flags[column])));
}

// How codes lie: [row][column], or [column][row].
template <bool RowByRow>
struct CodeOrder {
  int64_t stride;
  SILVA_INLINE int64_t operator()(int row, int column) const {
    return RowByRow ? row * stride + column : column * stride + row;
  }
};

// Returns whether any value is missing; writes flags beside ranks and classes.
template <class Code, class Input, bool RowByRow>
bool encode_codes(const NodeTask& task, int64_t first_row, int n_rows, CodeOrder<RowByRow> at, Code* codes,
                  Code* flags) {
  const NodeTables& forest = task.forest;
  const Input* data = static_cast<const Input*>(task.rows.data) + first_row * task.rows.row_stride;
  bool any_missing = false;
  const auto encode = [&](int row, int c) {
    const NodeColumn& column = forest.columns[c];
    bool missing = false;
    const Input x = data[row * task.rows.row_stride + column.feature * task.rows.feature_stride];
    codes[at(row, c)] = code_of<Code>(task, column, x, flags[at(row, c)], missing);
    any_missing |= missing;
  };
  if constexpr (RowByRow) {
    for (int row = 0; row < n_rows; ++row)
      for (int c = 0; c < forest.n_columns; ++c) encode(row, c);
  } else {
    // Lanes beyond the rows look classes up too.
    for (int c = 0; c < forest.n_columns; ++c) {
      for (int row = 0; row < n_rows; ++row) encode(row, c);
      for (int row = n_rows; row < at.stride; ++row) codes[at(row, c)] = flags[at(row, c)] = 0;
    }
  }
  return any_missing;
}

template <class Code, bool RowByRow>
bool encode_codes(const NodeTask& task, int64_t first_row, int n_rows, CodeOrder<RowByRow> at, Code* codes,
                  Code* flags) {
  return task.rows.is_double ? encode_codes<Code, double>(task, first_row, n_rows, at, codes, flags)
                             : encode_codes<Code, float>(task, first_row, n_rows, at, codes, flags);
}

}  // namespace
}  // namespace silva
