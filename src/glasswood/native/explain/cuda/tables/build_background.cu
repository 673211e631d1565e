// Fills the tables of subtrees with the game against background rows: a block fills one, for one component of the
// leaves, leaf after leaf, in float64. The maths is that of explain/tables/leaf_games/leaf_tables.h.
//
// Macros: REAL, PAIRS (tables of interactions).
#include "explain/cuda/tables/leaf_games.cuh"

namespace glasswood {

// Powers at a point: [k] t^(k - 1), 0 for k = 0; [z] w (1 - t)^z; and, at none, [z] 1 + 1/2 + ... + 1/z.
struct Powers {
  double known[MOST_POSITIONS + 1], unknown[MOST_POSITIONS + 1], harmonic[MOST_POSITIONS + 1];
};

struct LeafSpace {
  double* sums;               // [state][number]
  unsigned long long* count;  // [set]: background rows that meet it and nothing else; signed where weights are
  double *e, *t0, *t1;        // [set]
#if PAIRS
  double *t2, *last;  // last: share of background rows that miss one condition
#endif

  __device__ __forceinline__ LeafSpace(char* memory, int n_sums, int n_sets) {
    sums = reinterpret_cast<double*>(memory);
    count = reinterpret_cast<unsigned long long*>(sums + n_sums);
    e = reinterpret_cast<double*>(count + n_sets);
    t0 = e + n_sets, t1 = t0 + n_sets;
#if PAIRS
    t2 = t1 + n_sets, last = t2 + n_sets;
#endif
  }
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

// The share of the background's weight that meets a set.
__device__ __forceinline__ double share_of(const LeafSpace& space, int set, double total) {
  return double(static_cast<long long>(space.count[set])) / total;
}

// x[Y] becomes the sum over the supersets of Y.
__device__ __forceinline__ void sum_supersets(double* x, int n_sets) {
  for (int bit = 1; bit < n_sets; bit *= 2) {
    for (int i = threadIdx.x; i < n_sets / 2; i += THREADS) {
      const int set = (i & ~(bit - 1)) * 2 + (i & (bit - 1));
      x[set] += x[set + bit];
    }
    __syncthreads();
  }
}

// For each point: e, sums over supersets of shares times power(number of conditions that are not met), then add(set).
template <class Power, class Add>
__device__ __forceinline__ void integrate(int n_positions, double total, const Quadratures& points, Powers& powers,
                                          const LeafSpace& space, const Power& power, const Add& add) {
  const int kind = n_positions <= 4 ? 0 : n_positions <= 8 ? 1 : 2, n_points = 2 << kind, n_sets = 1 << n_positions;
  for (int q = 0; q < n_points; ++q) {
    set_powers(powers, points.t[kind][q], points.weight[kind][q]);
    __syncthreads();
    for (int set = threadIdx.x; set < n_sets; set += THREADS)
      space.e[set] = power(n_positions - __popc(set)) * share_of(space, set, total);
    __syncthreads();
    sum_supersets(space.e, n_sets);
    for (int set = threadIdx.x; set < n_sets; set += THREADS) add(set);
    __syncthreads();
  }
}

// |Y| - u, at least 0.
__device__ __forceinline__ int size_without(int set, int u) { return max(__popc(set) - u, 0); }

// T_0 and T_1 of the leaf, of weight 1.
__device__ __forceinline__ void make_value_tables(int n_positions, double total, const Quadratures& points,
                                                  Powers& powers, const LeafSpace& space) {
  const int n_sets = 1 << n_positions;
  const double full = share_of(space, n_sets - 1, total);
  for (int set = threadIdx.x; set < n_sets; set += THREADS) {
    space.t0[set] = -full * powers.harmonic[size_without(set, 0)];
    space.t1[set] = -full * powers.harmonic[size_without(set, 1)];
  }
  integrate(
      n_positions, total, points, powers, space, [&](int k) { return powers.known[k]; },
      [&](int set) {
        space.t0[set] += space.e[set] * powers.unknown[size_without(set, 0)];
        space.t1[set] += space.e[set] * powers.unknown[size_without(set, 1)];
      });
}

__device__ __forceinline__ void add_values(const TableSubtree& subtree, const SubtreeLeaf& leaf, double value,
                                           const unsigned short* __restrict__ unmet,
                                           const unsigned char* __restrict__ lanes, const Names& names,
                                           const LeafSpace& space) {
  const int n_states = subtree.n_cells << subtree.n_above;
  for (int i = threadIdx.x; i < n_states * leaf.n_positions; i += THREADS) {
    const int state = i / leaf.n_positions, position = i - state * leaf.n_positions;
    const unsigned set = unmet_of(subtree, leaf, unmet, state);
    space.sums[state * names.n + names.diagonal(lanes[leaf.first_lane + position])] +=
        value * (space.t0[set] - space.t1[set | 1u << position]);
  }
}

#if PAIRS
// T_0, T_1 and T_2 of interactions.
__device__ __forceinline__ void make_pair_tables(int n_positions, double total, const Quadratures& points,
                                                 Powers& powers, const LeafSpace& space) {
  const int n_sets = 1 << n_positions;
  for (int set = threadIdx.x; set < n_sets; set += THREADS)
    space.last[set] = n_positions - __popc(set) == 1 ? share_of(space, set, total) : 0;
  __syncthreads();
  sum_supersets(space.last, n_sets);
  const double full = share_of(space, n_sets - 1, total);
  double* const t[3] = {space.t0, space.t1, space.t2};
  for (int set = threadIdx.x; set < n_sets; set += THREADS)
    for (int u = 0; u < 3; ++u) {
      const int z = size_without(set, u);
      t[u][set] = full * z * (powers.harmonic[z] - 1) - powers.harmonic[z] * space.last[set];
    }
  integrate(
      n_positions, total, points, powers, space, [&](int k) { return k ? powers.known[k - 1] : 0; },
      [&](int set) {
        for (int u = 0; u < 3; ++u) t[u][set] += space.e[set] * powers.unknown[size_without(set, u)];
      });
}

// Halves of interactions.
__device__ __forceinline__ void add_pairs(const TableSubtree& subtree, const SubtreeLeaf& leaf, double value,
                                          const unsigned short* __restrict__ unmet,
                                          const unsigned char* __restrict__ lanes, const Names& names,
                                          const LeafSpace& space) {
  const int n_states = subtree.n_cells << subtree.n_above, n = leaf.n_positions;
  for (int i = threadIdx.x; i < n_states * n * n; i += THREADS) {
    const int state = i / (n * n), p = i / n % n, q = i % n;
    if (p >= q) continue;
    const unsigned set = unmet_of(subtree, leaf, unmet, state), first = 1u << p, second = 1u << q;
    const int a = lanes[leaf.first_lane + p], b = lanes[leaf.first_lane + q];
    space.sums[state * names.n + names.pair(min(a, b), max(a, b))] +=
        value / 2 * (space.t0[set] - space.t1[set | first] - space.t1[set | second] + space.t2[set | first | second]);
  }
}
#endif

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    build_background_kernel(const glasswood::TableSubtree* __restrict__ subtrees, const int* __restrict__ chosen,
                            const glasswood::SubtreeLeaf* __restrict__ leaves_of,
                            const unsigned char* __restrict__ leaf_lanes, const unsigned short* __restrict__ unmet,
                            const double* __restrict__ leaves, const unsigned long long* __restrict__ count,
                            double total, int n_components, const __grid_constant__ glasswood::Quadratures points,
                            long long component_size, char* __restrict__ scratch, long long scratch_size,
                            REAL* __restrict__ tables) {
  using namespace glasswood;
  extern __shared__ uint4 shared[];
  __shared__ Powers powers;
  __shared__ Names names;
  const TableSubtree subtree = subtrees[chosen[blockIdx.x]];
  const int component = blockIdx.y;
  set_names(subtree, names);
  set_harmonic(powers);
  __syncthreads();
  const int n_sums = (subtree.n_cells << subtree.n_above) * names.n;
  char* const memory = scratch ? scratch + (static_cast<long long>(component) * gridDim.x + blockIdx.x) * scratch_size
                               : reinterpret_cast<char*>(shared);
  const LeafSpace space(memory, n_sums, 1 << subtree.most_positions);
  for (int i = threadIdx.x; i < n_sums; i += THREADS) space.sums[i] = 0;
  __syncthreads();
  for (int i = 0; i < subtree.n_leaves; ++i) {
    const SubtreeLeaf leaf = leaves_of[subtree.first_leaf + i];
    const double value = leaves[static_cast<long long>(leaf.leaf) * n_components + component];
    count_sets(subtree, leaf, unmet, count, space);
    make_value_tables(leaf.n_positions, total, points, powers, space);
    add_values(subtree, leaf, value, unmet, leaf_lanes, names, space);
    __syncthreads();
#if PAIRS
    make_pair_tables(leaf.n_positions, total, points, powers, space);
    add_pairs(subtree, leaf, value, unmet, leaf_lanes, names, space);
    __syncthreads();
#endif
  }
  write_table(subtree, names, space.sums, tables + component * component_size + subtree.table);
}
