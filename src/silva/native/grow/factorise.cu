// Triangles of parts of tall matrices: a block reflects tile after tile of its part onto one triangle
// (grow/householder.h). A warp owns a column within each step, so that a step needs one barrier.
#include "grow/qr_tasks.h"
#include "grow/warp_sum.h"

namespace silva {

constexpr int kMostSide = 128;

__device__ __forceinline__ void load_tile(const QrLevel& level, int64_t first, int used, int rows, int height,
                                          double* tile) {
  const int side = level.n_columns + 1;
  for (int e = threadIdx.x; e < side * rows; e += kBlockThreads) {
    const int j = e / rows, i = e % rows;
    tile[j * height + i] = i < used ? level.entries[(first + i) * level.row_step + j * level.column_step] : 0;
  }
}

// Step k of a tile: alphas are the triangle's diagonal before the tile, diagonal what it becomes.
__device__ __forceinline__ void reflect_columns(int k, int side, int rows, int height, double* tile, double* triangle,
                                                const double* alphas, double* diagonal) {
  const double* x = tile + k * height;
  const double sigma = warp_sum(rows, [&](int64_t i) { return product(x[i], x[i]); });
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (sigma == 0) {
    if (threadIdx.x == 0) diagonal[k] = alphas[k];
    return;
  }
  const Reflection r = reflection(alphas[k], sigma);
  if (threadIdx.x == 0) diagonal[k] = r.diagonal;
  for (int j = k + 1 + warp; j < side; j += kBlockThreads / 32) {
    double* column = tile + j * height;
    const double above = triangle[k * side + j];
    const double weight = r.weight(above, warp_sum(rows, [&](int64_t i) { return product(x[i], column[i]); }));
    const double factor = weight / r.u;
    if (lane == 0) triangle[k * side + j] = above - weight;
    for (int i = lane; i < rows; i += 32) column[i] -= product(factor, x[i]);
  }
}

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    grow_factorise_kernel(const QrLevel* __restrict__ levels, int n_levels) {
  __shared__ double tile[kTileDoubles];
  __shared__ double diagonals[2][kMostSide];
  const QrLevel level = levels[request_of(levels, n_levels, &QrLevel::first_block, blockIdx.x)];
  const int side = level.n_columns + 1, height = tile_rows(side);
  const int64_t part = int(blockIdx.x) - level.first_block;
  const int64_t begin = part * part_rows(side), last = begin + part_rows(side);
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
      reflect_columns(k, side, rows, height, tile, triangle, diagonals[turn], diagonals[turn ^ 1]);
      __syncthreads();
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < level.n_columns; k += kBlockThreads) triangle[k * side + k] = diagonals[turn][k];
}

}  // namespace silva
