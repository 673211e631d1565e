// Which leaves hybrids of two rows reach, and the players on which the two rows differ there.
#pragma once
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "explain/coalitions/kernels.h"

namespace glasswood {
namespace {

// Bit i: masks i of a block share no bit.
template <class Mask>
GLASSWOOD_INLINE uint64_t disjoint(const Mask* a, const Mask* c) {
  uint64_t result = 0;
#if defined(__AVX512BW__) && !defined(GLASSWOOD_SCALAR)
  constexpr int kMasks = 64 / sizeof(Mask);
  for (int i = 0; i < kLeafBlock; i += kMasks) {
    const __m512i x = _mm512_loadu_si512(a + i), y = _mm512_loadu_si512(c + i);
    if constexpr (sizeof(Mask) == 1) result |= uint64_t(_mm512_testn_epi8_mask(x, y)) << i;
    if constexpr (sizeof(Mask) == 2) result |= uint64_t(_mm512_testn_epi16_mask(x, y)) << i;
    if constexpr (sizeof(Mask) == 4) result |= uint64_t(_mm512_testn_epi32_mask(x, y)) << i;
    if constexpr (sizeof(Mask) == 8) result |= uint64_t(_mm512_testn_epi64_mask(x, y)) << i;
  }
#else
  uint8_t is_disjoint[kLeafBlock];
  for (int i = 0; i < kLeafBlock; ++i) is_disjoint[i] = (a[i] & c[i]) == 0;
  for (int i = 0; i < kLeafBlock; i += 8) {
    uint64_t eight;
    __builtin_memcpy(&eight, is_disjoint + i, 8);
    result |= (eight * 0x0102040810204080u >> 56) << i;
  }
#endif
  return result;
}

// The players on which a pair of rows differs get the numbers 0 ... d - 1.
template <class Mask>
class PairPlayers {
 public:
  // Room for a number a player: `number` of each, -1 before and after, and the players by number.
  PairPlayers(const CoalitionLeaves& leaves, int32_t* number, int32_t* player)
      : leaves_(leaves), number_(number), player_(player) {}

  int d() const { return d_; }
  int32_t player(int i) const { return player_[i]; }
  int32_t number_of(int32_t player) const { return number_[player]; }

  void clear() {
    for (int i = 0; i < d_; ++i) number_[player_[i]] = -1;
    d_ = 0, differ_ = 0;
  }
  GLASSWOOD_INLINE void add_mask(int64_t leaf, Mask mask) {
    if (leaves_.bit_player)
      differ_ |= mask;
    else
      for (uint64_t rest = mask; rest; rest &= rest - 1) append(player_at(leaf, __builtin_ctzll(rest)));
  }
  void add_player(int32_t player) {
    if (leaves_.bit_player)
      differ_ |= uint64_t(1) << leaves_.player_bit[player];
    else
      append(player);
  }
  // Players that masks of bits have named are numbered now, in the order of the bits.
  void close() {
    for (uint64_t rest = differ_; rest; rest &= rest - 1) append(leaves_.bit_player[__builtin_ctzll(rest)]);
  }
  GLASSWOOD_INLINE uint32_t numbers_of(int64_t leaf, Mask mask) const {
#if defined(__BMI2__)
    if (leaves_.bit_player) return uint32_t(_pext_u64(mask, differ_));
#endif
    uint32_t result = 0;
    for (uint64_t rest = mask; rest; rest &= rest - 1) result |= 1u << number_[player_at(leaf, __builtin_ctzll(rest))];
    return result;
  }
  int32_t player_at(int64_t leaf, int bit) const {
    return leaves_.bit_player ? leaves_.bit_player[bit] : leaves_.place_player[leaves_.first_place[leaf] + bit];
  }

 private:
  const CoalitionLeaves& leaves_;
  int32_t *number_, *player_;
  int d_ = 0;
  uint64_t differ_ = 0;

  GLASSWOOD_INLINE void append(int32_t player) {
    if (number_[player] >= 0) return;
    number_[player] = d_, player_[d_++] = player;
  }
};

}  // namespace
}  // namespace glasswood
