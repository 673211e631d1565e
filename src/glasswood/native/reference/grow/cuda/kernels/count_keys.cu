// How often each key, `kKeyBits` of a leaf's number, occurs in each tile of rows.
#include "reference/grow/cuda/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    count_keys_kernel(const unsigned short* __restrict__ leaves, int64_t n_rows, int shift, int n_keys, int n_tiles,
                      int* __restrict__ tile_counts) {
  __shared__ int counts[kKeys];
  for (int key = threadIdx.x; key < n_keys; key += kBlockThreads) counts[key] = 0;
  __syncthreads();
  const int64_t first = int64_t(blockIdx.x) * kKeyTile;
  for (int i = threadIdx.x; i < kKeyTile && first + i < n_rows; i += kBlockThreads)
    atomicAdd(&counts[leaves[first + i] >> shift & (kKeys - 1)], 1);
  __syncthreads();
  for (int key = threadIdx.x; key < n_keys; key += kBlockThreads)
    tile_counts[int64_t(key) * n_tiles + blockIdx.x] = counts[key];
}

}  // namespace glasswood
