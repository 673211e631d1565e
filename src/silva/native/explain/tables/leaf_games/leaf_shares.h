// The game of one leaf between players whose cover shares r are known: a position that is not known counts r, o says
// whether the row meets the position's conditions. With F(t) = Π (r_i + (o_i - r_i) t)
//   value of p              (o_p - r_p) ∫ Π_{i != p} = ∫ F s_p            s_p = (o_p - r_p) / (r_p + (o_p - r_p) t)
//   interaction of p and q                             ∫ F s_p s_q.
// s is -1 / (1 - t) for o = 0, also of r = 0, where F is 0. No sum has terms of both signs, so nothing cancels.
#pragma once
#include "explain/tables/plan.h"

namespace silva {
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

// s of a position that is met.
inline double slope_of_met(double share, double t) { return (1 - share) / (share * (1 - t) + t); }

// [set]: ∫ F s_p s_q of positions p and q, of p = q ∫ F s_p.
inline void integrate_slopes(const double* share, int d, int p, int q, const double* t, int n_points,
                             const double* products, double* out) {
  const uint32_t n = 1u << d;
  __builtin_memset(out, 0, sizeof(double) * n);
  for (int k = 0; k < n_points; ++k, products += n) {
    const double unmet = -1 / (1 - t[k]);
    const double s[2] = {slope_of_met(share[p], t[k]), unmet};
    const double other[2] = {p == q ? 1 : slope_of_met(share[q], t[k]), p == q ? 1 : unmet};
    const double factor[2][2] = {{s[0] * other[0], s[0] * other[1]}, {s[1] * other[0], s[1] * other[1]}};
    for (uint32_t set = 0; set < n; ++set) {
      const double met = set >> q & 1 ? factor[0][1] : factor[0][0];
      const double not_met = set >> q & 1 ? factor[1][1] : factor[1][0];
      out[set] += products[set] * (set >> p & 1 ? not_met : met);
    }
  }
}

}  // namespace
}  // namespace silva
