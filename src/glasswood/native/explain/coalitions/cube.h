// The margins of all coalitions of d players, from the leaves that they reach.
//
// A leaf of value v adds v [P ⊆ S] [N ∩ S = ∅] to the margin of S. For players of the vector's lanes that is a mask
// of lanes; for the others, which number the vectors, it is written as signed monomials:
//   [P ⊆ S] [N ∩ S = ∅] = Σ_{T ⊆ N} (-1)^|T| [P ∪ T ⊆ S] = Σ_{T ⊆ P} (-1)^|T| [(N ∪ T) ∩ S = ∅],
// the shorter of both. A sum over subsets ("zeta transform") of each kind of monomials then is the margin of every S.
// Leaf values are integers, in units: monomials cancel exactly, and no sum has an order.
#pragma once
#include "explain/coalitions/vector_math.h"

namespace glasswood {
namespace {

// Numbers of leaves as vectors of their own type: units, or float64 where leaves are equations.
template <class Real>
struct CubeVector;
template <>
struct CubeVector<int64_t> {
  using type = Integers;
  static GLASSWOOD_INLINE Integers in(Integers lanes, int64_t v) { return lanes & (Integers{} + v); }
  static GLASSWOOD_INLINE Doubles real(Integers x) { return __builtin_convertvector(x, Doubles); }
};
template <>
struct CubeVector<double> {
  using type = Doubles;
  static GLASSWOOD_INLINE Doubles in(Integers lanes, double v) { return lanes ? Doubles{} + v : Doubles{}; }
  static GLASSWOOD_INLINE Doubles real(Doubles x) { return x; }
};

template <class Real>
class Cube {
  using Traits = CubeVector<Real>;
  using V = typename Traits::type;

 public:
  // Both have 2^d numbers, at least a vector.
  Cube(char* of_known, char* of_unknown, int d)
      : known_(reinterpret_cast<V*>(of_known)),
        unknown_(reinterpret_cast<V*>(of_unknown)),
        bits_(d > kLaneBits ? d - kLaneBits : 0) {
    for (int64_t s = 0; s < size(); ++s) known_[s] = unknown_[s] = V{};
  }

  GLASSWOOD_INLINE void add(uint32_t p, uint32_t n, Real v) {
    constexpr uint32_t kLow = kLanes - 1;
    const Integers in_leaf = (lane_numbers() & int64_t((p | n) & kLow)) == (Integers{} + int64_t(p & kLow));
    const V part = Traits::in(reinterpret_cast<Integers>(in_leaf), v);
    const uint32_t high_p = p >> kLaneBits, high_n = n >> kLaneBits;
    if (__builtin_popcount(high_n) <= __builtin_popcount(high_p))
      expand(known_ + high_p, high_n, part);
    else
      expand(unknown_ + high_n, high_p, part);
  }

  // Replaces the first array by base + unit times the margins.
  void finish(double base, double unit) {
    const int64_t n = size();
    for (int64_t h = 1; h < n; h *= 2)
      for (int64_t s = 0; s < n; s += 2 * h)
        for (int64_t k = s; k < s + h; ++k) known_[k + h] += known_[k], unknown_[k + h] += unknown_[k];
    Doubles* margin = reinterpret_cast<Doubles*>(known_);
    for (int64_t s = 0; s < n; ++s) margin[s] = base + unit * Traits::real(known_[s] + unknown_[n - 1 - s]);
  }

 private:
  V *known_, *unknown_;
  int bits_;

  int64_t size() const { return int64_t(1) << bits_; }

  static GLASSWOOD_INLINE void expand(V* to, uint32_t free, V part) {
    to[0] += part;
    for (uint32_t t = free; t; t = (t - 1) & free) {
      if (__builtin_popcount(t) & 1)
        to[t] -= part;
      else
        to[t] += part;
    }
  }
};

}  // namespace
}  // namespace glasswood
