// Fills the tables of subtrees with the covers' game, of interactions or between players of several features: a block
// fills one, for one component of the leaves, leaf after leaf, in float64. The maths is that of
// explain/tables/leaf_games/leaf_shares.h.
//
// Macros: REAL, PAIRS (tables of interactions).
#include "explain/cuda/tables/leaf_games.cuh"

namespace glasswood {

struct LeafSpace {
  double* sums;     // [state][number]
  double* entries;  // [set]: of one position, or of two
};

// The game of a leaf: cover shares by position, bits of the positions that an entry is for, and points.
struct LeafGame {
  const double* share;
  int n_positions, n_points;
  const double *t, *weight;

  // o - share, o whether a row of the set meets the position's conditions.
  __device__ __forceinline__ double slope(unsigned set, int position) const {
    return double(!(set >> position & 1)) - share[position];
  }

  // The integral of the product over all positions but `own`.
  __device__ __forceinline__ double others(unsigned set, unsigned own) const {
    double sum = 0;
    for (int q = 0; q < n_points; ++q) {
      double product = weight[q];
      for (int p = 0; p < n_positions; ++p)
        if (!(own >> p & 1)) product *= share[p] + slope(set, p) * t[q];
      sum += product;
    }
    return sum;
  }
};

// Entries of positions p and q, or of one alone, and what they add to the sums of all states.
__device__ __forceinline__ void add_entries(const TableSubtree& subtree, const SubtreeLeaf& leaf, const LeafGame& game,
                                            int p, int q, double value, int number,
                                            const unsigned short* __restrict__ unmet, const Names& names,
                                            const LeafSpace& space) {
  const unsigned own = 1u << p | 1u << q;
  for (int set = threadIdx.x; set < 1 << leaf.n_positions; set += THREADS)
    space.entries[set] = game.slope(set, p) * (p == q ? 1.0 : game.slope(set, q) / 2) * game.others(set, own);
  __syncthreads();
  const int n_states = subtree.n_cells << subtree.n_above;
  for (int state = threadIdx.x; state < n_states; state += THREADS)
    space.sums[state * names.n + number] += value * space.entries[unmet_of(subtree, leaf, unmet, state)];
  __syncthreads();
}

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    build_shares_kernel(const glasswood::TableSubtree* __restrict__ subtrees, const int* __restrict__ chosen,
                        const glasswood::SubtreeLeaf* __restrict__ leaves_of,
                        const unsigned char* __restrict__ leaf_lanes, const double* __restrict__ leaf_shares,
                        const unsigned short* __restrict__ unmet, const double* __restrict__ leaves, int n_components,
                        const __grid_constant__ glasswood::Quadratures points, long long component_size,
                        char* __restrict__ scratch, long long scratch_size, REAL* __restrict__ tables) {
  using namespace glasswood;
  extern __shared__ uint4 shared[];
  __shared__ Names names;
  const TableSubtree subtree = subtrees[chosen[blockIdx.x]];
  const int component = blockIdx.y;
  set_names(subtree, names);
  __syncthreads();
  const int n_sums = (subtree.n_cells << subtree.n_above) * names.n;
  char* const memory = scratch ? scratch + (static_cast<long long>(component) * gridDim.x + blockIdx.x) * scratch_size
                               : reinterpret_cast<char*>(shared);
  const LeafSpace space{reinterpret_cast<double*>(memory), reinterpret_cast<double*>(memory) + n_sums};
  for (int i = threadIdx.x; i < n_sums; i += THREADS) space.sums[i] = 0;
  __syncthreads();
  for (int i = 0; i < subtree.n_leaves; ++i) {
    const SubtreeLeaf leaf = leaves_of[subtree.first_leaf + i];
    const double value = leaves[static_cast<long long>(leaf.leaf) * n_components + component];
    const int kind = leaf.n_positions <= 4 ? 0 : leaf.n_positions <= 8 ? 1 : 2;
    const LeafGame game{leaf_shares + leaf.first_lane, leaf.n_positions, 2 << kind, points.t[kind],
                        points.weight[kind]};
    const unsigned char* lanes = leaf_lanes + leaf.first_lane;
    for (int p = 0; p < leaf.n_positions; ++p) {
      add_entries(subtree, leaf, game, p, p, value, names.diagonal(lanes[p]), unmet, names, space);
#if PAIRS
      for (int q = 0; q < p; ++q) {
        const int number = names.pair(min(lanes[p], lanes[q]), max(lanes[p], lanes[q]));
        add_entries(subtree, leaf, game, p, q, value, number, unmet, names, space);
      }
#endif
    }
  }
  write_table(subtree, names, space.sums, tables + component * component_size + subtree.table);
}
