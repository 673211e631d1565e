// Values of the leaves of small trees, added to the sums of rows in lanes. Included by evaluate/cpu/nodes/schedule.h
// only.
//
// Two registers hold the values of 16 leaves, which one instruction looks up for eight rows: up to 64 leaves this takes
// less than eight loads.
#pragma once
#include "evaluate/cpu/nodes/tables.h"
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace glasswood {
namespace {

#if defined(__AVX512F__)
constexpr int kTableLeaves = 16;

// Adds the values of rows in the `n` leaves from `first` on, at most Tables * kTableLeaves.
template <int Tables>
void add_looked_up(const double* value, int32_t first, int n, const int32_t* leaf, int n_rows, double* sum) {
  __m512d table[2 * Tables];
  for (int i = 0; i < 2 * Tables; ++i) {
    const int rest = n - 8 * i;
    table[i] = _mm512_maskz_loadu_pd(__mmask8(rest >= 8 ? 255 : rest > 0 ? (1 << rest) - 1 : 0), value + first + 8 * i);
  }
  const __m512i start = _mm512_set1_epi64(first);
  int row = 0;
  for (; row + 8 <= n_rows; row += 8) {
    const __m256i leaves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(leaf + row));
    const __m512i at = _mm512_sub_epi64(_mm512_cvtepi32_epi64(leaves), start);
    __m512d found[Tables];
    GLASSWOOD_UNROLL
    for (int i = 0; i < Tables; ++i) found[i] = _mm512_permutex2var_pd(table[2 * i], at, table[2 * i + 1]);
    GLASSWOOD_UNROLL
    for (int step = 1; step < Tables; step *= 2) {
      const __mmask8 is_second = _mm512_test_epi64_mask(at, _mm512_set1_epi64(kTableLeaves * step));
      GLASSWOOD_UNROLL
      for (int i = 0; i < Tables; i += 2 * step) found[i] = _mm512_mask_blend_pd(is_second, found[i], found[i + step]);
    }
    _mm512_storeu_pd(sum + row, _mm512_add_pd(_mm512_loadu_pd(sum + row), found[0]));
  }
  for (; row < n_rows; ++row) sum[row] += value[leaf[row]];
}

// Adds the values of a tree's leaves if they are few; whether they are.
inline bool add_small_tree(const double* value, const NodeTree& tree, const int32_t* leaf, int n_rows, double* sum) {
  const int n = leaf_numbers(tree);
  if (n > kMostLookedUp) return false;
  const auto add = n <= kTableLeaves ? add_looked_up<1> : n <= 2 * kTableLeaves ? add_looked_up<2> : add_looked_up<4>;
  return add(value, tree.first_leaf, n, leaf, n_rows, sum), true;
}
#else
inline bool add_small_tree(const double*, const NodeTree&, const int32_t*, int, double*) { return false; }
#endif

}  // namespace
}  // namespace glasswood
