// A table of 16 bytes, looked up at all bytes of a vector by one instruction. Included by
// evaluate/cpu/nodes/kernels.cpp only.
#pragma once
#include <cstring>

#include "common/vectors.h"
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace glasswood {
namespace {

// Bytes of `at` are below 16; those of wider numbers that are 0 find the first of the table.
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

}  // namespace
}  // namespace glasswood
