// One pass of a radix sort: brings rows of a key together, in the order in which they stood. Without a list the rows
// stand in their own order.
#include "reference/grow/cuda/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    separate_kernel(const unsigned short* __restrict__ leaves, const int* __restrict__ list, int64_t n_rows, int shift,
                    int n_keys, int n_tiles, const int* __restrict__ tile_starts,
                    unsigned short* __restrict__ sorted_leaves, int* __restrict__ sorted_rows) {
  constexpr int WARPS = kBlockThreads / 32, PER_WARP = kKeyTile / WARPS;
  constexpr unsigned ALL = 0xffffffffu;
  __shared__ int places[WARPS][kKeys];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t first = int64_t(blockIdx.x) * kKeyTile + warp * PER_WARP;
  for (int key = lane; key < n_keys; key += 32) places[warp][key] = 0;
  __syncwarp();
  for (int i = lane; i < PER_WARP; i += 32) {
    const int key = first + i < n_rows ? leaves[first + i] >> shift & (kKeys - 1) : -1;
    const unsigned same = __match_any_sync(ALL, key);
    if (key >= 0 && lane == __ffs(same) - 1) places[warp][key] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
  for (int key = threadIdx.x; key < n_keys; key += kBlockThreads) {
    int start = tile_starts[int64_t(key) * n_tiles + blockIdx.x];
    for (int w = 0; w < WARPS; ++w) {
      const int count = places[w][key];
      places[w][key] = start;
      start += count;
    }
  }
  __syncthreads();
  for (int i = lane; i < PER_WARP; i += 32) {
    const int64_t at = first + i;
    const unsigned short leaf = at < n_rows ? leaves[at] : (unsigned short)0;
    const int key = at < n_rows ? leaf >> shift & (kKeys - 1) : -1;
    const unsigned same = __match_any_sync(ALL, key), before = same & ((1u << lane) - 1);
    if (key >= 0) {
      const int to = places[warp][key] + __popc(before);
      sorted_leaves[to] = leaf;
      sorted_rows[to] = list ? list[at] : int(at);
    }
    __syncwarp();
    if (key >= 0 && before == 0) places[warp][key] += __popc(same);
    __syncwarp();
  }
}

}  // namespace glasswood
