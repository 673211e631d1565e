// Fills the tables of interactions: a block fills one, for one component of the leaves. The maths is that of
// explain/tables/build_pairs.h: X[cell][pair][k], T differentiated by those of the pair's features that lie below the
// node, bottom up over the splits; then the factors of features above and below the root; then the outer product with
// those above alone. Pairs (i, j), i <= j, are numbered as in explain/tables/pairs.h, T is behind them.
//
// Macros: REAL, POINTS.
namespace glasswood {

using Real = REAL;

}  // namespace glasswood

#include "explain/cuda/tables/pair_names.cuh"
#include "explain/cuda/tables/points.cuh"

namespace glasswood {

// The number that is left of a pair without one of its features: the other's first derivative, or T.
__device__ __forceinline__ int without(const PairNames& names, int pair, int lane) {
  const int i = names.first[pair], j = names.second[pair];
  return i == j ? names.n : names.diagonal(i == lane ? j : i);
}

__device__ __forceinline__ void add_split(const SubtreeSplit* __restrict__ splits, int index,
                                          const Cell* __restrict__ cells, const double* __restrict__ leaves,
                                          int n_components, const PairNames& names, const Workspace& space) {
  const SubtreeSplit& split = splits[index];
  const int row = names.n + 1;
  const Edge* edges = space.edges + index * 6;
  const Children of(splits, split, leaves, n_components, row, space);
  AtPoints* to = space.x + split.first_x * row;
  for (int i = threadIdx.x; i < split.n_cells * row; i += THREADS) {
    const int c = i / row, pair = i - c * row;
    const Cell cell = cells[split.first_cell + c];
    const unsigned lanes = names.lanes(pair);
    const bool own = lanes >> split.lane & 1;
    AtPoints sum = splat(0);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      if (split.absent[side] & lanes) continue;
      const Edge& edge = edges[side * 3 + cell.side];
      const AtPoints* const child = of.x[side] + cell.child[side] * row;
      const bool again = split.again >> side & 1;
      const AtPoints value = of.x[side] ? child[pair] : splat(of.leaf[side]);
      add_product(sum, own && !again ? edge.slope : edge.factor, value);
      if (own && again) add_product(sum, edge.slope, child[without(names, pair, split.lane)]);
    }
    to[i] = sum;
  }
}

// Products over the features that are above the root and below it, in a cell: of g, and with o - z instead in the first
// lane, in the second, in both; 0 in lanes of other features.
struct SharedFactors {
  AtPoints all = splat(1), first = splat(1), second = splat(1), both = splat(1);

  __device__ __forceinline__ SharedFactors(const TableSubtree& subtree, const PathFactor* __restrict__ factors,
                                           unsigned bits, const Quadrature& points, int i, int j) {
    bool has_first = false, has_second = false;
    for (int f = 0; f < subtree.n_shared; ++f) {
      const PathFactor factor = factors[f];
      const bool inside = bits >> f & 1, is_first = factor.lane == i, is_second = factor.lane == j;
      const AtPoints g = factor_of(factor.z, inside, points), d = derived_factor(factor.z, inside);
      multiply(all, g);
      multiply(first, is_first ? d : g);
      multiply(second, is_second ? d : g);
      multiply(both, is_first || is_second ? d : g);
      has_first |= is_first, has_second |= is_second;
    }
    if (!has_first) first = splat(0);
    if (!has_second) second = splat(0);
    if (!has_first || !has_second) both = splat(0);
  }
};

// Pairs of two features before those of one, which they read.
__device__ __forceinline__ void close_shared(const TableSubtree& subtree, const PathFactor* __restrict__ factors,
                                             const unsigned short* __restrict__ bits, const Quadrature& points,
                                             const PairNames& names, AtPoints* x) {
  for (int is_value = 0; is_value < 2; ++is_value) {
    for (int item = threadIdx.x; item < subtree.n_cells * names.n; item += THREADS) {
      const int c = item / names.n, pair = item - c * names.n, i = names.first[pair], j = names.second[pair];
      if ((i == j) != is_value) continue;
      const SharedFactors of(subtree, factors, bits[c], points, i, j);
      AtPoints* const cell = x + c * (names.n + 1);
      multiply(cell[pair], of.all);
      if (is_value) {
        add_product(cell[pair], of.first, cell[names.n]);
      } else {
        add_product(cell[pair], of.first, cell[names.diagonal(j)]);
        add_product(cell[pair], of.second, cell[names.diagonal(i)]);
        add_product(cell[pair], of.both, cell[names.n]);
      }
    }
    __syncthreads();
  }
}

// Weights of the points and the factors of the features above alone, in a state of these; half of them for two
// features.
__device__ __forceinline__ AtPoints weigh(const TableSubtree& subtree, const PathFactor* __restrict__ factors,
                                          int above, const Quadrature& points, int i, int j) {
  AtPoints q;
#pragma unroll
  for (int k = 0; k < POINTS; ++k) q.k[k] = Real(i == j ? points.weight[k] : points.weight[k] / 2);
  for (int f = 0; f < subtree.n_above; ++f) {
    const PathFactor factor = factors[subtree.n_shared + f];
    const bool inside = above >> f & 1, own = factor.lane == i || factor.lane == j;
    multiply(q, own ? derived_factor(factor.z, inside) : factor_of(factor.z, inside, points));
  }
  return q;
}

// The entries of all states: a thread has a state of the features above alone and a number, and goes over the cells.
__device__ __forceinline__ void write_table(const TableSubtree& subtree, const PathFactor* __restrict__ factors,
                                            const Quadrature& points, const PairNames& names, const AtPoints* x,
                                            Real* __restrict__ table) {
  const int n_items = subtree.width << subtree.n_above, together = max(1, THREADS / n_items);
  for (int i = threadIdx.x; i < n_items * together; i += THREADS) {
    const int item = i % n_items, above = item / subtree.width, position = item - above * subtree.width;
    const int pair = names.of_position[position];
    const AtPoints q =
        pair < 0 ? splat(0) : weigh(subtree, factors, above, points, names.first[pair], names.second[pair]);
    for (int c = i / n_items; c < subtree.n_cells; c += together) {
      Real sum = 0;
      if (pair >= 0) {
        const AtPoints value = x[c * (names.n + 1) + pair];
#pragma unroll
        for (int k = 0; k < POINTS; ++k) sum += value.k[k] * q.k[k];
      }
      table[(static_cast<long long>(above) * subtree.n_cells + c) * subtree.width + position] = sum;
    }
  }
}

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    build_pairs_kernel(const glasswood::TableSubtree* __restrict__ subtrees, const int* __restrict__ chosen,
                       const glasswood::SubtreeSplit* __restrict__ splits, const glasswood::Cell* __restrict__ cells,
                       const unsigned short* __restrict__ bits, const glasswood::PathFactor* __restrict__ factors,
                       const double* __restrict__ leaves, int n_components,
                       const __grid_constant__ glasswood::Quadrature points, long long component_size,
                       char* __restrict__ scratch, long long scratch_size, REAL* __restrict__ tables) {
  using namespace glasswood;
  extern __shared__ uint4 shared[];
  __shared__ PairNames names;
  const TableSubtree subtree = subtrees[chosen[blockIdx.x]];
  const int component = blockIdx.y;
  set_names(subtree, names);
  const Workspace space = workspace_of(subtree, shared, scratch, scratch_size);
  const SubtreeSplit* own = splits + subtree.first_split;
  __syncthreads();
  begin_build(subtree, own, points, leaves + component, n_components, names.n + 1, space);
  for (int s = 0; s < subtree.n_splits; ++s) {
    add_split(own, s, cells, leaves + component, n_components, names, space);
    __syncthreads();
  }
  AtPoints* x = space.x + (subtree.n_splits ? own[subtree.n_splits - 1].first_x * (names.n + 1) : 0);
  const PathFactor* around = factors + subtree.first_factor;
  if (subtree.n_shared) close_shared(subtree, around, bits + subtree.first_bits, points, names, x);
  write_table(subtree, around, points, names, x, tables + component * component_size + subtree.table);
}
