// Fills the tables of subtrees: a block fills one, for one component of the leaves. The maths is that of
// explain/tables/build.h, whose letters these are: X[cell][lane][k] bottom up over the splits, then the factors of
// features above and below the root, then the outer product with those above alone. The column behind the lanes is T.
// Tables by points are left before the outer product.
//
// Macros: REAL, POINTS (quadrature points: as many as the subtree needs, or more; 6 for tables by points alone).
#include "explain/cuda/tables/format.h"

namespace glasswood {

using Real = REAL;

constexpr int THREADS = 128;

struct Quadrature {
  double t[POINTS], weight[POINTS];
};

struct alignas(POINTS * sizeof(Real) < 16 ? POINTS * sizeof(Real) : 16) AtPoints {
  Real k[POINTS];
};

// One side of a split, in one of the sides that a state takes: what it multiplies its child's sums with, and what in
// the lane of the split's feature.
struct Edge {
  AtPoints factor, slope;
};

struct Workspace {
  Edge* edges;  // [split][side][taken]
  AtPoints* x;  // [cell][number]
};

__device__ __forceinline__ void set_edge(const SubtreeSplit& split, const Quadrature& points, int side, int taken,
                                         Edge& edge) {
#pragma unroll
  for (int k = 0; k < POINTS; ++k) {
    const SplitEdge at = split_edge(split, side, taken, points.t[k]);
    edge.factor.k[k] = Real(at.factor), edge.slope.k[k] = Real(at.slope);
  }
}

__device__ __forceinline__ AtPoints splat(Real value) {
  AtPoints result;
#pragma unroll
  for (int k = 0; k < POINTS; ++k) result.k[k] = value;
  return result;
}

__device__ __forceinline__ void add_product(AtPoints& sum, const AtPoints& a, const AtPoints& b) {
#pragma unroll
  for (int k = 0; k < POINTS; ++k) sum.k[k] += a.k[k] * b.k[k];
}

__device__ __forceinline__ void multiply(AtPoints& product, const AtPoints& factor) {
#pragma unroll
  for (int k = 0; k < POINTS; ++k) product.k[k] *= factor.k[k];
}

// g of a feature of the path in a state inside of it or outside.
__device__ __forceinline__ AtPoints factor_of(double z, bool inside, const Quadrature& points) {
  AtPoints result;
#pragma unroll
  for (int k = 0; k < POINTS; ++k) result.k[k] = Real(path_factor(z, inside, points.t[k]));
  return result;
}

// Where a block works: in shared memory, or if that is too small in its part of `scratch`.
__device__ __forceinline__ Workspace workspace_of(const TableSubtree& subtree, uint4* shared, char* scratch,
                                                  long long scratch_size) {
  const long long block = static_cast<long long>(blockIdx.y) * gridDim.x + blockIdx.x;
  char* const memory = scratch ? scratch + block * scratch_size : reinterpret_cast<char*>(shared);
  return {reinterpret_cast<Edge*>(memory), reinterpret_cast<AtPoints*>(memory + subtree.n_splits * 6 * sizeof(Edge))};
}

// The edges of all splits; where the subtree is a leaf, its value in all n numbers.
__device__ __forceinline__ void begin_build(const TableSubtree& subtree, const SubtreeSplit* __restrict__ own,
                                            const Quadrature& points, const double* __restrict__ leaves,
                                            int n_components, int n, const Workspace& space) {
  for (int i = threadIdx.x; i < subtree.n_splits * 6; i += THREADS)
    set_edge(own[i / 6], points, i / 3 % 2, i % 3, space.edges[i]);
  if (subtree.n_splits == 0)
    for (int i = threadIdx.x; i < n; i += THREADS)
      space.x[i] = splat(Real(leaves[static_cast<long long>(subtree.leaf) * n_components]));
  __syncthreads();
}

// X of a split's children, n numbers a cell, or the value of one that is a leaf.
struct Children {
  const AtPoints* x[2];
  Real leaf[2];

  __device__ __forceinline__ Children(const SubtreeSplit* __restrict__ splits, const SubtreeSplit& split,
                                      const double* __restrict__ leaves, int n_components, int n,
                                      const Workspace& space) {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int child = split.child[side];
      x[side] = child < 0 ? nullptr : space.x + splits[child].first_x * n;
      leaf[side] = child < 0 ? Real(leaves[static_cast<long long>(split.leaf[side]) * n_components]) : 0;
    }
  }
};

// o - z of a feature of the path.
__device__ __forceinline__ AtPoints derived_factor(double z, bool inside) { return splat(Real(path_slope(z, inside))); }

__device__ __forceinline__ void add_split(const SubtreeSplit* __restrict__ splits, int index,
                                          const Cell* __restrict__ cells, const double* __restrict__ leaves,
                                          int n_components, int n_lanes, const Workspace& space) {
  const SubtreeSplit& split = splits[index];
  const int row = n_lanes + 1;
  const Edge* edges = space.edges + index * 6;
  const Children of(splits, split, leaves, n_components, row, space);
  AtPoints* to = space.x + split.first_x * row;
  for (int i = threadIdx.x; i < split.n_cells * row; i += THREADS) {
    const int c = i / row, lane = i - c * row;
    const Cell cell = cells[split.first_cell + c];
    AtPoints sum = splat(0);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const Edge& edge = edges[side * 3 + cell.side];
      const AtPoints* const child = of.x[side] + cell.child[side] * row;
      const bool again = split.again >> side & 1;
      const AtPoints value = of.x[side] ? child[lane] : splat(of.leaf[side]);
      if (lane < n_lanes && split.absent[side] >> lane & 1) continue;
      add_product(sum, lane == split.lane && !again ? edge.slope : edge.factor, value);
      if (lane == split.lane && again) add_product(sum, edge.slope, child[n_lanes]);
    }
    to[i] = sum;
  }
}

// Features that are above the root and below it.
__device__ __forceinline__ void close_shared(const TableSubtree& subtree, const PathFactor* __restrict__ factors,
                                             const unsigned short* __restrict__ bits, const Quadrature& points,
                                             AtPoints* x) {
  const int row = subtree.n_built + 1;
  for (int i = threadIdx.x; i < subtree.n_cells * subtree.n_built; i += THREADS) {
    const int c = i / subtree.n_built, lane = i - c * subtree.n_built;
    AtPoints all = splat(1), derived = splat(1);
    bool is_shared = false;
    for (int f = 0; f < subtree.n_shared; ++f) {
      const PathFactor factor = factors[f];
      const bool inside = bits[c] >> f & 1, own = factor.lane == lane;
      const AtPoints g = factor_of(factor.z, inside, points);
      multiply(all, g);
      multiply(derived, own ? derived_factor(factor.z, inside) : g);
      is_shared |= own;
    }
    AtPoints& value = x[c * row + lane];
    multiply(value, all);
    if (is_shared) add_product(value, derived, x[c * row + subtree.n_built]);
  }
}

constexpr int VECTOR = (POINTS + 3) / 4 * 4;
struct alignas(16) PointVector {
  Real k[VECTOR];
};

// A table by points: the points, what features above alone need of them, the weighted X of each cell, and T times the
// factors of features that are above and below.
__device__ __forceinline__ void write_points(const TableSubtree& subtree, const PathFactor* __restrict__ factors,
                                             const unsigned short* __restrict__ bits, const Quadrature& points,
                                             const AtPoints* x, Real* __restrict__ table) {
  const PathFactor* const above = factors + subtree.n_shared;
  Real* const z = table + (2 + subtree.n_above) * VECTOR;
  for (int i = threadIdx.x; i < (2 + subtree.n_above) * POINTS; i += THREADS) {
    const int f = i / POINTS - 2, k = i % POINTS;
    const double t = points.t[k], outside = f < 0 ? 1 : above[f].z;
    table[(f + 2) * VECTOR + k] = Real(f == -2   ? t
                                       : f == -1 ? -1 / (1 - t)
                                                 : (1 - outside) / (outside + (1 - outside) * t));
  }
  for (int f = threadIdx.x; f < subtree.n_above; f += THREADS) z[f] = Real(above[f].z);
  Real* const entries = z + (subtree.n_above + 3) / 4 * 4;
  const int row = subtree.n_built + 1;
  for (int i = threadIdx.x; i < subtree.n_cells * row; i += THREADS) {
    const int c = i / row, lane = i - c * row;
    AtPoints value = x[i];
    for (int f = 0; f < (lane < subtree.n_built ? 0 : subtree.n_shared); ++f)
      multiply(value, factor_of(factors[f].z, bits[c] >> f & 1, points));
    PointVector to{};
#pragma unroll
    for (int k = 0; k < POINTS; ++k) to.k[k] = value.k[k] * Real(points.weight[k]);
    *reinterpret_cast<PointVector*>(entries + c * subtree.width + c / 8 * 4 + lane * VECTOR) = to;
  }
}

// The vectors of all states: a thread has a state of the features above alone and a position, and goes over the cells.
__device__ __forceinline__ void write_table(const TableSubtree& subtree, const PathFactor* __restrict__ factors,
                                            const Quadrature& points, const AtPoints* x, Real* __restrict__ table) {
  const int row = subtree.n_lanes + 1, n_items = subtree.width << subtree.n_above;
  const int together = max(1, THREADS / n_items);
  for (int i = threadIdx.x; i < n_items * together; i += THREADS) {
    const int item = i % n_items, above = item / subtree.width, position = item - above * subtree.width;
    const int lane = subtree.lane_of[position];
    AtPoints q;
#pragma unroll
    for (int k = 0; k < POINTS; ++k) q.k[k] = Real(points.weight[k]);
    for (int f = 0; f < subtree.n_above; ++f) {
      const PathFactor factor = factors[subtree.n_shared + f];
      const bool inside = above >> f & 1;
      multiply(q, factor.lane == lane ? derived_factor(factor.z, inside) : factor_of(factor.z, inside, points));
    }
    for (int c = i / n_items; c < subtree.n_cells; c += together) {
      Real sum = 0;
      if (lane >= 0) {
        const AtPoints value = x[c * row + lane];
#pragma unroll
        for (int k = 0; k < POINTS; ++k) sum += value.k[k] * q.k[k];
      }
      table[(static_cast<long long>(above) * subtree.n_cells + c) * subtree.width + position] = sum;
    }
  }
}

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    build_tables_kernel(const glasswood::TableSubtree* __restrict__ subtrees, const int* __restrict__ chosen,
                        const glasswood::SubtreeSplit* __restrict__ splits, const glasswood::Cell* __restrict__ cells,
                        const unsigned short* __restrict__ bits, const glasswood::PathFactor* __restrict__ factors,
                        const double* __restrict__ leaves, int n_components,
                        const __grid_constant__ glasswood::Quadrature points, long long component_size,
                        char* __restrict__ scratch, long long scratch_size, REAL* __restrict__ tables) {
  using namespace glasswood;
  extern __shared__ uint4 shared[];
  const TableSubtree subtree = subtrees[chosen[blockIdx.x]];
  const int component = blockIdx.y;
  const Workspace space = workspace_of(subtree, shared, scratch, scratch_size);
  const SubtreeSplit* own = splits + subtree.first_split;
  begin_build(subtree, own, points, leaves + component, n_components, subtree.n_built + 1, space);
  for (int s = 0; s < subtree.n_splits; ++s) {
    add_split(own, s, cells, leaves + component, n_components, subtree.n_built, space);
    __syncthreads();
  }
  AtPoints* x = space.x + (subtree.n_splits ? own[subtree.n_splits - 1].first_x * (subtree.n_built + 1) : 0);
  const PathFactor* around = factors + subtree.first_factor;
  if (subtree.n_shared) {
    close_shared(subtree, around, bits + subtree.first_bits, points, x);
    __syncthreads();
  }
  Real* table = tables + component * component_size + subtree.table;
  if (subtree.n_built < subtree.n_lanes)
    write_points(subtree, around, bits + subtree.first_bits, points, x, table);
  else
    write_table(subtree, around, points, x, table);
}
