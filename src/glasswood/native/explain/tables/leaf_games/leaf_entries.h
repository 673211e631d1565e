// What a row gets of a leaf of weight 1, by the set of conditions that it does not meet, from the leaf's tables T_0 and
// T_1: at position j T_0[set] - T_1[set u j], in the lane of the position's player.
#pragma once
#include "explain/tables/leaf_games/leaf_tables.h"
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace glasswood {
namespace {

// The position of each lane as a bit, and which lanes have one.
struct LanePositions {
  int32_t bit[kMostLanes];
  uint32_t lanes;

  LanePositions() = default;
  LanePositions(const uint8_t* lane_of, int n_positions) : bit{}, lanes(0) {
    for (int p = 0; p < n_positions; ++p) bit[lane_of[p]] = 1 << p, lanes |= 1u << lane_of[p];
  }
};

#if defined(__AVX512BW__)
constexpr bool kFillsVectors = true;

// Entries of all sets of d positions, in eight of `size` lanes from `first` on. Of lanes whose position is below the
// fifth, T_1 of 16 sets is permuted in registers; the others take one number each.
__attribute__((noinline)) void fill_lanes(const LanePositions& positions, int d, const double* t0, const double* t1,
                                          int first, int size, double* entries) {
  const uint32_t n = 1u << d;
  const __mmask8 lanes = __mmask8(positions.lanes >> first);
  const __m512i bits =
      _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(positions.bit + first)));
  uint32_t far[8];
  __mmask8 far_lane[8];
  int n_far = 0;
  for (uint32_t left = _mm512_cmpgt_epi64_mask(bits, _mm512_set1_epi64(8)); left; left &= left - 1) {
    far_lane[n_far] = __mmask8(left & -left);
    far[n_far++] = uint32_t(positions.bit[first + __builtin_ctz(left)]);
  }
  const __m512i one = _mm512_set1_epi64(1);
  __m512i sets = _mm512_setzero_si512();
  for (uint32_t block = 0; block < n; block += 16) {
    const __m512d low = _mm512_maskz_loadu_pd(n < 8 ? (1 << n) - 1 : 0xff, t1 + block);
    const __m512d high = n > 8 ? _mm512_loadu_pd(t1 + block + 8) : low;
    for (uint32_t set = block; set < (n < 16 ? n : block + 16); ++set) {
      __m512d others = _mm512_permutex2var_pd(low, _mm512_or_si512(bits, sets), high);
      for (int i = 0; i < n_far; ++i)
        others = _mm512_mask_mov_pd(others, far_lane[i], _mm512_set1_pd(t1[set | far[i]]));
      _mm512_storeu_pd(entries + int64_t(set) * size + first,
                       _mm512_maskz_sub_pd(lanes, _mm512_set1_pd(t0[set]), others));
      sets = _mm512_add_epi64(sets, one);
    }
  }
}
#else
constexpr bool kFillsVectors = false;
void fill_lanes(const LanePositions&, int, const double*, const double*, int, int, double*);
#endif

// One entry, in eight lanes from `first` on.
GLASSWOOD_INLINE Pack<double, 8> entry_of(const LanePositions& positions, const double* t0, const double* t1, int first,
                                          uint32_t set) {
  Pack<double, 8> result;
#if defined(__AVX512BW__)
  const __mmask8 lanes = __mmask8(positions.lanes >> first);
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(positions.bit + first));
  const __m256i sets = _mm256_or_si256(bits, _mm256_set1_epi32(int32_t(set)));
  const __m512d others = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), lanes, sets, t1, sizeof(double));
  const __m512d values = _mm512_maskz_sub_pd(lanes, _mm512_set1_pd(t0[set]), others);
  __builtin_memcpy(&result, &values, sizeof(result));
#else
  double values[8];
  for (int i = 0; i < 8; ++i) {
    const double value = t0[set] - t1[set | uint32_t(positions.bit[first + i])];
    values[i] = positions.lanes >> (first + i) & 1 ? value : 0;
  }
  __builtin_memcpy(&result, values, sizeof(result));
#endif
  return result;
}

}  // namespace
}  // namespace glasswood
