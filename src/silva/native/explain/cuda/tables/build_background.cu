// Fills the tables of subtrees with the game against background rows: a block fills one, for one component of the
// leaves, leaf after leaf, in float64. The maths is that of explain/tables/background/leaf_tables.h.
//
// Macro: REAL.
#include "explain/cuda/tables/format.h"

namespace silva {

using Real = REAL;
constexpr int THREADS = 128, MOST_POINTS = 8, MOST_POSITIONS = 16;

// Of as many points as leaves of up to 4, 8 and 16 positions need.
struct Quadratures {
  double t[3][MOST_POINTS], weight[3][MOST_POINTS];
};

// Powers at a point: [k] t^(k - 1), 0 for k = 0; [z] w (1 - t)^z; and, at none, [z] 1 + 1/2 + ... + 1/z.
struct Powers {
  double known[MOST_POSITIONS + 1], unknown[MOST_POSITIONS + 1], harmonic[MOST_POSITIONS + 1];
};

struct LeafSpace {
  double* sums;               // [state][lane]
  unsigned long long* count;  // [set]: background rows that meet it and nothing else
  double *e, *t0, *t1;        // [set]
};

__device__ __forceinline__ void set_powers(Powers& powers, double t, double weight) {
  const int i = threadIdx.x;
  if (i > MOST_POSITIONS) return;
  double known = i ? 1 : 0, unknown = weight;
  for (int j = 1; j < i; ++j) known *= t;
  for (int j = 0; j < i; ++j) unknown *= 1 - t;
  powers.known[i] = known, powers.unknown[i] = unknown;
}

__device__ __forceinline__ void set_harmonic(Powers& powers) {
  const int i = threadIdx.x;
  if (i > MOST_POSITIONS) return;
  double sum = 0;
  for (int j = 1; j <= i; ++j) sum += 1.0 / j;
  powers.harmonic[i] = sum;
}

// Conditions of the leaf that a state does not meet.
__device__ __forceinline__ unsigned unmet_of(const TableSubtree& subtree, const SubtreeLeaf& leaf,
                                             const unsigned short* __restrict__ unmet, int state) {
  const unsigned above = unsigned(state) / subtree.n_cells, cell = unsigned(state) - above * subtree.n_cells;
  const unsigned outside = ~above & ((1u << subtree.n_above) - 1);
  return unmet[leaf.first_unmet + cell] | outside << leaf.n_below;
}

__device__ __forceinline__ void count_sets(const TableSubtree& subtree, const SubtreeLeaf& leaf,
                                           const unsigned short* __restrict__ unmet,
                                           const unsigned long long* __restrict__ count, const LeafSpace& space) {
  const int n_sets = 1 << leaf.n_positions, n_states = subtree.n_cells << subtree.n_above;
  for (int set = threadIdx.x; set < n_sets; set += THREADS) space.count[set] = 0;
  __syncthreads();
  for (int s = threadIdx.x; s < n_states; s += THREADS)
    if (const unsigned long long n = count[subtree.first_state + s])
      atomicAdd(&space.count[(n_sets - 1) & ~unmet_of(subtree, leaf, unmet, s)], n);
  __syncthreads();
}

// T_0 and T_1 of the leaf, of weight 1.
__device__ __forceinline__ void make_leaf_tables(int n_positions, double total, const Quadratures& points,
                                                 Powers& powers, const LeafSpace& space) {
  const int kind = n_positions <= 4 ? 0 : n_positions <= 8 ? 1 : 2, n_points = 2 << kind, n_sets = 1 << n_positions;
  const double full = double(space.count[n_sets - 1]) / total;
  for (int set = threadIdx.x; set < n_sets; set += THREADS) {
    const int z = __popc(set), less = z ? z - 1 : 0;
    space.t0[set] = -full * powers.harmonic[z], space.t1[set] = -full * powers.harmonic[less];
  }
  for (int q = 0; q < n_points; ++q) {
    set_powers(powers, points.t[kind][q], points.weight[kind][q]);
    __syncthreads();
    for (int set = threadIdx.x; set < n_sets; set += THREADS)
      space.e[set] = powers.known[n_positions - __popc(set)] * (double(space.count[set]) / total);
    __syncthreads();
    for (int bit = 1; bit < n_sets; bit *= 2) {
      for (int i = threadIdx.x; i < n_sets / 2; i += THREADS) {
        const int set = (i & ~(bit - 1)) * 2 + (i & (bit - 1));
        space.e[set] += space.e[set + bit];
      }
      __syncthreads();
    }
    for (int set = threadIdx.x; set < n_sets; set += THREADS) {
      const int z = __popc(set), less = z ? z - 1 : 0;
      space.t0[set] += space.e[set] * powers.unknown[z], space.t1[set] += space.e[set] * powers.unknown[less];
    }
    __syncthreads();
  }
}

__device__ __forceinline__ void add_leaf(const TableSubtree& subtree, const SubtreeLeaf& leaf, double value,
                                         const unsigned short* __restrict__ unmet,
                                         const unsigned char* __restrict__ lanes, const LeafSpace& space) {
  const int n_states = subtree.n_cells << subtree.n_above;
  for (int i = threadIdx.x; i < n_states * leaf.n_positions; i += THREADS) {
    const int state = i / leaf.n_positions, position = i - state * leaf.n_positions;
    const unsigned set = unmet_of(subtree, leaf, unmet, state);
    space.sums[state * subtree.n_lanes + lanes[leaf.first_lane + position]] +=
        value * (space.t0[set] - space.t1[set | 1u << position]);
  }
}

__device__ __forceinline__ void write_table(const TableSubtree& subtree, const double* sums, Real* __restrict__ table) {
  const int n_states = subtree.n_cells << subtree.n_above;
  for (int i = threadIdx.x; i < n_states * subtree.width; i += THREADS) {
    const int state = i / subtree.width, lane = subtree.lane_of[i - state * subtree.width];
    table[i] = lane < 0 ? Real(0) : Real(sums[state * subtree.n_lanes + lane]);
  }
}

}  // namespace silva

extern "C" __global__ void __launch_bounds__(silva::THREADS)
    build_background_kernel(const silva::TableSubtree* __restrict__ subtrees, const int* __restrict__ chosen,
                            const silva::SubtreeLeaf* __restrict__ leaves_of,
                            const unsigned char* __restrict__ leaf_lanes, const unsigned short* __restrict__ unmet,
                            const double* __restrict__ leaves, const unsigned long long* __restrict__ count,
                            double total, int n_components, const __grid_constant__ silva::Quadratures points,
                            long long component_size, char* __restrict__ scratch, long long scratch_size,
                            REAL* __restrict__ tables) {
  using namespace silva;
  extern __shared__ uint4 shared[];
  __shared__ Powers powers;
  const TableSubtree subtree = subtrees[chosen[blockIdx.x]];
  const int component = blockIdx.y, n_sums = (subtree.n_cells << subtree.n_above) * subtree.n_lanes;
  char* const memory = scratch ? scratch + (static_cast<long long>(component) * gridDim.x + blockIdx.x) * scratch_size
                               : reinterpret_cast<char*>(shared);
  const int n_sets = 1 << subtree.most_positions;
  LeafSpace space;
  space.sums = reinterpret_cast<double*>(memory);
  space.count = reinterpret_cast<unsigned long long*>(space.sums + n_sums);
  space.e = reinterpret_cast<double*>(space.count + n_sets);
  space.t0 = space.e + n_sets, space.t1 = space.t0 + n_sets;
  for (int i = threadIdx.x; i < n_sums; i += THREADS) space.sums[i] = 0;
  set_harmonic(powers);
  __syncthreads();
  for (int i = 0; i < subtree.n_leaves; ++i) {
    const SubtreeLeaf leaf = leaves_of[subtree.first_leaf + i];
    count_sets(subtree, leaf, unmet, count, space);
    make_leaf_tables(leaf.n_positions, total, points, powers, space);
    const double value = leaves[static_cast<long long>(leaf.leaf) * n_components + component];
    add_leaf(subtree, leaf, value, unmet, leaf_lanes, space);
    __syncthreads();
  }
  write_table(subtree, space.sums, tables + component * component_size + subtree.table);
}
