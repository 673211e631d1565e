// The players on which a pair of rows differs, as numbers 0 ... d - 1, and masks of leaves and sets in these numbers.
//
// Macros: WIDE (forests of more than 32 players). There, masks' bits are places of their leaf's path, a pair is a list
// of its players (find_players.cu), and a set has up to four numbers of 16 bits, 0xffff for none.
#pragma once
#include "explain/cuda/coalitions/words.cuh"

namespace glasswood {

#if WIDE

using Pair = unsigned short;  // [1 + most]: how many players, and these
using Set = unsigned long long;
constexpr unsigned char ABSENT = 255;

struct Differing {
  const int* first_place;        // [leaf]
  const unsigned short* place;   // the player of each
  const unsigned char* number;   // [player]: ABSENT where the rows agree
  const unsigned short* player;  // [number]

  __device__ __forceinline__ unsigned numbers_of(Word mask, long long leaf) const {
    unsigned result = 0;
    const unsigned short* const at = place + first_place[leaf];
    for (Word rest = mask; rest; rest &= rest - 1) result |= 1u << number[at[lowest(rest)]];
    return result;
  }
  __device__ __forceinline__ int next() { return *player++; }
  __device__ __forceinline__ bool has(Set set) const {
    for (int i = 0; i < 4; ++i) {
      const unsigned one = unsigned(set >> 16 * i) & 0xffff;
      if (one != 0xffff && number[one] == ABSENT) return false;
    }
    return true;
  }
  __device__ __forceinline__ unsigned numbers_of_set(Set set) const {
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
      const unsigned one = unsigned(set >> 16 * i) & 0xffff;
      if (one != 0xffff) result |= 1u << number[one];
    }
    return result;
  }
};

#else

using Pair = unsigned;  // bits of players
using Set = unsigned;

struct Differing {
  unsigned bits;

  // Bits of a mask among those on which the rows differ.
  __device__ __forceinline__ unsigned numbers_of(unsigned mask, long long) const {
    unsigned result = 0;
    for (unsigned rest = mask; rest; rest &= rest - 1) result |= 1u << __popc(bits & ((rest & (0u - rest)) - 1));
    return result;
  }
  __device__ __forceinline__ int next() {
    const int player = __ffs(int(bits)) - 1;
    bits &= bits - 1;
    return player;
  }
  __device__ __forceinline__ bool has(Set set) const { return !(set & ~bits); }
  __device__ __forceinline__ unsigned numbers_of_set(Set set) const { return numbers_of(set, 0); }
};

#endif

}  // namespace glasswood
