// Masks of several leaves in a word: which of them share no bit.
#pragma once

namespace glasswood {

// A mask of 64 bits is a word of its own.
template <int BYTES>
struct WordOf {
  using type = unsigned;
};
template <>
struct WordOf<8> {
  using type = unsigned long long;
};
using Word = WordOf<sizeof(MASK)>::type;

constexpr int PER_WORD = int(sizeof(Word) / sizeof(MASK)), MASK_BITS = 8 * int(sizeof(MASK));
constexpr unsigned ALL = 0xffffffffu;

// The highest bit of each mask of `shared` that is 0.
__device__ __forceinline__ Word empty_masks(Word shared) {
  constexpr Word kHigh = sizeof(MASK) == 1   ? 0x80808080u
                         : sizeof(MASK) == 2 ? 0x80008000u
                         : sizeof(MASK) == 4 ? 0x80000000u
                                             : 1ull << 63;
  return ~((shared & ~kHigh) + ~kHigh | shared) & kHigh;
}

// The number of the lowest bit.
__device__ __forceinline__ int lowest(unsigned mask) { return __ffs(int(mask)) - 1; }
__device__ __forceinline__ int lowest(unsigned long long mask) {
  const unsigned low = unsigned(mask);
  return low ? lowest(low) : 32 + lowest(unsigned(mask >> 32));
}

}  // namespace glasswood
