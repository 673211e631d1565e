// Rows in lanes: for each leaf, the groups of neighbouring rows of which any reaches it, from rows by column. Included
// by evaluate/cpu/linear/kernels.cpp only.
//
// Boosted trees send most rows to a few leaves, whose groups are full. Rows that are not the leaf's are computed with
// the others and left out: a vector of numbers costs what one number costs.
#pragma once
#include "common/vectors.h"
#include "evaluate/cpu/linear/by_row.h"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace glasswood {
namespace {

constexpr int kWordRows = 64;
constexpr int kMostLaneRows = 1024;
constexpr int kMostLaneLeaves = 128;
constexpr int kTogetherInLanes = 2;

using DoubleLanes = Lanes<double, kVectorBytes / 8>;
using Doubles = DoubleLanes::Value;
using RowMask = DoubleLanes::Mask;
constexpr int kDoubles = DoubleLanes::width;

// A bit for each of 64 bytes that equal b.
GLASSWOOD_INLINE uint64_t equal_bytes(const uint8_t* bytes, uint8_t b) {
#if defined(__AVX512BW__)
  return _mm512_cmpeq_epi8_mask(_mm512_load_si512(bytes), _mm512_set1_epi8(char(b)));
#elif defined(__AVX2__)
  uint64_t bits = 0;
  for (int i = 0; i < kWordRows; i += 32)
    bits |= uint64_t(uint32_t(_mm256_movemask_epi8(
                _mm256_cmpeq_epi8(*reinterpret_cast<const __m256i*>(bytes + i), _mm256_set1_epi8(char(b))))))
            << i;
  return bits;
#elif defined(__SSE2__)
  uint64_t bits = 0;
  for (int i = 0; i < kWordRows; i += 16)
    bits |= uint64_t(uint32_t(_mm_movemask_epi8(
                _mm_cmpeq_epi8(*reinterpret_cast<const __m128i*>(bytes + i), _mm_set1_epi8(char(b))))))
            << i;
  return bits;
#else
  uint64_t bits = 0;
  for (int i = 0; i < kWordRows; ++i) bits |= uint64_t(bytes[i] == b) << i;
  return bits;
#endif
}

// The lanes of a vector whose bits are set, from bit `first` on.
GLASSWOOD_INLINE RowMask lanes_of(uint32_t bits, int first) {
  RowMask bit;
  for (int lane = 0; lane < kDoubles; ++lane) bit[lane] = int64_t(1) << lane;
  return ((RowMask{} + int64_t(bits >> first)) & bit) != 0;
}

// A bit for each of 8 bytes that are not 0.
GLASSWOOD_INLINE uint64_t bytes_set(uint64_t bits) {
#if defined(__SSE2__)
  const __m128i none = _mm_cmpeq_epi8(_mm_cvtsi64_si128(int64_t(bits)), _mm_setzero_si128());
  return ~uint32_t(_mm_movemask_epi8(none)) & 0xff;
#else
  uint64_t set = 0;
  for (int i = 0; i < 8; ++i) set |= uint64_t((bits >> 8 * i & 0xff) != 0) << i;
  return set;
#endif
}

// Which rows of a tile reach a leaf, a bit a row, and of which groups any does.
struct LeafRows {
  static constexpr int kGroups = kMostLaneRows / kLinearGroup;
  int n_groups;
  int32_t groups[kGroups + kTogetherInLanes];
  uint8_t rows[kGroups + kTogetherInLanes];

  GLASSWOOD_INLINE void find(const uint8_t* leaf_at, int n_words, uint8_t leaf) {
    n_groups = 0;
    constexpr int kWordsEach = 8;  // whose groups a word has bits for
    for (int first = 0; first < n_words; first += kWordsEach) {
      uint64_t set = 0, words[kWordsEach];
      const int end = n_words - first < kWordsEach ? n_words - first : kWordsEach;
      for (int word = 0; word < end; ++word) {
        words[word] = equal_bytes(leaf_at + (first + word) * kWordRows, leaf);
        set |= bytes_set(words[word]) << 8 * word;
      }
      const uint8_t* bytes = reinterpret_cast<const uint8_t*>(words);
      for (; set; set &= set - 1) {
        const int group = __builtin_ctzll(set);
        groups[n_groups] = first * kWordRows / kLinearGroup + group;
        rows[n_groups++] = bytes[group];
      }
    }
    // The last group again, without rows.
    for (int i = 0; i < kTogetherInLanes && n_groups; ++i)
      groups[n_groups + i] = groups[n_groups - 1], rows[n_groups + i] = 0;
  }
};

template <bool Means, bool Missing>
struct LeafLanes {
  static constexpr int V = kTogetherInLanes;
  const LinearLeaves& leaves;
  const double* number;
  double weight;
  double* sums;

  GLASSWOOD_INLINE const double* numbers(int group) const {
    return number + int64_t(group) * leaves.n_columns * kLinearGroup;
  }

  // The leaf's values for vectors of rows.
  GLASSWOOD_INLINE void values(int64_t leaf, const double* const (&from)[V], Doubles (&result)[V]) const {
    const LinearModel* model = leaves.model + leaf;
    Doubles sum[V] = {};
    RowMask missing[V] = {};
    for (int64_t at = model[0].first; at < model[1].first; ++at) {
      const LinearTerm& term = leaves.term[at];
      GLASSWOOD_UNROLL
      for (int v = 0; v < V; ++v) {
        const Doubles x = *reinterpret_cast<const Doubles*>(from[v] + term.column);
        Doubles deviation = Means ? x - leaves.mean[at] : x;
        if constexpr (Missing) {
          const RowMask lacks = DoubleLanes::missing(x);
          missing[v] |= lacks;
          deviation = DoubleLanes::select(lacks, Doubles{}, deviation);
        }
        sum[v] += term.coefficient * deviation;
      }
    }
    GLASSWOOD_UNROLL
    for (int v = 0; v < V; ++v) result[v] = model->value + sum[v];
    if (Missing || !leaves.plain) bound(leaves.bounds[leaf], missing, result);
  }

  GLASSWOOD_INLINE void bound(const LinearBounds& bounds, const RowMask (&missing)[V], Doubles (&value)[V]) const {
    const Doubles low = DoubleLanes::splat(bounds.low), high = DoubleLanes::splat(bounds.high);
    GLASSWOOD_UNROLL
    for (int v = 0; v < V; ++v) {
      value[v] = value[v] < low ? low : value[v] > high ? high : value[v];
      if (Missing && bounds.missing == bounds.missing)
        value[v] = DoubleLanes::select(missing[v], DoubleLanes::splat(bounds.missing), value[v]);
    }
  }

  GLASSWOOD_INLINE void add_groups(int64_t leaf, const int32_t* group, const uint8_t* bits) const {
    GLASSWOOD_UNROLL
    for (int part = 0; part < kLinearGroup; part += kDoubles) {
      const double* from[V];
      for (int v = 0; v < V; ++v) from[v] = numbers(group[v]) + part;
      Doubles value[V];
      values(leaf, from, value);
      for (int v = 0; v < V; ++v) {
        Doubles& sum = *reinterpret_cast<Doubles*>(sums + group[v] * kLinearGroup + part);
        sum = DoubleLanes::select(lanes_of(bits[v], part), sum + weight * value[v], sum);
      }
    }
  }

  void add_any(int64_t leaf, int group, uint32_t bits) const {
    for (; bits; bits &= bits - 1) {
      const int row = __builtin_ctz(bits);
      const double* x = numbers(group) + row;
      const double value = value_of_any(leaves, leaf, [x](const LinearTerm& term) { return x[term.column]; });
      sums[group * kLinearGroup + row] += weight * value;
    }
  }

  GLASSWOOD_INLINE void add_leaf(int64_t leaf, const LeafRows& found) const {
    if (leaves.plain || leaves.bounds[leaf].plain)
      for (int i = 0; i < found.n_groups; i += V) add_groups(leaf, found.groups + i, found.rows + i);
    else
      for (int i = 0; i < found.n_groups; ++i) add_any(leaf, found.groups[i], found.rows[i]);
  }
};

template <bool Means, bool Missing>
void add_in_lanes(const LinearLeaves& leaves, int tree, const int32_t* leaf_of, const int32_t* places, int n_rows,
                  const double* number, double* sums) {
  const int64_t first = leaves.first_leaf[tree], n_leaves = leaves.first_leaf[tree + 1] - first;
  const int n_words = (n_rows + kWordRows - 1) / kWordRows;
  alignas(64) uint8_t leaf_at[kMostLaneRows];
  for (int row = 0; row < n_rows; ++row) leaf_at[row] = uint8_t(leaf_of[places[row]] - first);
  for (int row = n_rows; row < n_words * kWordRows; ++row) leaf_at[row] = 0xff;
  const LeafLanes<Means, Missing> lanes{leaves, number, leaves.weight[tree], sums};
  LeafRows found;
  for (int64_t leaf = 0; leaf < n_leaves; ++leaf) {
    found.find(leaf_at, n_words, uint8_t(leaf));
    if (found.n_groups) lanes.add_leaf(first + leaf, found);
  }
}

inline bool any_missing(const double* numbers, int64_t n) {
  RowMask missing{};
  for (int64_t i = 0; i < n; i += kDoubles)
    missing |= DoubleLanes::missing(*reinterpret_cast<const Doubles*>(numbers + i));
  int64_t any = 0;
  for (int lane = 0; lane < kDoubles; ++lane) any |= missing[lane];
  return any != 0;
}

template <class Real>
LinearNumbers lay_out_rows(const LinearLeaves& leaves, const LinearRows& rows, double* memory) {
  const RowSource& source = rows.source;
  const Real* data = static_cast<const Real*>(source.data) + rows.first_row * source.row_stride;
  for (int group = 0; group < rows.n_rows; group += kLinearGroup) {
    const Real* row[kLinearGroup];
    for (int i = 0; i < kLinearGroup; ++i)
      row[i] = data + (group + i < rows.n_rows ? group + i : rows.n_rows - 1) * source.row_stride;
    double* number = memory + int64_t(group) * leaves.n_columns;
    for (int column = 0; column < leaves.n_columns; ++column, number += kLinearGroup) {
      const int64_t offset = leaves.features[column] * source.feature_stride;
      GLASSWOOD_UNROLL
      for (int i = 0; i < kLinearGroup; ++i) number[i] = double(row[i][offset]);
    }
  }
  return {memory, any_missing(memory, in_groups(rows.n_rows) * leaves.n_columns)};
}

}  // namespace
}  // namespace glasswood
