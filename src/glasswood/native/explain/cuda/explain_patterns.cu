// SHAP values and interactions against a background leaf by leaf, over the patterns of
// explain/cuda/collect_patterns.cu, by the formula of explain/patterns/pattern_game.h.
//
// A warp takes a tile of 32 rows and a chunk of leaves. A lane finds the set Z of its row at a leaf. Then lanes hold
// patterns, and the rows come one after the other: patterns that share no position with Z are few. For each of those,
// lanes stand for positions and add what its positions gain.
//
// Macros: those of explain/cuda/pattern_set.cuh, PAIRS (interactions), SHARED (sums in shared memory).
#include "explain/cuda/pattern_set.cuh"

namespace glasswood {

constexpr int WARPS = 4, WARP = 32;
constexpr int HELD = WORDS == 1 ? 4 : WORDS == 2 ? 2 : 1;                       // patterns that a lane holds
constexpr int MIN_BLOCKS = WORDS <= 2 ? (PAIRS ? 5 : 7) : WORDS <= 16 ? 3 : 1;  // registers for what is alive
constexpr unsigned ALL = 0xffffffffu;

__device__ __forceinline__ double sum_of_lanes(double value) {
#pragma unroll
  for (int lanes = WARP / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(ALL, value, lanes);
  return value;
}

// a! b! / (a + b + 1)!
struct Betas {
  const double* at;
  int size;
  __device__ __forceinline__ double operator()(int a, int b) const { return at[a * size + b]; }
};

// Patterns in the lanes.
struct Held {
  PatternSet set[HELD];
  double share[HELD];
  int size[HELD];
  bool is_there[HELD];
};

__device__ __forceinline__ Held hold(const unsigned* __restrict__ sets, const double* __restrict__ shares, long long n,
                                     long long first) {
  Held held;
#pragma unroll
  for (int h = 0; h < HELD; ++h) {
    const long long at = first + h * WARP + threadIdx.x % WARP;
    held.is_there[h] = at < n;
#pragma unroll UNROLLED
    for (int w = 0; w < WORDS; ++w) held.set[h].word[w] = at < n ? sets[w * n + at] : 0;
    held.share[h] = at < n ? shares[at] : 0;
    held.size[h] = held.set[h].size();
  }
  return held;
}

// Sums of a tile's rows.
struct Sums {
  double* first;
  long long slot_step, row_step;
  int n_of_output;
  __device__ __forceinline__ double& at(long long slot, int row) const {
    return first[slot * slot_step + row * row_step];
  }
};

// What the patterns give a row at a leaf; lane l has the positions l, l + 32, ...
struct AtLeaf {
  PatternSet unmet;
  double phi[WORDS];
  double lost;  // of each position that the row does not meet
#if PAIRS
  double crossed[WORDS];  // of a position with each one that the row does not meet, halved
  double both_lost;       // of two that it does not meet, halved
#endif
};

struct Leaf {
  const int* places;
  const double* values;
  int n_positions, width;
};

__device__ __forceinline__ bool has(unsigned word) { return word >> threadIdx.x % WARP & 1; }

// Adds to the interaction of the lanes' positions, where `value` is not 0, with one that all lanes name.
__device__ __forceinline__ void add_pairs(const Leaf& leaf, const Sums& sums, int row, int word, double value,
                                          int with) {
  if (value == 0) return;
  const int a = leaf.places[word * WARP + threadIdx.x % WARP], b = leaf.places[with];
  const long long high = max(a, b), slot = high * (high + 1) / 2 + min(a, b);
  for (int o = 0; o < leaf.width; ++o) sums.at(o * sums.n_of_output + slot, row) += value * leaf.values[o];
}

// Patterns that the row does not share a position with, of those that the lanes hold.
__device__ __forceinline__ void play(const Held& held, const unsigned (&passing)[HELD], int n_unmet, const Betas& betas,
                                     const Leaf& leaf, const Sums& sums, int row, AtLeaf& now) {
#pragma unroll
  for (int h = 0; h < HELD; ++h) {
    if (!passing[h]) continue;
    const bool is_passing = has(passing[h]);
    const int k = held.size[h];
    const double share = is_passing ? held.share[h] : 0, gained = k > 0 ? share * betas(k - 1, n_unmet) : 0;
    if (n_unmet > 0) now.lost += share * betas(n_unmet - 1, k);
#if PAIRS
    const double both = k > 1 ? share * betas(k - 2, n_unmet) / 2 : 0;
    const double crossed = k > 0 && n_unmet > 0 ? share * betas(k - 1, n_unmet - 1) / 2 : 0;
    if (n_unmet > 1) now.both_lost += share * betas(n_unmet - 2, k) / 2;
#endif
    for (unsigned left = passing[h]; left; left &= left - 1) {
      const int lane = __ffs(int(left)) - 1;
      const double gain = __shfl_sync(ALL, gained, lane);
      const PatternSet set = held.set[h].of_lane(lane);
#pragma unroll UNROLLED
      for (int w = 0; w < WORDS; ++w) now.phi[w] += has(set.word[w]) ? gain : 0;
#if PAIRS
      const double cross = __shfl_sync(ALL, crossed, lane), pair = __shfl_sync(ALL, both, lane);
#pragma unroll UNROLLED
      for (int w = 0; w < WORDS; ++w) now.crossed[w] += has(set.word[w]) ? cross : 0;
      for (int v = 0; v < WORDS; ++v)
        for (unsigned rest = set.word[v]; rest; rest &= rest - 1) {
          const int with = v * WARP + __ffs(int(rest)) - 1;
#pragma unroll UNROLLED
          for (int w = 0; w < WORDS; ++w)
            add_pairs(leaf, sums, row, w, has(set.word[w]) && w * WARP + int(threadIdx.x % WARP) > with ? pair : 0,
                      with);
        }
#endif
    }
  }
}

// Adds what the leaf gives the row to its sums.
__device__ __forceinline__ void close(const Leaf& leaf, const Sums& sums, int row, const AtLeaf& now) {
  const double lost = sum_of_lanes(now.lost);
#pragma unroll UNROLLED
  for (int w = 0; w < WORDS; ++w) {
    const int position = w * WARP + threadIdx.x % WARP;
    const double value = has(now.unmet.word[w]) ? -lost : now.phi[w];
    if (position >= leaf.n_positions || value == 0) continue;
    const long long place = leaf.places[position], slot = PAIRS ? place * (place + 3) / 2 : place;
    for (int o = 0; o < leaf.width; ++o) sums.at(o * sums.n_of_output + slot, row) += value * leaf.values[o];
  }
#if PAIRS
  const double both_lost = sum_of_lanes(now.both_lost);
  for (int v = 0; v < WORDS; ++v)
    for (unsigned rest = now.unmet.word[v]; rest; rest &= rest - 1) {
      const int with = v * WARP + __ffs(int(rest)) - 1;
#pragma unroll UNROLLED
      for (int w = 0; w < WORDS; ++w) {
        const bool is_unmet = has(now.unmet.word[w]), comes_after = w * WARP + int(threadIdx.x % WARP) > with;
        add_pairs(leaf, sums, row, w, !is_unmet ? -now.crossed[w] : comes_after ? both_lost : 0, with);
      }
    }
#endif
}

// All rows of a tile at a leaf.
__device__ __forceinline__ void explain(const Leaf& leaf, const Sums& sums, int n_rows, const PatternSet& mine,
                                        const unsigned* __restrict__ sets, const double* __restrict__ shares,
                                        long long n_patterns, const Betas& betas) {
  const int my_size = mine.size();
  for (long long first = 0; first < n_patterns; first += HELD * WARP) {
    const Held held = hold(sets, shares, n_patterns, first);
    for (int row = 0; row < n_rows; ++row) {
      AtLeaf now = {mine.of_lane(row)};
      unsigned passing[HELD], any = 0;
#pragma unroll
      for (int h = 0; h < HELD; ++h) {
        passing[h] = __ballot_sync(ALL, held.is_there[h] && !held.set[h].shares_any(now.unmet));
        any |= passing[h];
      }
      if (!any) continue;
      play(held, passing, __shfl_sync(ALL, my_size, row), betas, leaf, sums, row, now);
      close(leaf, sums, row, now);
    }
    __syncwarp();
  }
}

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(glasswood::WARPS* glasswood::WARP, glasswood::MIN_BLOCKS)
    explain_patterns_kernel(const glasswood::PatternLeaf* __restrict__ leaves,
                            const glasswood::PatternTest* __restrict__ tests, const int* __restrict__ places,
                            const double* __restrict__ values, int width, const int* __restrict__ chunk_starts,
                            const long long* __restrict__ slot_offsets, const long long* __restrict__ pattern_starts,
                            long long first_pattern, const unsigned* __restrict__ sets,
                            const double* __restrict__ shares, const double* __restrict__ betas, int n_betas,
                            const CODE* __restrict__ codes, int n_rows, long long stride, int n_tiles,
                            double* __restrict__ partial) {
  using namespace glasswood;
  extern __shared__ double memory[];
  const int n_warps = blockDim.x / WARP, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  const int n_groups = (n_tiles + n_warps - 1) / n_warps, chunk = blockIdx.x / n_groups;
  const int tile = (blockIdx.x - chunk * n_groups) * n_warps + warp, first_row = tile * WARP;
  if (tile >= n_tiles) return;
  const int n_slots = int(slot_offsets[chunk + 1] - slot_offsets[chunk]);
  double* const result = partial + slot_offsets[chunk] * stride + first_row;
  Sums sums = {result, stride, 1, n_slots / width};
#if SHARED
  sums.row_step = n_slots | 1, sums.slot_step = 1;  // lanes of a row or of a slot have banks of their own
  sums.first = memory + warp * WARP * sums.row_step;
#endif
  for (int slot = 0; slot < n_slots; ++slot) sums.at(slot, lane) = 0;
  __syncwarp();
  for (int at = chunk_starts[chunk]; at < chunk_starts[chunk + 1]; ++at) {
    const PatternLeaf leaf = leaves[at];
    const long long begin = pattern_starts[at] - first_pattern;
    const Leaf game = {places + leaf.first_place, values + at * static_cast<long long>(width), leaf.n_positions, width};
    explain(game, sums, min(WARP, n_rows - first_row), find_set(leaf, tests, codes + first_row + lane, stride),
            sets + begin * WORDS, shares + begin, pattern_starts[at + 1] - pattern_starts[at], {betas, n_betas});
  }
#if SHARED
  for (int slot = 0; slot < n_slots; ++slot) result[slot * stride + lane] = sums.at(slot, lane);
#endif
}
