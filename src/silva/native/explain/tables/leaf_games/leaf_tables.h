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

namespace silva {
namespace {

constexpr int kMostPositions = kMostLanes;

template <int Q>
struct LeafPoints {
  using V = Pack<double, Q>;
  V known[kMostPositions + 1];    // [k]: t^k
  V unknown[kMostPositions + 1];  // [z]: w (1 - t)^z
  double harmonic[kMostPositions + 1];

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
SILVA_INLINE double dot(const Pack<double, Q>& a, const Pack<double, Q>& b) {
  const Pack<double, Q> product = a * b;
  double lanes[Q], sum = 0;
  __builtin_memcpy(lanes, &product, sizeof(lanes));
  for (int q = 0; q < Q; ++q) sum += lanes[q];
  return sum;
}

// x[Y] becomes the sum over the supersets of Y; the first two bits in registers.
template <class V>
SILVA_INLINE void sum_supersets(V* x, uint32_t n) {
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

// T_0 and T_1 of values.
template <int Q>
void make_value_tables(const LeafPoints<Q>& points, int d, const int64_t* count, double total, const LeafTables& out) {
  using V = Pack<double, Q>;
  V* e = reinterpret_cast<V*>(out.sums);
  const uint32_t n = 1u << d;
  double* share = out.last;
  for (uint32_t met = 0; met < n; ++met) share[met] = double(count[met]) / total;
  for (uint32_t met = 0; met + 1 < n; ++met) e[met] = points.known[d - 1 - __builtin_popcount(met)] * share[met];
  e[n - 1] = V::splat(0);
  sum_supersets(e, n);
  const double full = share[n - 1];
  for (uint32_t set = 0; set < n; ++set) {
    const int z = __builtin_popcount(set), less = z ? z - 1 : 0;
    out.t[0][set] = dot(e[set], points.unknown[z]) - full * points.harmonic[z];
    out.t[1][set] = dot(e[set], points.unknown[less]) - full * points.harmonic[less];
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
}  // namespace silva
