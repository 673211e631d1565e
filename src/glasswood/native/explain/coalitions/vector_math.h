// Vectors of float64 coalitions, their exponentials and logarithms.
#pragma once
#include "common/lanes.h"
#include "common/vectors.h"

namespace glasswood {
namespace {

#if defined(GLASSWOOD_SCALAR)
constexpr int kLanes = 1;
#else
constexpr int kLanes = kVectorBytes / 8;
#endif
constexpr int kLaneBits = __builtin_ctz(kLanes);

typedef double Doubles __attribute__((vector_size(8 * kLanes), may_alias));
typedef int64_t Integers __attribute__((vector_size(8 * kLanes), may_alias));

GLASSWOOD_INLINE Integers lane_numbers() {
  Integers result{};
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = lane;
  return result;
}

GLASSWOOD_INLINE double sum_of(Doubles x) {
  double sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += x[lane];
  return sum;
}

GLASSWOOD_INLINE Doubles larger(Doubles a, Doubles b) { return a > b ? a : b; }
GLASSWOOD_INLINE Doubles smaller(Doubles a, Doubles b) { return a < b ? a : b; }

// exp(x) to 2 ulp, infinite above 709.7 and 0 below -708.
GLASSWOOD_INLINE Doubles exp_of(Doubles x) {
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to integers
  const Doubles within = smaller(larger(x, Doubles{} - 708.0), Doubles{} + 709.7);
  const Doubles shifted = within * 1.4426950408889634 + kShift;
  const Doubles n = shifted - kShift;
  const Doubles r = (within - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  // Taylor's series: |r| <= 0.3466.
  Doubles p = Doubles{} + 1.0 / 479001600;
  constexpr double kTerms[] = {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                               1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5,         1.0,        1.0};
  for (const double c : kTerms) p = p * r + c;
  const Doubles result =
      reinterpret_cast<Doubles>(reinterpret_cast<Integers>(p) + (reinterpret_cast<Integers>(shifted) << 52));
  const Doubles small = x < -708.0 ? Doubles{} : result;
  return x > 709.7 ? Doubles{} + __builtin_inf() : small;
}

// log(x) of positive normal numbers.
GLASSWOOD_INLINE Doubles log_of(Doubles x) {
  const Integers bits = reinterpret_cast<Integers>(x);
  const Integers exponent = ((bits - 0x3FE6A09E667F3BCDll) >> 52);  // x / 2^exponent is within [sqrt(1/2), sqrt(2))
  const Doubles f = reinterpret_cast<Doubles>(bits - (exponent << 52));
  const Doubles s = (f - 1.0) / (f + 1.0), z = s * s;
  Doubles p = Doubles{} + 1.0 / 21;
  constexpr double kTerms[] = {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                               1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  for (const double c : kTerms) p = p * z + c;
  const Doubles e = __builtin_convertvector(exponent, Doubles);
  return e * 0.693147180369123816490 + (2.0 * s * p + e * 1.90821492927058770002e-10);
}

}  // namespace
}  // namespace glasswood
