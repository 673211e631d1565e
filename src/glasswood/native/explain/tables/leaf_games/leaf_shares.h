// The game of one leaf between players whose cover shares r are known: a position that is not known counts r, o says
// whether the row meets the position's conditions. With F(t) = Π (r_i + (o_i - r_i) t)
//   value of p              (o_p - r_p) ∫ F / (r_p + (1 - r_p) t)
//   interaction of p and q  (o_p - r_p) (o_q - r_q) ∫ F / (r_p + (1 - r_p) t) / (r_q + (1 - r_q) t)
// where F is that of a row that meets p (and q) and is else like this one: the product over the other positions. All
// factors are at least 0, so nothing cancels.
#pragma once
#include "explain/tables/kernels.h"
#include "explain/tables/plan.h"

namespace glasswood {
namespace {

// [point][set of the d positions that are not met]: F times the weight.
inline void multiply_shares(const double* share, int d, const double* t, const double* w, int n_points,
                            double* products) {
  for (int k = 0; k < n_points; ++k, products += 1u << d) {
    products[0] = w[k];
    for (int i = 0; i < d; ++i) {
      const double unmet = share[i] * (1 - t[k]), met = unmet + t[k];
      const uint32_t size = 1u << i;
      double* with = products + size;
#pragma GCC ivdep
      for (uint32_t set = 0; set < size; ++set) {
        with[set] = products[set] * unmet;
        products[set] *= met;
      }
    }
  }
}

// [set]: Σ over K points of F times the factor of the point. For sets that meet p (and q), with
// 1 / (r (1 - t) + t) of p (and q) as the factor, it is the integral of the product over the other positions.
template <int K>
void sum_points(const double* products, uint32_t n, const double* factor, double* out) {
#pragma GCC ivdep
  for (uint32_t set = 0; set < n; ++set) {
    double sum = 0;
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) sum += products[k * n + set] * factor[k];
    out[set] = sum;
  }
}

inline void sum_points(const double* products, uint32_t n, int n_points, const double* factor, double* out) {
  using Sum = void (*)(const double*, uint32_t, const double*, double*);
  constexpr Sum kSums[] = {sum_points<0>, sum_points<1>, sum_points<2>, sum_points<3>, sum_points<4>,
                           sum_points<5>, sum_points<6>, sum_points<7>, sum_points<8>};
  kSums[n_points](products, n, factor, out);
}

// The same integral for positions p and q, which may be one.
inline void integrate_others(const double* share, int d, int p, int q, const double* t, int n_points,
                             const double* products, double* out) {
  double factor[kMostPoints];
  for (int k = 0; k < n_points; ++k) {
    const auto met = [&](int i) { return share[i] * (1 - t[k]) + t[k]; };
    factor[k] = 1 / (p == q ? met(p) : met(p) * met(q));
  }
  sum_points(products, 1u << d, n_points, factor, out);
}

}  // namespace
}  // namespace glasswood
