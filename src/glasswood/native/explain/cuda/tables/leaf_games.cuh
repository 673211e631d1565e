// What kernels share that fill tables leaf by leaf: a block fills one, for one component of the leaves, in float64.
//
// Macros: REAL, PAIRS (tables of interactions).
#pragma once
#include "explain/cuda/tables/pair_names.cuh"

namespace glasswood {

using Real = REAL;
constexpr int THREADS = 128, MOST_POINTS = 8, MOST_POSITIONS = 16;

// Quadratures with as many points as leaves of up to 4, 8 and 16 positions need.
struct Quadratures {
  double t[3][MOST_POINTS], weight[3][MOST_POINTS];
};

#if PAIRS
using Names = PairNames;
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
