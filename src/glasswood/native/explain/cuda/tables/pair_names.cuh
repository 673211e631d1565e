// Which features the numbers of an entry of interactions are of (explain/tables/pairs.h has their order), as a block
// fills the table of a subtree.
#pragma once
#include "explain/cuda/tables/format.h"

namespace glasswood {

constexpr int MOST_PAIRS = 64;  // of ten features, and what pads them

struct PairNames {
  int n_lanes, n;                                     // pairs of the subtree's own lanes, the number behind is T
  signed char first[MOST_PAIRS], second[MOST_PAIRS];  // [pair]: lanes
  signed char of_position[MOST_PAIRS];                // [position in the table's entry]: pair, or -1

  __device__ __forceinline__ int pair(int i, int j) const { return i * (2 * n_lanes - i - 1) / 2 + j; }
  __device__ __forceinline__ int diagonal(int i) const { return pair(i, i); }
  // Bits of the lanes; none of T.
  __device__ __forceinline__ unsigned lanes(int at) const { return at < n ? 1u << first[at] | 1u << second[at] : 0; }
};

// The threads of a block name all numbers; to be followed by __syncthreads.
__device__ __forceinline__ void set_names(const TableSubtree& subtree, PairNames& names) {
  if (threadIdx.x == 0) names.n_lanes = subtree.n_lanes, names.n = subtree.n_lanes * (subtree.n_lanes + 1) / 2;
  for (int i = threadIdx.x; i < MOST_PAIRS; i += blockDim.x) names.of_position[i] = -1;
  __syncthreads();
  for (int at = threadIdx.x, i = 0, first = 0; at < names.n; at += blockDim.x) {
    while (at >= first + names.n_lanes - i) first += names.n_lanes - i++;
    names.first[at] = static_cast<signed char>(i), names.second[at] = static_cast<signed char>(i + at - first);
  }
  for (int at = threadIdx.x; at < subtree.n_slots * subtree.n_slots; at += blockDim.x) {
    const int a = at / subtree.n_slots, b = at - a * subtree.n_slots;
    const int i = subtree.lane_of[a], j = subtree.lane_of[b];
    if (a > b || i < 0 || j < 0) continue;
    names.of_position[a * (2 * subtree.n_slots - a - 1) / 2 + b] =
        static_cast<signed char>(names.pair(min(i, j), max(i, j)));
  }
}

}  // namespace glasswood
