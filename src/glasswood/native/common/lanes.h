// The lane type that all kernels are written over. A CUDA thread handles one row: its lane is a scalar. A CPU core
// handles as many rows as a vector register holds: its lane is a GCC/Clang vector. Arithmetic reads the same for both;
// what does not (selection, masks, gathers) stands here.
#pragma once

#if defined(__CUDACC__)
#define GLASSWOOD_INLINE __device__ __forceinline__
#define GLASSWOOD_UNROLL _Pragma("unroll")
#define GLASSWOOD_NO_UNROLL _Pragma("unroll 1")
#if defined(__CUDACC_RTC__)
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
#else
#include <cstdint>
#endif
#else
#include <cstdint>
#define GLASSWOOD_INLINE inline __attribute__((always_inline))
#define GLASSWOOD_UNROLL _Pragma("GCC unroll 8")
#define GLASSWOOD_NO_UNROLL _Pragma("GCC unroll 1")
#endif

namespace glasswood {

template <class Real>
struct IntegerOf;
template <>
struct IntegerOf<float> {
  using type = int32_t;
};
template <>
struct IntegerOf<double> {
  using type = int64_t;
};

// One row a thread: CUDA, and the plain build that the tests compare with.
template <class Real_, int Width>
struct Lanes {
  static_assert(Width == 1, "vectors need the GCC/Clang vector extension");
  using Real = Real_;
  using Value = Real_;
  using Mask = bool;
  static constexpr int width = 1;
  static GLASSWOOD_INLINE Value splat(Real x) { return x; }
  static GLASSWOOD_INLINE Mask uniform(bool b) { return b; }
  static GLASSWOOD_INLINE Value select(Mask m, Value a, Value b) { return m ? a : b; }
  static GLASSWOOD_INLINE Mask choose(Mask m, Mask a, Mask b) { return m ? a : b; }
  static GLASSWOOD_INLINE Mask both(Mask a, Mask b) { return a && b; }
  static GLASSWOOD_INLINE Mask negate(Mask a) { return !a; }
  static GLASSWOOD_INLINE Mask missing(Value x) { return x != x; }
  // x < t, written so that a NaN threshold sends every number left (Forest's +inf).
  static GLASSWOOD_INLINE Mask below(Value x, Real t) { return !(x >= t); }
  static GLASSWOOD_INLINE Real lane(Value x, int) { return x; }
  static GLASSWOOD_INLINE void set(Mask& m, int, bool b) { m = b; }
  static GLASSWOOD_INLINE void put(Value& x, int, Real value) { x = value; }
};

#if !defined(__CUDACC__)
template <class Real_, int Width>
  requires(Width > 1)
struct Lanes<Real_, Width> {
  using Real = Real_;
  using Integer = typename IntegerOf<Real>::type;
  typedef Real Value __attribute__((vector_size(sizeof(Real) * Width)));
  typedef Integer Mask __attribute__((vector_size(sizeof(Real) * Width)));
  static constexpr int width = Width;
  static GLASSWOOD_INLINE Value splat(Real x) { return Value{} + x; }
  static GLASSWOOD_INLINE Mask uniform(bool b) { return Mask{} - Integer(b); }
  static GLASSWOOD_INLINE Value select(Mask m, Value a, Value b) { return m ? a : b; }
  static GLASSWOOD_INLINE Mask choose(Mask m, Mask a, Mask b) { return (m & a) | (~m & b); }
  static GLASSWOOD_INLINE Mask both(Mask a, Mask b) { return a & b; }
  static GLASSWOOD_INLINE Mask negate(Mask a) { return ~a; }
  static GLASSWOOD_INLINE Mask missing(Value x) { return x != x; }
  static GLASSWOOD_INLINE Mask below(Value x, Real t) { return ~(x >= splat(t)); }
  static GLASSWOOD_INLINE Real lane(Value x, int i) { return x[i]; }
  static GLASSWOOD_INLINE void set(Mask& m, int i, bool b) { m[i] = -Integer(b); }
  static GLASSWOOD_INLINE void put(Value& x, int i, Real value) { x[i] = value; }
};
#endif

}  // namespace glasswood
