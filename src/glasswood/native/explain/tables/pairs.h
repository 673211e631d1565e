// Which numbers of a state's entry are which pairs of features.
#pragma once
#include <cstdint>

namespace glasswood {
namespace {

// The pairs (i, j), i <= j, of m slots, row after row of the upper triangle; (i, i) holds the value of i, (i, j) half
// of the interaction. On cores vectors of kPairLanes numbers hold them, padded.
constexpr int kPairLanes = 16;
constexpr int kMostPairSlots = 15;

constexpr int n_pairs(int slots) { return slots * (slots + 1) / 2; }
constexpr int pair_vectors(int slots, int lanes = kPairLanes) { return (n_pairs(slots) + lanes - 1) / lanes; }
constexpr int pair_of(int i, int j, int slots) { return i * (2 * slots - i - 1) / 2 + j; }

// The most slots that take no more vectors.
constexpr int pair_capacity(int slots, int lanes = kPairLanes) {
  while (slots < kMostPairSlots && pair_vectors(slots + 1, lanes) == pair_vectors(slots, lanes)) ++slots;
  return slots;
}

}  // namespace
}  // namespace glasswood
