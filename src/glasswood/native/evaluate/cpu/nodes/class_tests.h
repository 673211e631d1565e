// Splits by categories for vectors of rows. A class is a place among the split's bytes, and a bit there
// (evaluate/cpu/nodes/rows.h). Included by evaluate/cpu/nodes/kernels.cpp only.
#pragma once
#include <cstring>

#include "evaluate/cpu/nodes/lane_masks.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace glasswood {
namespace {

constexpr int kMostLooked = 16;  // tables that are looked up one after another

// A table of 16 bytes, looked up at all bytes of a vector by one instruction. Bytes of `at` are below 16; those of
// wider numbers that are 0 find the first of the table.
template <class Vector>
GLASSWOOD_INLINE Vector look_up(const uint32_t* table, Vector at) {
#if defined(__AVX512BW__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return Vector(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), __m512i(at)));
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return Vector(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), __m256i(at)));
#elif defined(__SSSE3__)
  return Vector(_mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)), __m128i(at)));
#elif defined(__aarch64__)
  return Vector(vqtbl1q_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(table)), uint8x16_t(at)));
#else
  uint8_t bytes[16], places[sizeof(Vector)];
  memcpy(bytes, table, sizeof bytes);
  memcpy(places, &at, sizeof places);
  for (uint8_t& place : places) place = bytes[place];
  memcpy(&at, places, sizeof places);
  return at;
#endif
}

// Lane by lane: a function of its own, or it would be compiled, unrolled, at every call.
template <class Code>
[[gnu::noinline]] CodeVector<Code> look_up_each(const uint32_t* words, CodeVector<Code> place) {
  Code byte[kVectorBytes / sizeof(Code)];
  for (size_t lane = 0; lane < kVectorBytes / sizeof(Code); ++lane)
    byte[lane] = Code(words[place[lane] >> 2] >> 8 * (place[lane] & 3));
  CodeVector<Code> result;
  __builtin_memcpy(&result, byte, sizeof result);
  return result;
}

// Which rows of V vectors go right; words: of the split, `n_groups` groups of 16 bytes.
template <class Code>
struct ClassTests {
  using Masks = LaneMasks<Code>;
  using Vector = typename Masks::Vector;

  template <int V>
  static GLASSWOOD_INLINE void decide(const uint32_t* words, int n_groups, const Vector* place, const Vector* bit,
                                      typename Masks::Mask (&right)[V]) {
    GLASSWOOD_UNROLL
    for (int v = 0; v < V; ++v) right[v] = Masks::share_bits(bytes(words, n_groups, place[v]), bit[v]);
  }

 private:
  static GLASSWOOD_INLINE Vector bytes(const uint32_t* words, int n_groups, Vector place) {
    if (n_groups == 1) return look_up(words, place);
    if (n_groups > kMostLooked) return look_up_each<Code>(words, place);
    const Vector group = place >> 4, rest = place & 15;
    Vector result{};
    for (int i = 0; i < n_groups; ++i) result |= look_up(words + 4 * i, rest) & Vector(group == Vector{} + Code(i));
    return result;
  }
};

#if defined(__AVX512VBMI__)
// 64 or 128 bytes by one instruction.
template <>
struct ClassTests<uint8_t> {
  using Vector = CodeVector<uint8_t>;

  template <int V>
  static GLASSWOOD_INLINE void decide(const uint32_t* words, int n_groups, const Vector* place, const Vector* bit,
                                      uint64_t (&right)[V]) {
    if (n_groups > 8) return decide_pages(words, n_groups, place, bit, right);
    const __m512i low = load(words), high = load(words + 16);
    if (n_groups > 4) {
      GLASSWOOD_UNROLL
      for (int v = 0; v < V; ++v)
        right[v] = test(_mm512_permutex2var_epi8(low, __m512i(place[v]), high), __m512i(bit[v]));
    } else {
      GLASSWOOD_UNROLL
      for (int v = 0; v < V; ++v) right[v] = test(_mm512_permutexvar_epi8(__m512i(place[v]), low), __m512i(bit[v]));
    }
  }

 private:
  static GLASSWOOD_INLINE __m512i load(const uint32_t* words) { return _mm512_loadu_si512(words); }
  static GLASSWOOD_INLINE uint64_t test(__m512i bytes, __m512i bit) { return _mm512_test_epi8_mask(bytes, bit); }

  // With many classes, the flag holds the page of 256 places and the number of the bit.
  template <int V>
  static GLASSWOOD_INLINE void decide_pages(const uint32_t* words, int n_groups, const Vector* place,
                                            const Vector* flag, uint64_t (&right)[V]) {
    const bool is_one = n_groups <= kPageGroups;
    const __m512i bits = _mm512_set1_epi64(int64_t(0x8040201008040201));
    for (int v = 0; v < V; ++v) right[v] = 0;
    for (int page = 0; page * kPageGroups < n_groups; ++page, words += 4 * kPageGroups) {
      const __m512i table[4] = {load(words), load(words + 16), load(words + 32), load(words + 48)};
      GLASSWOOD_UNROLL
      for (int v = 0; v < V; ++v) {
        const __m512i at = __m512i(place[v]);
        const __m512i byte =
            _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), _mm512_permutex2var_epi8(table[0], at, table[1]),
                                   _mm512_permutex2var_epi8(table[2], at, table[3]));
        if (is_one) {
          right[v] = test(byte, __m512i(flag[v]));
          continue;
        }
        const __m512i bit = _mm512_shuffle_epi8(bits, __m512i(flag[v] & 7));
        const uint64_t is_here = _mm512_cmpeq_epi8_mask(__m512i(flag[v] >> 3), _mm512_set1_epi8(char(page)));
        right[v] |= _mm512_mask_test_epi8_mask(is_here, byte, bit);
      }
    }
  }
};
#endif

#if defined(__AVX512BW__)
// 32 or 64 words by one instruction: a place is half a word.
template <>
struct ClassTests<uint16_t> {
  using Vector = CodeVector<uint16_t>;

  template <int V>
  static GLASSWOOD_INLINE void decide(const uint32_t* words, int n_groups, const Vector* place, const Vector* bit,
                                      uint32_t (&right)[V]) {
    if (n_groups > kTableGroups * kMostLooked) {
      for (int v = 0; v < V; ++v)
        right[v] = _mm512_test_epi16_mask(__m512i(look_up_each<uint16_t>(words, place[v])), __m512i(bit[v]));
      return;
    }
    if (n_groups > kTableGroups) return decide_more(words, n_groups, place, bit, right);
    const __m512i low = load(words), high = load(words + 16);
    GLASSWOOD_UNROLL
    for (int v = 0; v < V; ++v)
      right[v] = _mm512_test_epi16_mask(_mm512_permutex2var_epi16(low, __m512i(place[v] >> 1), high),
                                        in_word(place[v], bit[v]));
  }

 private:
  static constexpr int kTableGroups = 8;  // in 64 words

  static GLASSWOOD_INLINE __m512i load(const uint32_t* words) { return _mm512_loadu_si512(words); }
  static GLASSWOOD_INLINE __m512i in_word(Vector place, Vector bit) {
    return _mm512_sllv_epi16(__m512i(bit), __m512i((place & 1) << 3));
  }

  template <int V>
  static GLASSWOOD_INLINE void decide_more(const uint32_t* words, int n_groups, const Vector* place, const Vector* bit,
                                           uint32_t (&right)[V]) {
    for (int v = 0; v < V; ++v) right[v] = 0;
    for (int i = 0; i * kTableGroups < n_groups; ++i, words += 4 * kTableGroups) {
      const __m512i low = load(words), high = load(words + 16);
      GLASSWOOD_UNROLL
      for (int v = 0; v < V; ++v) {
        const uint32_t is_here = _mm512_cmpeq_epi16_mask(__m512i(place[v] >> 7), _mm512_set1_epi16(short(i)));
        right[v] |= _mm512_mask_test_epi16_mask(is_here, _mm512_permutex2var_epi16(low, __m512i(place[v] >> 1), high),
                                                in_word(place[v], bit[v]));
      }
    }
  }
};
#endif

}  // namespace
}  // namespace glasswood
