// GPUTreeShap's kernel (Mitchell, Frank, Holmes 2022, sections 3.4 and 3.5): a warp holds a bin of paths, a lane one
// path element, and takes ROWS rows at a time. EXTEND is algorithm 2, UNWOUNDSUM algorithm 3 of the paper.
//
// Results are summed as integers, scaled by a power of two: integer addition is associative, so that atomics in any
// order give the same bits. The scale keeps the sum of all |v| below 2^61; sums wrap on the way without harm.
//
// Macros: REAL, CODE, ROWS, PAIRS.
#include "explain/cuda/leaf_format.h"

using Real = REAL;
using Code = CODE;

namespace glasswood {

constexpr int WARP = 32, BLOCK = 256;
constexpr int NONE = WARP;  // no element is removed
constexpr unsigned ALL = 0xffffffffu;

// The tests of an element: one, and those on other columns of its feature.
struct Tests {
  PathTest first;
  int more, n_more;  // into `extra`

  // Does each row from `row` on satisfy them: 1 or 0.
  __device__ __forceinline__ void ask(const Code* codes, long long stride, int row, const PathTest* extra,
                                      Real (&one)[ROWS]) const {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const unsigned code = codes[first.column * stride + row + r];
      one[r] = code - unsigned(first.lower) < first.width;
    }
    for (int k = 0; k < n_more; ++k) {
      const PathTest other = extra[more + k];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const unsigned code = codes[other.column * stride + row + r];
        one[r] *= code - unsigned(other.lower) < other.width;
      }
    }
  }
};

struct Element {
  Real z, inverse_z, value;
  Real one[ROWS];         // does the row satisfy the element's tests: 1 or 0
  int first, rank, size;  // lane of the path's root, place in the path, number of elements
};

// The path without its element `removed`: removed and last element change places, the path ends before the
// last. The lane of the element at a place:
__device__ __forceinline__ int lane_at(const Element& e, int removed, int place) {
  return e.first + (place == removed ? e.size - 1 : place);
}

// Sum of the permutation weights of the lane's element, for each row; as UNWIND after EXTEND of all elements.
__device__ __forceinline__ void unwound_sums(const Element& e, int removed, int longest, const Real* inverses,
                                             Real (&sums)[ROWS]) {
  const bool all = removed == NONE;
  const int place = all ? e.rank : e.rank == removed ? e.size - 1 : e.rank == e.size - 1 ? removed : e.rank;
  const int size = all ? e.size : e.size - 1;
  unsigned ones[ROWS];
  Real w[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    ones[r] = __ballot_sync(ALL, e.one[r] != 0);
    w[r] = place == 0 ? 1 : 0;
  }
  for (int depth = 1; depth < longest; ++depth) {
    const int source = lane_at(e, removed, depth) & (WARP - 1), left = lane_at(e, removed, place - 1) & (WARP - 1);
    const Real z = __shfl_sync(ALL, e.z, source), unit = inverses[depth + 1];
    const Real stays = z * Real(depth - place) * unit, comes = Real(place) * unit;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const Real from_left = __shfl_sync(ALL, w[r], left);
      const Real one = ones[r] >> source & 1 ? comes : Real(0);
      const Real extended = place == 0 ? w[r] * stays : w[r] * stays + from_left * one;
      w[r] = depth < size ? extended : w[r];
    }
  }
  const int last = size - 1;
  const Real a = Real(size), b = e.z * inverses[size], c = Real(size) * e.inverse_z;
  Real next[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    next[r] = __shfl_sync(ALL, w[r], lane_at(e, removed, last) & (WARP - 1));
    sums[r] = 0;
  }
  for (int j = longest - 2; j >= 0; --j) {
    const int source = lane_at(e, removed, j) & (WARP - 1);
    const bool in_path = j < last;
    const Real up = a * inverses[j + 1], down = b * Real(last - j), cold = in_path ? c * inverses[last - j] : Real(0);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const Real w_j = __shfl_sync(ALL, w[r], source);
      const Real step = next[r] * up;
      if (in_path) {
        sums[r] += e.one[r] != 0 ? step : w_j * cold;
        next[r] = w_j - step * down;
      }
    }
  }
}

__device__ __forceinline__ void add_exact(unsigned long long* sum, Real value, Real scale) {
  atomicAdd(sum, static_cast<unsigned long long>(__double2ll_rn(double(value) * double(scale))));
}

// Where the rows of a warp are summed.
struct Sums {
  unsigned long long* first;
  long long row_size;
  int n_rows;
  Real scale;

  __device__ __forceinline__ void add(int r, long long target, Real value) const {
    if (r < n_rows) add_exact(first + r * row_size + target, value, scale);
  }
};

__device__ __forceinline__ void add_values(const Element& e, int longest, const Real* inverses, bool wanted,
                                           long long target, const Sums& sums) {
  Real found[ROWS];
  unwound_sums(e, NONE, longest, inverses, found);
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    if (wanted) sums.add(r, target, found[r] * (e.one[r] - e.z) * e.value);
}

#if PAIRS
// Conditioning on an element: present and absent differ by the factor one - z. `line` is where the interactions of the
// lane's feature are summed.
__device__ __forceinline__ void add_pairs(const Element& e, int longest, const Real* inverses, int entry, bool wanted,
                                          long long line, const Sums& sums) {
  for (int removed = 1; removed < longest; ++removed) {
    const int lane_removed = (e.first + removed) & (WARP - 1);
    const int other = __shfl_sync(ALL, entry, lane_removed);
    const Real z = __shfl_sync(ALL, e.z, lane_removed);
    const bool in_path = removed < e.size;
    Real found[ROWS];
    unwound_sums(e, in_path ? removed : NONE, longest, inverses, found);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const Real one = __shfl_sync(ALL, e.one[r], lane_removed);
      const Real phi = Real(0.5) * found[r] * (e.one[r] - e.z) * (one - z) * e.value;
      if (in_path && wanted && e.rank != removed) sums.add(r, line + other, phi);
    }
  }
}
#endif

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(glasswood::BLOCK)
    explain_paths_kernel(const Real* __restrict__ zs, const Real* __restrict__ values,
                         const glasswood::PathTest* __restrict__ tests, const int* __restrict__ entries,
                         const int* __restrict__ places, const int* __restrict__ extra_begin,
                         const int* __restrict__ extra_count, const glasswood::PathTest* __restrict__ extra,
                         const long long* __restrict__ bin_starts, int n_bins, const Code* __restrict__ codes,
                         long long stride, int n_rows, int rows_per_warp, const int* __restrict__ position,
                         int n_features, int n_outputs, long long row_size, double scale,
                         unsigned long long* __restrict__ sums) {
  using namespace glasswood;
  __shared__ Real inverses[WARP + 2];
  for (int i = threadIdx.x; i < WARP + 2; i += BLOCK) inverses[i] = i ? Real(1) / Real(i) : Real(0);
  __syncthreads();
  const long long warp = (blockIdx.x * static_cast<long long>(BLOCK) + threadIdx.x) / WARP;
  const int lane = threadIdx.x % WARP, n_groups = (n_rows + rows_per_warp - 1) / rows_per_warp;
  // Neighbours take other rows of the same bin: warps of the same rows would wait for each other's atomics.
  const int bin = int(warp / n_groups), first_row = int(warp % n_groups) * rows_per_warp;
  if (bin >= n_bins) return;
  const int end_row = min(n_rows, first_row + rows_per_warp);
  const long long at = bin_starts[bin] + lane;
  const bool is_active = at < bin_starts[bin + 1];
  Element e{Real(1), Real(0), Real(0), {}, lane, 0, 1};
  Tests mine{{0, 0, 0}, 0, 0};
  int entry = -1;
  if (is_active) {
    e.z = zs[at];
    e.inverse_z = e.z > 0 ? Real(1) / e.z : Real(0);
    e.value = values[at];
    e.rank = places[at] & 255;
    e.size = places[at] >> 8;
    e.first = lane - e.rank;
    entry = entries[at];
    mine = {tests[at], extra_begin[at], extra_count[at]};
  }
  int longest = e.size;
  for (int step = WARP / 2; step > 0; step /= 2) longest = max(longest, __shfl_xor_sync(ALL, longest, step));
#if PAIRS
  const int feature = entry < 0 ? -1 : entry / n_outputs, chosen = feature < 0 ? -1 : position[feature];
  const long long line = static_cast<long long>(chosen) * n_features * n_outputs;
  const bool wanted = chosen >= 0;
#else
  const long long line = 0;
  const bool wanted = entry >= 0;
#endif
  for (int row = first_row; row < end_row; row += ROWS) {
    const Sums target{sums + row * row_size, row_size, end_row - row, Real(scale)};
    mine.ask(codes, stride, row, extra, e.one);
    add_values(e, longest, inverses, wanted, line + entry, target);
#if PAIRS
    add_pairs(e, longest, inverses, entry, wanted, line, target);
#endif
  }
}
