// Decisions of up to 64 splits about one row, a bit each: 1 goes right. Included by evaluate/cpu/nodes/kernels.cpp
// only.
#pragma once
#include "evaluate/cpu/nodes/tables.h"
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace glasswood {
namespace {

// How the row's codes are looked up: in this many registers, or 0: one by one from memory.
template <class Code, int Registers>
struct RowTable {
  static_assert(Registers == 0);
  const Code* row;
  RowTable(const Code* codes, int) : row(codes) {}

  template <int Positions>
  struct Splits {
    const Code *column, *threshold;
    Splits(const Code* columns, const Code* thresholds) : column(columns), threshold(thresholds) {}
  };
  template <int Positions>
  GLASSWOOD_INLINE uint64_t right(const Splits<Positions>& splits) const {
    uint64_t word = 0;
    for (int position = 0; position < Positions; ++position)
      word |= uint64_t(row[index(splits.column[position])] >= splits.threshold[position]) << position;
    return word;
  }
  // Positions whose code is marked: not 0 in a row of flags, NaN in a row of floats.
  template <int Positions>
  GLASSWOOD_INLINE uint64_t marked(const Splits<Positions>& splits) const {
    uint64_t word = 0;
    for (int position = 0; position < Positions; ++position) {
      const Code code = row[index(splits.column[position])];
      word |= uint64_t(sizeof(Code) == 4 ? code != code : code != 0) << position;
    }
    return word;
  }
  static GLASSWOOD_INLINE uint32_t index(Code column) {
    if constexpr (sizeof(Code) == 4) {
      uint32_t result;
      __builtin_memcpy(&result, &column, sizeof result);
      return result;
    } else {
      return column;
    }
  }
};

#if defined(__AVX512BW__)
// A register of codes; what one instruction set names three ways.
template <class Code>
struct Register;

#if defined(__AVX512VBMI__)
template <>
struct Register<uint8_t> {
  using Type = __m512i;
  static constexpr int kLanes = 64;
  static GLASSWOOD_INLINE Type load(const uint8_t* at) { return _mm512_loadu_si512(at); }
  static GLASSWOOD_INLINE Type pick(Type table, Type at) { return _mm512_permutexvar_epi8(at, table); }
  static GLASSWOOD_INLINE Type pick(Type low, Type high, Type at) { return _mm512_permutex2var_epi8(low, at, high); }
  static GLASSWOOD_INLINE Type choose(Type at, Type low, Type high) {
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high);
  }
  static GLASSWOOD_INLINE uint64_t at_least(Type a, Type b) { return _mm512_cmpge_epu8_mask(a, b); }
  static GLASSWOOD_INLINE uint64_t marked(Type a) { return _mm512_test_epi8_mask(a, a); }
};
#endif
template <>
struct Register<uint16_t> {
  using Type = __m512i;
  static constexpr int kLanes = 32;
  static GLASSWOOD_INLINE Type load(const uint16_t* at) { return _mm512_loadu_si512(at); }
  static GLASSWOOD_INLINE Type pick(Type table, Type at) { return _mm512_permutexvar_epi16(at, table); }
  static GLASSWOOD_INLINE Type pick(Type low, Type high, Type at) { return _mm512_permutex2var_epi16(low, at, high); }
  static GLASSWOOD_INLINE Type choose(Type at, Type low, Type high) {
    return _mm512_mask_blend_epi16(_mm512_test_epi16_mask(at, _mm512_set1_epi16(2 * kLanes)), low, high);
  }
  static GLASSWOOD_INLINE uint64_t at_least(Type a, Type b) { return _mm512_cmpge_epu16_mask(a, b); }
  static GLASSWOOD_INLINE uint64_t marked(Type a) { return _mm512_test_epi16_mask(a, a); }
};
template <>
struct Register<float> {
  using Type = __m512;
  static constexpr int kLanes = 16;
  static GLASSWOOD_INLINE Type load(const float* at) { return _mm512_loadu_ps(at); }
  static GLASSWOOD_INLINE Type load_first(const float* at, int n) {
    return _mm512_maskz_loadu_ps(n <= 0 ? 0 : n >= kLanes ? 0xffff : (1u << n) - 1, at);
  }
  static GLASSWOOD_INLINE Type pick(Type table, Type at) {
    return _mm512_permutexvar_ps(_mm512_castps_si512(at), table);
  }
  static GLASSWOOD_INLINE Type pick(Type low, Type high, Type at) {
    return _mm512_permutex2var_ps(low, _mm512_castps_si512(at), high);
  }
  static GLASSWOOD_INLINE Type choose(Type at, Type low, Type high) {
    const __m512i index = _mm512_castps_si512(at);
    return _mm512_mask_blend_ps(_mm512_test_epi32_mask(index, _mm512_set1_epi32(2 * kLanes)), low, high);
  }
  static GLASSWOOD_INLINE uint64_t at_least(Type a, Type b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
  static GLASSWOOD_INLINE uint64_t marked(Type a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
};

template <class Code, int Registers>
  requires(Registers > 0 && sizeof(typename Register<Code>::Type) > 0)
struct RowTable<Code, Registers> {
  using R = Register<Code>;
  using Type = typename R::Type;
  Type part[Registers];

  RowTable() = default;
  // Rows of floats may be the caller's own, which end where they end; ranks are padded.
  GLASSWOOD_INLINE RowTable(const Code* row, [[maybe_unused]] int n_columns) {
    GLASSWOOD_UNROLL
    for (int i = 0; i < Registers; ++i)
      if constexpr (sizeof(Code) == 4)
        part[i] = R::load_first(row + i * R::kLanes, n_columns - i * R::kLanes);
      else
        part[i] = R::load(row + i * R::kLanes);
  }

  template <int Positions>
  struct Splits {
    static constexpr int kParts = Positions > R::kLanes ? Positions / R::kLanes : 1;
    Type column[kParts], threshold[kParts];
    GLASSWOOD_INLINE Splits(const Code* columns, const Code* thresholds) {
      GLASSWOOD_UNROLL
      for (int i = 0; i < kParts; ++i) {
        column[i] = R::load(columns + i * R::kLanes);
        threshold[i] = R::load(thresholds + i * R::kLanes);
      }
    }
  };
  GLASSWOOD_INLINE Type pick(Type at) const {
    if constexpr (Registers == 1) return R::pick(part[0], at);
    if constexpr (Registers == 2) return R::pick(part[0], part[1], at);
    if constexpr (Registers == 4) return R::choose(at, R::pick(part[0], part[1], at), R::pick(part[2], part[3], at));
  }
  template <int Positions>
  GLASSWOOD_INLINE uint64_t right(const Splits<Positions>& splits) const {
    uint64_t word = 0;
    GLASSWOOD_UNROLL
    for (int i = 0; i < Splits<Positions>::kParts; ++i)
      word |= R::at_least(pick(splits.column[i]), splits.threshold[i]) << (i * R::kLanes % 64);
    return word;
  }
  template <int Positions>
  GLASSWOOD_INLINE uint64_t marked(const Splits<Positions>& splits) const {
    uint64_t word = 0;
    GLASSWOOD_UNROLL
    for (int i = 0; i < Splits<Positions>::kParts; ++i)
      word |= R::marked(pick(splits.column[i])) << (i * R::kLanes % 64);
    return word;
  }
};
#endif

// One row: its codes, and which of them are missing (ranks; floats say so themselves).
template <class Code, int Registers, bool Missing>
struct RowCodes {
  static constexpr bool kFloat = sizeof(Code) == 4;
  using Table = RowTable<Code, Registers>;
  template <int Positions>
  using Splits = typename Table::template Splits<Positions>;
  Table codes, missing;

  GLASSWOOD_INLINE RowCodes(const Code* row, const Code* flags, int n_columns)
      : codes(row, n_columns), missing(!kFloat && Missing ? flags : row, n_columns) {}

  template <int Positions>
  GLASSWOOD_INLINE uint64_t right(const Splits<Positions>& splits, uint64_t default_right) const {
    const uint64_t right = codes.template right<Positions>(splits);
    if constexpr (!Missing) return right;
    const uint64_t unknown = missing.template marked<Positions>(splits);
    return (right & ~unknown) | (default_right & unknown);
  }
};

// One level down a heap: 2 at + bit (at mod 64) of the word.
GLASSWOOD_INLINE uint64_t heap_step(uint64_t word, uint64_t at) {
#if defined(__x86_64__)
  asm("btq %0, %1\n\tadcq %0, %0" : "+&r"(at) : "r"(word) : "cc");
  return at;
#else
  return 2 * at + (word >> (at & 63) & 1);
#endif
}

// A step on the level whose bits fill two words. As a branch, the choice would be mispredicted every other time.
GLASSWOOD_INLINE uint64_t heap_step(uint64_t low, uint64_t high, uint64_t at) {
#if defined(__x86_64__)
  asm("testb $64, %b0\n\tcmovnzq %2, %1\n\tbtq %0, %1\n\tadcq %0, %0" : "+&r"(at), "+&r"(low) : "r"(high) : "cc");
  return at;
#else
  return heap_step(at & 64 ? high : low, at);
#endif
}

// Procedure 5: the first entry of a path whose decided splits point to a child. A pass permutes the path by itself,
// which makes every entry point to where the entry that it points to pointed: steps of 1, 2, 4, ... levels.
GLASSWOOD_INLINE int reduce_path(const uint8_t* children, uint64_t right, int levels, int reductions) {
#if defined(__AVX512VBMI__)
  const __m512i left_child = _mm512_loadu_si512(children), right_child = _mm512_loadu_si512(children + kBlock);
  const __m512i leaves = _mm512_set1_epi8(char(0xc0));
  __m512i path = _mm512_mask_blend_epi8(right, left_child, right_child);
  if (reductions == 0) {
    for (int reached = 1; reached < levels; reached *= 2)
      path = _mm512_mask_permutexvar_epi8(path, _mm512_testn_epi8_mask(path, leaves), path, path);
    return uint8_t(_mm_cvtsi128_si32(_mm512_castsi512_si128(path)));
  }
  int root = uint8_t(_mm_cvtsi128_si32(_mm512_castsi512_si128(path)));
  while (root < kLeafCode) {
    for (int i = 0; i < reductions; ++i)
      path = _mm512_mask_permutexvar_epi8(path, _mm512_testn_epi8_mask(path, leaves), path, path);
    root = uint8_t(_mm_cvtsi128_si32(_mm512_castsi512_si128(path)));
  }
  return root;
#else
  // Without a permutation of bytes, the path is followed from the root alone.
  (void)levels, (void)reductions;
  int at = 0;
  while (at < kLeafCode) at = children[at + kBlock * int(right >> at & 1)];
  return at;
#endif
}

}  // namespace
}  // namespace glasswood
