// What kernels share that fill tables leaf by leaf: a block fills one, for one component of the leaves, in float64.
//
// Macros: REAL, PAIRS (tables of interactions).
#pragma once
#include "explain/cuda/tables/format.h"

namespace glasswood {

using Real = REAL;
constexpr int THREADS = 128, MOST_POINTS = 8, MOST_POSITIONS = 16;

// Quadratures with as many points as leaves of up to 4, 8 and 16 positions need.
struct Quadratures {
  double t[3][MOST_POINTS], weight[3][MOST_POINTS];
};

#if PAIRS
constexpr int MOST_PAIRS = 64;  // of ten features, and what pads them

// Names of the numbers of an entry of interactions, in the order of explain/tables/pairs.h.
struct Names {
  int n_lanes, n;                       // pairs of the subtree's own lanes
  signed char of_position[MOST_PAIRS];  // [position in the table's entry]: pair, or -1

  __device__ __forceinline__ int pair(int i, int j) const { return i * (2 * n_lanes - i - 1) / 2 + j; }
  __device__ __forceinline__ int diagonal(int i) const { return pair(i, i); }
};

// The threads of a block name all numbers; to be followed by __syncthreads.
__device__ __forceinline__ void set_names(const TableSubtree& subtree, Names& names) {
  if (threadIdx.x == 0) names.n_lanes = subtree.n_lanes, names.n = subtree.n_lanes * (subtree.n_lanes + 1) / 2;
  for (int i = threadIdx.x; i < MOST_PAIRS; i += blockDim.x) names.of_position[i] = -1;
  __syncthreads();
  for (int at = threadIdx.x; at < subtree.n_slots * subtree.n_slots; at += blockDim.x) {
    const int a = at / subtree.n_slots, b = at - a * subtree.n_slots;
    const int i = subtree.lane_of[a], j = subtree.lane_of[b];
    if (a > b || i < 0 || j < 0) continue;
    names.of_position[a * (2 * subtree.n_slots - a - 1) / 2 + b] =
        static_cast<signed char>(names.pair(min(i, j), max(i, j)));
  }
}
#else
// Names of the numbers of an entry of values, which are a subtree's lanes.
struct Names {
  int n;
  signed char of_position[MOST_TABLE_LANES];
  __device__ __forceinline__ int diagonal(int lane) const { return lane; }
};

__device__ __forceinline__ void set_names(const TableSubtree& subtree, Names& names) {
  if (threadIdx.x == 0) names.n = subtree.n_lanes;
  if (threadIdx.x < MOST_TABLE_LANES) names.of_position[threadIdx.x] = subtree.lane_of[threadIdx.x];
}
#endif

// Conditions of the leaf that a state does not meet.
__device__ __forceinline__ unsigned unmet_of(const TableSubtree& subtree, const SubtreeLeaf& leaf,
                                             const unsigned short* __restrict__ unmet, int state) {
  const unsigned above = unsigned(state) / subtree.n_cells, cell = unsigned(state) - above * subtree.n_cells;
  const unsigned outside = ~above & ((1u << subtree.n_above) - 1);
  return unmet[leaf.first_unmet + cell] | outside << leaf.n_below;
}

__device__ __forceinline__ void write_table(const TableSubtree& subtree, const Names& names, const double* sums,
                                            Real* __restrict__ table) {
  const int n_states = subtree.n_cells << subtree.n_above;
  for (int i = threadIdx.x; i < n_states * subtree.width; i += THREADS) {
    const int state = i / subtree.width, number = names.of_position[i - state * subtree.width];
    table[i] = number < 0 ? Real(0) : Real(sums[state * names.n + number]);
  }
}

}  // namespace glasswood
