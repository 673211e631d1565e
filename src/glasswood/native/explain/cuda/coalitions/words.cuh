// Masks of several leaves in a word: which of them share no bit.
#pragma once

namespace glasswood {

constexpr int PER_WORD = 4 / int(sizeof(MASK)), MASK_BITS = 8 * int(sizeof(MASK));
constexpr unsigned ALL = 0xffffffffu;

// The highest bit of each mask of `shared` that is 0.
__device__ __forceinline__ unsigned empty_masks(unsigned shared) {
  constexpr unsigned kHigh = sizeof(MASK) == 1 ? 0x80808080u : sizeof(MASK) == 2 ? 0x80008000u : 0x80000000u;
  return ~((shared & ~kHigh) + ~kHigh | shared) & kHigh;
}

}  // namespace glasswood
