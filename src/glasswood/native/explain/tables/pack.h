// L values in as many registers as the instruction set needs for them.
#pragma once
#include "common/lanes.h"
#include "common/vectors.h"

namespace glasswood {
namespace {

template <class Real, int L>
struct Pack {
  static constexpr int W = kVectorBytes / int(sizeof(Real)) < L ? kVectorBytes / int(sizeof(Real)) : L;
  static constexpr int N = L / W;
  typedef Real Vector __attribute__((vector_size(W * sizeof(Real))));
  typedef typename IntegerOf<Real>::type Integer;
  typedef Integer Mask __attribute__((vector_size(W * sizeof(Real))));
  Vector v[N];

  static GLASSWOOD_INLINE Pack splat(Real x) {
    Pack result;
    GLASSWOOD_UNROLL
    for (int i = 0; i < N; ++i) result.v[i] = Vector{} + x;
    return result;
  }
  // b in the lanes of the bits, else a.
  static GLASSWOOD_INLINE Pack mix(uint32_t bits, const Pack& a, const Pack& b) {
    Pack result;
    GLASSWOOD_UNROLL
    for (int i = 0; i < N; ++i) {
      Mask lane;
      for (int j = 0; j < W; ++j) lane[j] = Integer(1) << (i * W + j);
      result.v[i] = (lane & Integer(bits)) != 0 ? b.v[i] : a.v[i];
    }
    return result;
  }
  GLASSWOOD_INLINE Pack& operator+=(const Pack& other) {
    GLASSWOOD_UNROLL
    for (int i = 0; i < N; ++i) v[i] += other.v[i];
    return *this;
  }
  GLASSWOOD_INLINE Pack operator*(const Pack& other) const {
    Pack result;
    GLASSWOOD_UNROLL
    for (int i = 0; i < N; ++i) result.v[i] = v[i] * other.v[i];
    return result;
  }
  GLASSWOOD_INLINE Pack operator*(Real other) const {
    Pack result;
    GLASSWOOD_UNROLL
    for (int i = 0; i < N; ++i) result.v[i] = v[i] * other;
    return result;
  }
  GLASSWOOD_INLINE Pack operator+(const Pack& other) const {
    Pack result = *this;
    return result += other;
  }

  // Each number rounded to the type that `to` holds.
  template <class Other>
  GLASSWOOD_INLINE void store(Other* to) const {
    typedef Other Rounded __attribute__((vector_size(W * sizeof(Other))));
    GLASSWOOD_UNROLL
    for (int i = 0; i < N; ++i) {
      const Rounded rounded = __builtin_convertvector(v[i], Rounded);
      __builtin_memcpy(to + i * W, &rounded, sizeof(rounded));
    }
  }
};

}  // namespace
}  // namespace glasswood
