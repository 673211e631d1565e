// The rows of a box: intervals of ranks tested a vector of rows at a time.
#pragma once
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "grow/sums/gram.h"
#include "grow/sums/kernels.h"

namespace glasswood {

constexpr int kVectorRows = kVectorBytes / sizeof(int32_t);
static_assert(kVectorRows <= kFilterLanes);
using Int32s = int32_t __attribute__((vector_size(kVectorBytes)));
using Uint32s = uint32_t __attribute__((vector_size(kVectorBytes)));

GLASSWOOD_GROW_INLINE Int32s test_ranks(const RankInterval& interval, Int32s ranks) {
  return ((Uint32s)(ranks - interval.low) < interval.span) & (ranks >= 0) | (ranks < 0) & -int32_t(interval.missing);
}

GLASSWOOD_GROW_INLINE Int32s test_rows(const RankInterval* intervals, int n_intervals, int64_t row) {
  Int32s inside = ~Int32s{};
  for (int i = 0; i < n_intervals; ++i) {
    Int32s ranks;
    __builtin_memcpy(&ranks, intervals[i].ranks + row, sizeof ranks);
    inside &= test_ranks(intervals[i], ranks);
  }
  return inside;
}

#if defined(__AVX2__) && !defined(__AVX512DQ__)
// AVX2 permutes where AVX-512 compresses: of every mask of eight lanes the set ones, first to last, a byte each.
struct SetLanes {
  uint64_t of[256] = {};

  constexpr SetLanes() {
    for (int mask = 0; mask < 256; ++mask)
      for (int lane = 0, n_set = 0; lane < 8; ++lane)
        if (mask >> lane & 1) of[mask] |= uint64_t(lane) << 8 * n_set++;
  }
};
static constexpr SetLanes kSetLanes;
#endif

// Writes the rows whose lane is set and returns how many; may write garbage behind them.
GLASSWOOD_GROW_INLINE int append_rows(Int32s inside, Int32s rows, int32_t* out) {
#ifdef __AVX512DQ__
  const __mmask16 mask = _mm512_movepi32_mask((__m512i)inside);
  _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(mask, (__m512i)rows));
  return __builtin_popcount(mask);
#elif defined(__AVX2__)
  const int mask = _mm256_movemask_ps((__m256)inside);
  const __m256i lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(int64_t(kSetLanes.of[mask])));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32((__m256i)rows, lanes));
  return __builtin_popcount(mask);
#else
  int count = 0;
  for (int lane = 0; lane < kVectorRows; ++lane) {
    out[count] = rows[lane];
    count -= inside[lane];
  }
  return count;
#endif
}

GLASSWOOD_GROW_INLINE bool holds_rank(const RankInterval& interval, int32_t rank) {
  return rank < 0 ? interval.missing : uint32_t(rank - interval.low) < interval.span;
}

GLASSWOOD_GROW_INLINE bool holds_row(const RankInterval* intervals, int n_intervals, int64_t row) {
  for (int i = 0; i < n_intervals; ++i)
    if (!holds_rank(intervals[i], intervals[i].ranks[row])) return false;
  return true;
}

GLASSWOOD_GROW_INLINE int64_t filter_rows(const RankInterval* intervals, int n_intervals, int64_t n_rows,
                                          int32_t* rows) {
  constexpr int32_t kCounted[kFilterLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  Int32s lanes;
  __builtin_memcpy(&lanes, kCounted, sizeof lanes);
  int64_t count = 0, row = 0;
  for (; row + kVectorRows <= n_rows; row += kVectorRows)
    count += append_rows(test_rows(intervals, n_intervals, row), lanes + int32_t(row), rows + count);
  for (; row < n_rows; ++row)
    if (holds_row(intervals, n_intervals, row)) rows[count++] = int32_t(row);
  return count;
}

GLASSWOOD_GROW_INLINE int64_t partition_rows(const RankInterval& interval, int32_t* rows, int64_t count,
                                             int32_t* spare) {
  constexpr int64_t kAhead = 32;  // rows whose ranks are fetched before they are needed
  int64_t n_in = 0, n_out = 0, i = 0;
  for (; i + kVectorRows <= count; i += kVectorRows) {
    Int32s some, ranks;
    __builtin_memcpy(&some, rows + i, sizeof some);
    for (int lane = 0; lane < kVectorRows; ++lane) {
      __builtin_prefetch(interval.ranks + rows[i + lane + kAhead < count ? i + lane + kAhead : i]);
      ranks[lane] = interval.ranks[some[lane]];
    }
    const Int32s inside = test_ranks(interval, ranks);
    n_in += append_rows(inside, some, rows + n_in);
    n_out += append_rows(~inside, some, spare + n_out);
  }
  for (; i < count; ++i) {
    const int32_t row = rows[i];
    const bool inside = holds_rank(interval, interval.ranks[row]);
    (inside ? rows[n_in++] : spare[n_out++]) = row;
  }
  __builtin_memcpy(rows + n_in, spare, n_out * sizeof *rows);
  return n_in;
}

}  // namespace glasswood
