// Triangles of parts of tall matrices: a block reflects tile after tile of its part onto one triangle
// (reference/grow/householder.h). A warp owns a column within each step, so that a step needs one barrier.
#include "reference/grow/cuda/kernels/warp_sum.cuh"
#include "reference/grow/cuda/records.h"

namespace glasswood {

constexpr int kMostSide = 128, WARPS_OF_TILE = kBlockThreads / 32;

__device__ __forceinline__ void load_tile(const QrLevel& level, int64_t first, int used, int rows, int height,
                                          double* tile) {
  const int side = level.n_columns + 1;
  for (int e = threadIdx.x; e < side * rows; e += kBlockThreads) {
    const int j = e / rows, i = e % rows;
    tile[j * height + i] = i < used ? level.entries[(first + i) * level.row_step + j * level.column_step] : 0;
  }
}

// A step of a tile: its column x, and row k of the triangle above it, whose diagonal is alpha.
struct Step {
  const double* x;
  double *tile, *above;
  double alpha;
  int side, rows, height;
};

// Reflects the columns j, j + WARPS, ..., N of them if there are as many: x is read once for all, and their sums
// wait for one another's shuffles. The first call of a step finds the reflection; false if x is 0.
template <int N>
__device__ __forceinline__ bool reflect_columns(const Step& step, int j, bool is_first, Reflection& r) {
  const int lane = threadIdx.x % 32;
  double* columns[N];
  double sums[N + 1] = {}, above[N];  // read before the shuffles, written behind them
#pragma unroll
  for (int c = 0; c < N; ++c) {
    const int at = j + c * WARPS_OF_TILE < step.side ? j + c * WARPS_OF_TILE : j;
    columns[c] = step.tile + at * step.height;
    above[c] = step.above[at];
  }
#pragma unroll 2
  for (int i = lane; i < step.rows; i += 32) {
    const double x = step.x[i];
    sums[N] += product(x, x);
#pragma unroll
    for (int c = 0; c < N; ++c) sums[c] += product(x, columns[c][i]);
  }
  add_lanes(sums);
  if (sums[N] == 0) return false;
  if (is_first) r = reflection(step.alpha, sums[N]);
  double factors[N];
#pragma unroll
  for (int c = 0; c < N; ++c) {
    const int at = j + c * WARPS_OF_TILE;
    const double weight = r.weight(above[c], sums[c]);
    factors[c] = r.factor(weight);
    if (lane == 0 && at < step.side) step.above[at] = above[c] - weight;
  }
#pragma unroll 2
  for (int i = lane; i < step.rows; i += 32) {
    const double x = step.x[i];
#pragma unroll
    for (int c = 0; c < N; ++c)
      if (j + c * WARPS_OF_TILE < step.side) columns[c][i] -= product(factors[c], x);
  }
  return true;
}

// Step k by all warps; returns what the diagonal becomes, in the first warp.
__device__ __forceinline__ double reflect_step(const Step& step, int k) {
  const int begin = k + 1 + int(threadIdx.x) / 32;
  Reflection r{};
  for (int j = begin; j < step.side; j += 4 * WARPS_OF_TILE) {
    const int left = (step.side - j + WARPS_OF_TILE - 1) / WARPS_OF_TILE;
    const bool goes_on = left > 2   ? reflect_columns<4>(step, j, j == begin, r)
                         : left > 1 ? reflect_columns<2>(step, j, j == begin, r)
                                    : reflect_columns<1>(step, j, j == begin, r);
    if (!goes_on) return step.alpha;
  }
  return r.diagonal;
}

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    factorise_kernel(const QrLevel* __restrict__ levels, int n_levels) {
  __shared__ double tile[kTileDoubles];
  __shared__ double diagonals[2][kMostSide];
  const QrLevel level = levels[record_of(levels, n_levels, &QrLevel::first_block, blockIdx.x)];
  const int side = level.n_columns + 1, height = tile_rows(side);
  const int64_t part = int(blockIdx.x) - level.first_block;
  const int64_t begin = part * block_rows(side), last = begin + block_rows(side);
  const int64_t end = last < level.rows ? last : level.rows;
  double* triangle = level.triangles + part * level.n_columns * side;
  for (int e = threadIdx.x; e < level.n_columns * side; e += kBlockThreads) triangle[e] = 0;
  for (int k = threadIdx.x; k < level.n_columns; k += kBlockThreads) diagonals[0][k] = 0;
  int turn = 0;
  for (int64_t first = begin; first < end; first += height, turn ^= 1) {
    const int used = int(end - first < height ? end - first : height);
    const int rows = (used + kSumLanes - 1) / kSumLanes * kSumLanes;
    __syncthreads();
    load_tile(level, first, used, rows, height, tile);
    __syncthreads();
    for (int k = 0; k < level.n_columns; ++k) {
      const double alpha = diagonals[turn][k];
      const double diagonal =
          reflect_step({tile + k * height, tile, triangle + k * side, alpha, side, rows, height}, k);
      if (threadIdx.x == 0) diagonals[turn ^ 1][k] = diagonal;
      __syncthreads();
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < level.n_columns; k += kBlockThreads) triangle[k * side + k] = diagonals[turn][k];
}

}  // namespace glasswood
