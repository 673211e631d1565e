// The game of one leaf between players whose cover shares r are known: a position that is not known counts r. Of the
// positions but p the product is Π (r_i + (o_i - r_i) t), o whether the row meets the position's conditions, and
//   value of p              (o_p - r_p) ∫ Π_{i != p}
//   interaction of p and q  (o_p - r_p) (o_q - r_q) ∫ Π_{i != p, q}.
// No factor of a product is negative, so nothing cancels.
#pragma once
#include "explain/tables/leaf_games/leaf_tables.h"

namespace silva {
namespace {

// out[set]: the integral of the product over all positions but those of `without`, for each set of positions that are
// not met; of those that hold none of `without`. `products` has room for all sets.
template <int Q>
void integrate_others(const LeafPoints<Q>& points, int d, const double* share, uint32_t without, double* products,
                      double* out) {
  using V = Pack<double, Q>;
  V* x = reinterpret_cast<V*>(products);
  const V t = points.known[1], rest = V::splat(1) + t * -1.0;
  x[0] = points.unknown[0];
  uint32_t n = 1;
  for (int p = 0; p < d; ++p, n *= 2) {
    if (without >> p & 1) continue;
    const V met = rest * share[p] + t, unmet = rest * share[p];
    for (uint32_t set = 0; set < n; ++set) {
      if (set & without) continue;
      x[set + n] = x[set] * unmet;
      x[set] = x[set] * met;
    }
  }
  const V one = V::splat(1);
  for (uint32_t set = 0; set < n; ++set)
    if (!(set & without)) out[set] = dot(x[set], one);
}

}  // namespace
}  // namespace silva
