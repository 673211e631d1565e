// Counts of a key become the positions at which each tile's rows of that key begin. A block scans one key.
#include "reference/grow/cuda/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    scan_keys_kernel(const int64_t* __restrict__ key_starts, int n_tiles, int* __restrict__ tile_counts) {
  __shared__ int warps[kBlockThreads / 32];
  int* counts = tile_counts + int64_t(blockIdx.x) * n_tiles;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int before = int(key_starts[blockIdx.x]);
  for (int first = 0; first < n_tiles; first += kBlockThreads) {
    const int at = first + int(threadIdx.x), count = at < n_tiles ? counts[at] : 0;
    int sum = count;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_sync(0xffffffffu, sum, (lane - step) & 31);
      if (lane >= step) sum += other;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    int total = 0;
    for (int w = 0; w < kBlockThreads / 32; ++w) {
      if (w == warp) sum += total;
      total += warps[w];
    }
    if (at < n_tiles) counts[at] = before + sum - count;
    before += total;
    __syncthreads();
  }
}

}  // namespace glasswood
