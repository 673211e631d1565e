// Sums over subsets of numbers that belong to the sets of d players, and their inverse.
#pragma once
#include <cstdint>

namespace glasswood {
namespace {

inline void sum_over_subsets(double* v, int d) {
  for (int64_t h = 1; h < int64_t(1) << d; h *= 2)
    for (int64_t s = 0; s < int64_t(1) << d; s += 2 * h)
      for (int64_t k = s; k < s + h; ++k) v[k + h] += v[k];
}

// Coefficients of the monomials whose sums over subsets are v.
inline void to_monomials(double* v, int d) {
  for (int64_t h = 1; h < int64_t(1) << d; h *= 2)
    for (int64_t s = 0; s < int64_t(1) << d; s += 2 * h)
      for (int64_t k = s; k < s + h; ++k) v[k + h] -= v[k];
}

}  // namespace
}  // namespace glasswood
