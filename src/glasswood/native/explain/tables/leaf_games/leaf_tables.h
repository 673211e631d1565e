// The game of one leaf against background rows (docs/internals/tables.md has the maths): d positions, and how many
// background rows meet which of their conditions.
//
// With f(B) the share of background rows whose met set is B, k = d - |B|, and
//   T_u[Y] = Σ_{B >= Y} f(B) G_k(|Y| - u)
// a row that does not meet the set Z gets, times the leaf's value, at a position j, inside and outside of Z alike,
//   T_0[Z] - T_1[Z u j]                                         G = Beta(k, z + 1); -H_z for k = 0,
// and for a pair of positions the interaction
//   T_0[Z] - T_1[Z u i] - T_1[Z u j] + T_2[Z u i u j]           G = Beta(k - 1, z + 1); -H_z for k = 1, z (H_z - 1) for
//   0,
// H_z = 1 + 1/2 + ... + 1/z. Sums over supersets are taken once for each abscissa of a quadrature of Beta.
#pragma once
#include "explain/tables/pack.h"
#include "explain/tables/plan.h"

namespace glasswood {
namespace {

constexpr int kMostPositions = kMostLanes;

template <int Q>
struct LeafPoints {
  using V = Pack<double, Q>;
  V known[kMostPositions + 1];    // [k]: t^k
  V unknown[kMostPositions + 1];  // [z]: w (1 - t)^z
  double harmonic[kMostPositions + 1];
  // [z]: those of z - 1, or of 0.
  V unknown_less[kMostPositions + 1];
  double harmonic_less[kMostPositions + 1];

  // n abscissae and n weights.
  LeafPoints(const double* t, const double* w) {
    V x, rest;
    load(t, x);
    load(w, unknown[0]);
    known[0] = V::splat(1);
    rest = V::splat(1) + x * -1.0;
    harmonic[0] = 0;
    for (int i = 1; i <= kMostPositions; ++i) {
      known[i] = known[i - 1] * x;
      unknown[i] = unknown[i - 1] * rest;
      harmonic[i] = harmonic[i - 1] + 1.0 / i;
    }
    for (int z = 0; z <= kMostPositions; ++z) {
      unknown_less[z] = unknown[z ? z - 1 : 0];
      harmonic_less[z] = harmonic[z ? z - 1 : 0];
    }
  }

  static void load(const double* from, V& to) { __builtin_memcpy(&to, from, sizeof(V)); }
};

// Tables of one leaf; [set].
struct LeafTables {
  double* sums;  // 8 times as many
  double* last;  // shares of background rows; of pairs, then of those that miss one condition
  double* t[3];
};

template <int Q>
GLASSWOOD_INLINE double dot(const Pack<double, Q>& a, const Pack<double, Q>& b) {
  const Pack<double, Q> product = a * b;
  double lanes[Q], sum = 0;
  __builtin_memcpy(lanes, &product, sizeof(lanes));
  for (int q = 0; q < Q; ++q) sum += lanes[q];
  return sum;
}

// x[Y] becomes the sum over the supersets of Y; the first two bits in registers.
template <class V>
GLASSWOOD_INLINE void sum_supersets(V* x, uint32_t n) {
  uint32_t bit = 1;
  for (uint32_t first = 0; n >= 4 && first < n; first += 4, bit = 4) {
    V a = x[first], b = x[first + 1], c = x[first + 2];
    const V d = x[first + 3];
    a += b, c += d;
    a += c, b += d;
    x[first] = a, x[first + 1] = b, x[first + 2] = c;
  }
  for (; bit < n; bit *= 2)
    for (uint32_t first = 0; first < n; first += 2 * bit)
      for (uint32_t set = first; set < first + bit; ++set) x[set] += x[set + bit];
}

// Sums over N bits, the first of which is given, in registers.
template <int N, class V>
GLASSWOOD_INLINE void sum_bits(V* x, uint32_t n, uint32_t bit) {
  for (uint32_t first = 0; first < n; first += bit << N)
    for (V* at = x + first; at < x + first + bit; ++at) {
      V sum[1 << N];
      GLASSWOOD_UNROLL
      for (int i = 0; i < 1 << N; ++i) sum[i] = at[i * bit];
      GLASSWOOD_UNROLL
      for (int of = 1; of < 1 << N; of *= 2) GLASSWOOD_UNROLL
      for (int i = 0; i < 1 << N; ++i)
        if (!(i & of)) sum[i] += sum[i + of];
      GLASSWOOD_UNROLL
      for (int i = 0; i < (1 << N) - 1; ++i) at[i * bit] = sum[i];
    }
}

// The same sums of vectors, which wait for the first-level cache: three bits at a time where registers hold them.
template <int Q>
  requires(kVectorBytes == 64)
GLASSWOOD_INLINE void sum_supersets(Pack<double, Q>* x, uint32_t n) {
  uint32_t bit = 1;
  if (n >= 4) sum_bits<2>(x, n, bit), bit = 4;
  for (; 8 * bit <= n; bit *= 8) sum_bits<3>(x, n, bit);
  if (4 * bit <= n) sum_bits<2>(x, n, bit), bit *= 4;
  if (2 * bit <= n) sum_bits<1>(x, n, bit);
}

// [met]: f t^(k - 1); of the full set 0.
template <int Q>
GLASSWOOD_INLINE void weigh_shares(const LeafPoints<Q>& points, int d, const double* share, Pack<double, Q>* to) {
  const uint32_t n = 1u << d;
  uint32_t met = 0;
  for (; met + 4 < n; met += 4) {
    const Pack<double, Q>* known = points.known + d - 1 - __builtin_popcount(met);
    to[met] = known[0] * share[met];
    to[met + 1] = known[-1] * share[met + 1];
    to[met + 2] = known[-1] * share[met + 2];
    to[met + 3] = known[-2] * share[met + 3];
  }
  for (; met + 1 < n; ++met) to[met] = points.known[d - 1 - __builtin_popcount(met)] * share[met];
  to[n - 1] = Pack<double, Q>::splat(0);
}

#if __has_builtin(__builtin_shufflevector)  // from GCC 12 on
constexpr bool kTakesEight = kVectorBytes == 64;
typedef double EightSets __attribute__((vector_size(64)));

GLASSWOOD_INLINE EightSets load_eight(const void* from) {
  EightSets result;
  __builtin_memcpy(&result, from, sizeof(result));
  return result;
}

// Of four products each of 8 sets, two sets a vector, the sums in the order that `dot` has.
GLASSWOOD_INLINE EightSets sum_products(const EightSets (&of)[4]) {
  const EightSets a = __builtin_shufflevector(of[0], of[1], 0, 8, 2, 10, 4, 12, 6, 14);
  const EightSets b = __builtin_shufflevector(of[0], of[1], 1, 9, 3, 11, 5, 13, 7, 15);
  const EightSets c = __builtin_shufflevector(of[2], of[3], 0, 8, 2, 10, 4, 12, 6, 14);
  const EightSets d = __builtin_shufflevector(of[2], of[3], 1, 9, 3, 11, 5, 13, 7, 15);
  const EightSets first = __builtin_shufflevector(a, c, 0, 4, 1, 5, 8, 12, 9, 13);
  const EightSets second = __builtin_shufflevector(b, d, 0, 4, 1, 5, 8, 12, 9, 13);
  const EightSets third = __builtin_shufflevector(a, c, 2, 6, 3, 7, 10, 14, 11, 15);
  const EightSets last = __builtin_shufflevector(b, d, 2, 6, 3, 7, 10, 14, 11, 15);
  return ((first + second) + third) + last;
}

// T of 8 sets from `set` on, with w (1 - t)^z and H_z by z.
GLASSWOOD_INLINE void integrate_eight(const Pack<double, 4>* e, uint32_t set, const Pack<double, 4>* unknown,
                                      const double* harmonic, double full, double* out) {
  const int z = __builtin_popcount(set);
  EightSets products[4];
  GLASSWOOD_UNROLL
  for (int i = 0; i < 4; ++i)
    products[i] = load_eight(e + set + 2 * i) * load_eight(unknown + z + __builtin_popcount(2 * i));
  const EightSets h = load_eight(harmonic + z);
  const EightSets t = sum_products(products) - full * __builtin_shufflevector(h, h, 0, 1, 1, 2, 1, 2, 2, 3);
  __builtin_memcpy(out + set, &t, sizeof(t));
}
#else
constexpr bool kTakesEight = false;
void integrate_eight(const Pack<double, 4>*, uint32_t, const Pack<double, 4>*, const double*, double, double*);
#endif

// T_0 and T_1 of values.
template <int Q>
void make_value_tables(const LeafPoints<Q>& points, int d, const int64_t* count, double total, const LeafTables& out) {
  using V = Pack<double, Q>;
  V* e = reinterpret_cast<V*>(out.sums);
  const uint32_t n = 1u << d;
  double* share = out.last;
  for (uint32_t met = 0; met < n; ++met) share[met] = double(count[met]) / total;
  weigh_shares(points, d, share, e);
  sum_supersets(e, n);
  const double full = share[n - 1];
  uint32_t set = 0;
  if constexpr (Q == 4 && kTakesEight)
    for (; set + 8 <= n; set += 8) {
      integrate_eight(e, set, points.unknown, points.harmonic, full, out.t[0]);
      integrate_eight(e, set, points.unknown_less, points.harmonic_less, full, out.t[1]);
    }
  for (; set < n; ++set) {
    const int z = __builtin_popcount(set);
    out.t[0][set] = dot(e[set], points.unknown[z]) - full * points.harmonic[z];
    out.t[1][set] = dot(e[set], points.unknown_less[z]) - full * points.harmonic_less[z];
  }
}

// T_0, T_1 and T_2 of interactions.
template <int Q>
void make_pair_tables(const LeafPoints<Q>& points, int d, const int64_t* count, double total, const LeafTables& out) {
  using V = Pack<double, Q>;
  V* e = reinterpret_cast<V*>(out.sums);
  const uint32_t n = 1u << d;
  for (uint32_t met = 0; met < n; ++met) {
    const int k = d - __builtin_popcount(met);
    const double share = double(count[met]) / total;
    e[met] = k < 2 ? V::splat(0) : points.known[k - 2] * share;
    out.last[met] = k == 1 ? share : 0;
  }
  sum_supersets(e, n);
  sum_supersets(out.last, n);
  const double full = double(count[n - 1]) / total;
  for (uint32_t set = 0; set < n; ++set)
    for (int u = 0; u < 3; ++u) {
      const int size = __builtin_popcount(set), z = size > u ? size - u : 0;
      const double h = points.harmonic[z];
      out.t[u][set] = dot(e[set], points.unknown[z]) - h * out.last[set] + full * z * (h - 1);
    }
}

}  // namespace
}  // namespace glasswood
