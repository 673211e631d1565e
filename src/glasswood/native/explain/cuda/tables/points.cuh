// What builds of path-dependent tables share: numbers at all quadrature points, and the factors of splits and of paths,
// with the letters of explain/tables/build.h.
//
// Needs Real and POINTS (quadrature points: as many as the subtree needs, or more).
#pragma once
#include "explain/cuda/tables/format.h"

namespace glasswood {

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

}  // namespace glasswood
