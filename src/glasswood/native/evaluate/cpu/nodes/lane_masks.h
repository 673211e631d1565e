// What a vector of rows answers to a split. Included by evaluate/cpu/nodes/kernels.cpp only.
//
// Where registers compare into words, an answer is a bit a row: the masks of a tree's nodes are an eighth of the
// vectors, stay in the first-level cache and are divided by scalar instructions. Elsewhere it is a lane of ones.
#pragma once
#include "common/vectors.h"
#include "evaluate/cpu/nodes/tables.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace glasswood {
namespace {

template <class Code>
using CodeVector [[gnu::vector_size(kVectorBytes)]] = Code;

#if defined(__AVX512BW__)
constexpr int kMaskBytes = 8;  // at most

template <class Code>
struct LaneMasks;

template <>
struct LaneMasks<uint8_t> {
  using Vector = CodeVector<uint8_t>;
  using Mask = uint64_t;
  static GLASSWOOD_INLINE Mask at_least(Vector a, uint8_t b) {
    return _mm512_cmpge_epu8_mask(__m512i(a), _mm512_set1_epi8(char(b)));
  }
  static GLASSWOOD_INLINE Mask share_bits(Vector a, Vector b) { return _mm512_test_epi8_mask(__m512i(a), __m512i(b)); }
  static GLASSWOOD_INLINE Mask marked(Vector flag) { return share_bits(flag, flag); }
  static GLASSWOOD_INLINE Mask all(bool b) { return Mask(-int64_t(b)); }
  static GLASSWOOD_INLINE Vector put(Vector number, Mask where, uint8_t own) {
    return Vector(_mm512_mask_set1_epi8(__m512i(number), where, char(own)));
  }
  static GLASSWOOD_INLINE Vector add_one(Vector number, Mask where) {
    return Vector(_mm512_mask_sub_epi8(__m512i(number), where, __m512i(number), _mm512_set1_epi8(-1)));
  }
};

template <>
struct LaneMasks<uint16_t> {
  using Vector = CodeVector<uint16_t>;
  using Mask = uint32_t;
  static GLASSWOOD_INLINE Mask at_least(Vector a, uint16_t b) {
    return _mm512_cmpge_epu16_mask(__m512i(a), _mm512_set1_epi16(short(b)));
  }
  static GLASSWOOD_INLINE Mask share_bits(Vector a, Vector b) { return _mm512_test_epi16_mask(__m512i(a), __m512i(b)); }
  static GLASSWOOD_INLINE Mask marked(Vector flag) { return share_bits(flag, flag); }
  static GLASSWOOD_INLINE Mask all(bool b) { return Mask(-int64_t(b)); }
  static GLASSWOOD_INLINE Vector put(Vector number, Mask where, uint16_t own) {
    return Vector(_mm512_mask_set1_epi16(__m512i(number), where, short(own)));
  }
  static GLASSWOOD_INLINE Vector add_one(Vector number, Mask where) {
    return Vector(_mm512_mask_sub_epi16(__m512i(number), where, __m512i(number), _mm512_set1_epi16(-1)));
  }
};

template <class Code>
GLASSWOOD_INLINE uint64_t bits_of(typename LaneMasks<Code>::Mask mask) {
  return mask;
}
#else
constexpr int kMaskBytes = kVectorBytes;

template <class Code>
struct LaneMasks {
  using Vector = CodeVector<Code>;
  using Mask = Vector;
  static GLASSWOOD_INLINE Mask at_least(Vector a, Code b) { return Vector(a >= Vector{} + b); }
  static GLASSWOOD_INLINE Mask share_bits(Vector a, Vector b) { return Vector((a & b) != Vector{}); }
  // Rows whose flag has all bits, not none.
  static GLASSWOOD_INLINE Mask marked(Vector flag) { return flag; }
  static GLASSWOOD_INLINE Mask all(bool b) { return Vector{} + Code(-int32_t(b)); }
  static GLASSWOOD_INLINE Vector put(Vector number, Mask where, Code own) {
    return (number & ~where) | (where & (Vector{} + own));
  }
  static GLASSWOOD_INLINE Vector add_one(Vector number, Mask where) { return number - where; }
};

// The sign of each lane.
template <class Code>
GLASSWOOD_INLINE uint64_t bits_of(CodeVector<Code> mask) {
#if defined(__AVX2__)
  if constexpr (sizeof(Code) == 1) return uint32_t(_mm256_movemask_epi8(__m256i(mask)));
  const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(__m256i(mask), __m256i{}), 0xd8);
  return uint32_t(_mm256_movemask_epi8(bytes));
#elif defined(__SSE2__)
  if constexpr (sizeof(Code) == 1) return uint32_t(_mm_movemask_epi8(__m128i(mask)));
  return uint32_t(_mm_movemask_epi8(_mm_packs_epi16(__m128i(mask), __m128i{})));
#else
  uint64_t bits = 0;
  for (size_t lane = 0; lane < kVectorBytes / sizeof(Code); ++lane) bits |= uint64_t(mask[lane] != 0) << lane;
  return bits;
#endif
}
#endif

}  // namespace
}  // namespace glasswood
