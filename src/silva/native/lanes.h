// The lane type that all kernels are written over. A CUDA thread handles one row: its lane is a scalar. A CPU core
// handles as many rows as a vector register holds: its lane is a GCC/Clang vector. Arithmetic reads the same for both;
// what does not (selection, masks, gathers) stands here.
#pragma once

#if defined(__CUDACC__)
#define SILVA_INLINE __device__ __forceinline__
#define SILVA_UNROLL _Pragma("unroll")
#define SILVA_NO_UNROLL _Pragma("unroll 1")
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
#define SILVA_INLINE inline __attribute__((always_inline))
#define SILVA_UNROLL _Pragma("GCC unroll 8")
#define SILVA_NO_UNROLL _Pragma("GCC unroll 1")
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif
#endif

namespace silva {

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
  static SILVA_INLINE Value splat(Real x) { return x; }
  static SILVA_INLINE Mask uniform(bool b) { return b; }
  static SILVA_INLINE Value select(Mask m, Value a, Value b) { return m ? a : b; }
  static SILVA_INLINE Mask choose(Mask m, Mask a, Mask b) { return m ? a : b; }
  static SILVA_INLINE Mask both(Mask a, Mask b) { return a && b; }
  static SILVA_INLINE Mask negate(Mask a) { return !a; }
  static SILVA_INLINE Mask missing(Value x) { return x != x; }
  // x < t, written so that a NaN threshold sends every number left (Forest's +inf).
  static SILVA_INLINE Mask below(Value x, Real t) { return !(x >= t); }
  static SILVA_INLINE Real lane(Value x, int) { return x; }
  static SILVA_INLINE void set(Mask& m, int, bool b) { m = b; }

  using Index = int32_t;
  static SILVA_INLINE Index splat_index(int32_t i) { return i; }
  static SILVA_INLINE Index lane_numbers() { return 0; }
  static SILVA_INLINE Index one_where(Mask m) { return m; }
  static SILVA_INLINE Mask equal(Index a, Index b) { return a == b; }
  static SILVA_INLINE bool all(Mask m) { return m; }
  static SILVA_INLINE Value gather(const Real* base, Index i) { return base[i]; }
  static SILVA_INLINE Index gather(const int32_t* base, Index i) { return base[i]; }
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
  static SILVA_INLINE Value splat(Real x) { return Value{} + x; }
  static SILVA_INLINE Mask uniform(bool b) { return Mask{} - Integer(b); }
  static SILVA_INLINE Value select(Mask m, Value a, Value b) { return m ? a : b; }
  static SILVA_INLINE Mask choose(Mask m, Mask a, Mask b) { return (m & a) | (~m & b); }
  static SILVA_INLINE Mask both(Mask a, Mask b) { return a & b; }
  static SILVA_INLINE Mask negate(Mask a) { return ~a; }
  static SILVA_INLINE Mask missing(Value x) { return x != x; }
  static SILVA_INLINE Mask below(Value x, Real t) { return ~(x >= splat(t)); }
  static SILVA_INLINE Real lane(Value x, int i) { return x[i]; }
  static SILVA_INLINE void set(Mask& m, int i, bool b) { m[i] = -Integer(b); }
};

// Indices, for float lanes: as wide as the values, so the same gathers and shuffles serve both.
template <int Width>
struct IndexedLanes : Lanes<float, Width> {
  using Base = Lanes<float, Width>;
  using typename Base::Mask;
  using typename Base::Value;
  using Index = Mask;
  static SILVA_INLINE Index splat_index(int32_t i) { return Index{} + i; }
  static SILVA_INLINE Index lane_numbers() {
    Index result;
    for (int i = 0; i < Width; ++i) result[i] = i;
    return result;
  }
  static SILVA_INLINE Index one_where(Mask m) { return -m; }
  static SILVA_INLINE Mask equal(Index a, Index b) { return a == b; }
  static SILVA_INLINE bool all(Mask m) {
#if defined(__AVX512F__)
    if constexpr (Width == 16) return _mm512_movepi32_mask((__m512i)m) == 0xffff;
#endif
#if defined(__AVX2__)
    if constexpr (Width == 8) return _mm256_movemask_ps((__m256)m) == 0xff;
#endif
    bool result = true;
    for (int i = 0; i < Width; ++i) result &= m[i] != 0;
    return result;
  }
  static SILVA_INLINE Value gather(const float* base, Index at) {
#if defined(__AVX512F__)
    if constexpr (Width == 16) return (Value)_mm512_i32gather_ps((__m512i)at, base, 4);
#endif
#if defined(__AVX2__)
    if constexpr (Width == 8) return (Value)_mm256_i32gather_ps(base, (__m256i)at, 4);
#endif
    Value result;
    for (int i = 0; i < Width; ++i) result[i] = base[at[i]];
    return result;
  }
  static SILVA_INLINE Index gather(const int32_t* base, Index at) {
#if defined(__AVX512F__)
    if constexpr (Width == 16) return (Index)_mm512_i32gather_epi32((__m512i)at, base, 4);
#endif
#if defined(__AVX2__)
    if constexpr (Width == 8) return (Index)_mm256_i32gather_epi32(base, (__m256i)at, 4);
#endif
    Index result;
    for (int i = 0; i < Width; ++i) result[i] = base[at[i]];
    return result;
  }
  // Entry `at` of a table of 2 * Width entries in two registers.
  template <class Vector>
  static SILVA_INLINE Vector look_up(Vector low, Vector high, Index at) {
#if defined(__clang__)
    Vector result;
    for (int i = 0; i < Width; ++i) result[i] = at[i] < Width ? low[at[i]] : high[at[i] - Width];
    return result;
#else
    return __builtin_shuffle(low, high, at);
#endif
  }
};
#endif

}  // namespace silva
