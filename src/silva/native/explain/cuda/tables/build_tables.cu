// Fills the tables of subtrees: a block fills one, for one component of the leaves. The maths is that of
// explain/tables/build.h, whose letters these are: X[cell][lane][k] bottom up over the splits, then the factors of
// features above and below the root, then the outer product with those above alone. The column behind the lanes is T.
//
// Macros: REAL, POINTS (quadrature points: as many as the subtree needs, or more).
#include "explain/cuda/tables/format.h"

namespace silva {

using Real = REAL;
constexpr int THREADS = 128;

struct Quadrature {
  double t[POINTS], weight[POINTS];
};

struct alignas(POINTS * sizeof(Real) < 16 ? POINTS * sizeof(Real) : 16) Points {
  Real k[POINTS];
};

// Of one side of a split and one of the sides that a state takes: what it multiplies its child's sums with, and in the
// lane of the split's feature.
struct Edge {
  Points factor, slope;
};

struct Workspace {
  Edge* edges;  // [split][side][taken]
  Points* x;    // [cell][lanes + 1]
};

__device__ __forceinline__ void set_edge(const SubtreeSplit& split, const Quadrature& points, int side, int taken,
                                         Edge& edge) {
  const double above = split.z_above, z = above * split.ratio[side], o = taken == side + 1;
#pragma unroll
  for (int k = 0; k < POINTS; ++k) {
    const double t = points.t[k], h = above + (1 - above) * t;
    edge.factor.k[k] = Real(taken ? (z + (o - z) * t) / h : split.ratio[side]);
    edge.slope.k[k] = Real(taken ? (o * above - z) / (h * h) : 0.0);
  }
}

__device__ __forceinline__ Points splat(Real value) {
  Points result;
#pragma unroll
  for (int k = 0; k < POINTS; ++k) result.k[k] = value;
  return result;
}

__device__ __forceinline__ void add_product(Points& sum, const Points& a, const Points& b) {
#pragma unroll
  for (int k = 0; k < POINTS; ++k) sum.k[k] += a.k[k] * b.k[k];
}

__device__ __forceinline__ void multiply(Points& product, const Points& factor) {
#pragma unroll
  for (int k = 0; k < POINTS; ++k) product.k[k] *= factor.k[k];
}

// g of a feature of the path in a state inside of it or outside.
__device__ __forceinline__ Points factor_of(double z, bool inside, const Quadrature& points) {
  Points result;
#pragma unroll
  for (int k = 0; k < POINTS; ++k) result.k[k] = Real(inside ? z + (1 - z) * points.t[k] : z * (1 - points.t[k]));
  return result;
}

__device__ __forceinline__ void add_split(const SubtreeSplit* __restrict__ splits, int index,
                                          const Cell* __restrict__ cells, const double* __restrict__ leaves,
                                          int n_components, int n_lanes, const Workspace& space) {
  const SubtreeSplit& split = splits[index];
  const int row = n_lanes + 1;
  const Edge* edges = space.edges + index * 6;
  const Points* x[2];
  Real leaf[2];
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const int child = split.child[side];
    x[side] = child < 0 ? nullptr : space.x + splits[child].first_x * row;
    leaf[side] = child < 0 ? Real(leaves[static_cast<long long>(split.leaf[side]) * n_components]) : 0;
  }
  Points* to = space.x + split.first_x * row;
  for (int i = threadIdx.x; i < split.n_cells * row; i += THREADS) {
    const int c = i / row, lane = i - c * row;
    const Cell cell = cells[split.first_cell + c];
    Points sum = splat(0);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const Edge& edge = edges[side * 3 + cell.side];
      const Points* const child = x[side] + cell.child[side] * row;
      const bool again = split.again >> side & 1;
      const Points value = x[side] ? child[lane] : splat(leaf[side]);
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
                                             Points* x) {
  const int row = subtree.n_lanes + 1;
  for (int i = threadIdx.x; i < subtree.n_cells * subtree.n_lanes; i += THREADS) {
    const int c = i / subtree.n_lanes, lane = i - c * subtree.n_lanes;
    Points all = splat(1), derived = splat(1);
    bool is_shared = false;
    for (int f = 0; f < subtree.n_shared; ++f) {
      const PathFactor factor = factors[f];
      const bool inside = bits[c] >> f & 1, own = factor.lane == lane;
      const Points g = factor_of(factor.z, inside, points);
      multiply(all, g);
      multiply(derived, own ? splat(Real((inside ? 1 : 0) - factor.z)) : g);
      is_shared |= own;
    }
    Points& value = x[c * row + lane];
    multiply(value, all);
    if (is_shared) add_product(value, derived, x[c * row + subtree.n_lanes]);
  }
}

// The vectors of all states: a thread has a state of the features above alone and a position, and goes over the cells.
__device__ __forceinline__ void write_table(const TableSubtree& subtree, const PathFactor* __restrict__ factors,
                                            const Quadrature& points, const Points* x, Real* __restrict__ table) {
  const int row = subtree.n_lanes + 1, n_items = subtree.width << subtree.n_above;
  const int together = max(1, THREADS / n_items);
  for (int i = threadIdx.x; i < n_items * together; i += THREADS) {
    const int item = i % n_items, above = item / subtree.width, position = item - above * subtree.width;
    const int lane = subtree.lane_of[position];
    Points q;
#pragma unroll
    for (int k = 0; k < POINTS; ++k) q.k[k] = Real(points.weight[k]);
    for (int f = 0; f < subtree.n_above; ++f) {
      const PathFactor factor = factors[subtree.n_shared + f];
      const bool inside = above >> f & 1;
      multiply(q, factor.lane == lane ? splat(Real((inside ? 1 : 0) - factor.z)) : factor_of(factor.z, inside, points));
    }
    for (int c = i / n_items; c < subtree.n_cells; c += together) {
      Real sum = 0;
      if (lane >= 0) {
        const Points value = x[c * row + lane];
#pragma unroll
        for (int k = 0; k < POINTS; ++k) sum += value.k[k] * q.k[k];
      }
      table[(static_cast<long long>(above) * subtree.n_cells + c) * subtree.width + position] = sum;
    }
  }
}

}  // namespace silva

extern "C" __global__ void __launch_bounds__(silva::THREADS)
    build_tables_kernel(const silva::TableSubtree* __restrict__ subtrees, const int* __restrict__ chosen,
                        const silva::SubtreeSplit* __restrict__ splits, const silva::Cell* __restrict__ cells,
                        const unsigned short* __restrict__ bits, const silva::PathFactor* __restrict__ factors,
                        const double* __restrict__ leaves, int n_components,
                        const __grid_constant__ silva::Quadrature points, long long component_size,
                        char* __restrict__ scratch, long long scratch_size, REAL* __restrict__ tables) {
  using namespace silva;
  extern __shared__ uint4 shared[];
  const TableSubtree subtree = subtrees[chosen[blockIdx.x]];
  const int component = blockIdx.y;
  char* const memory = scratch ? scratch + (static_cast<long long>(component) * gridDim.x + blockIdx.x) * scratch_size
                               : reinterpret_cast<char*>(shared);
  const Workspace space{reinterpret_cast<Edge*>(memory),
                        reinterpret_cast<Points*>(memory + subtree.n_splits * 6 * sizeof(Edge))};
  const SubtreeSplit* own = splits + subtree.first_split;
  for (int i = threadIdx.x; i < subtree.n_splits * 6; i += THREADS)
    set_edge(own[i / 6], points, i / 3 % 2, i % 3, space.edges[i]);
  if (subtree.n_splits == 0)
    for (int lane = threadIdx.x; lane <= subtree.n_lanes; lane += THREADS)
      space.x[lane] = splat(Real(leaves[static_cast<long long>(subtree.leaf) * n_components + component]));
  __syncthreads();
  for (int s = 0; s < subtree.n_splits; ++s) {
    add_split(own, s, cells, leaves + component, n_components, subtree.n_lanes, space);
    __syncthreads();
  }
  Points* x = space.x + (subtree.n_splits ? own[subtree.n_splits - 1].first_x * (subtree.n_lanes + 1) : 0);
  const PathFactor* around = factors + subtree.first_factor;
  if (subtree.n_shared) {
    close_shared(subtree, around, bits + subtree.first_bits, points, x);
    __syncthreads();
  }
  write_table(subtree, around, points, x, tables + component * component_size + subtree.table);
}
