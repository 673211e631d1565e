// The leaf of every row, and how many rows each leaf has.
#include "reference/grow/cuda/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    redistribute_kernel(GpuRows rows, const RouteNode* __restrict__ nodes, int n_leaves,
                        unsigned short* __restrict__ leaves, int* __restrict__ counts) {
  __shared__ int found[kCountedLeaves];
  const bool counts_here = n_leaves <= kCountedLeaves;
  for (int leaf = threadIdx.x; leaf < n_leaves && counts_here; leaf += kBlockThreads) found[leaf] = 0;
  __syncthreads();
  const int64_t first = int64_t(blockIdx.x) * kKeyTile;
  for (int i = threadIdx.x; i < kKeyTile && first + i < rows.n_rows; i += kBlockThreads) {
    const int leaf = slot_of(rows, nodes, first + i);
    leaves[first + i] = (unsigned short)leaf;
    atomicAdd(counts_here ? &found[leaf] : &counts[leaf], 1);
  }
  __syncthreads();
  for (int leaf = threadIdx.x; leaf < n_leaves && counts_here; leaf += kBlockThreads)
    if (found[leaf]) atomicAdd(&counts[leaf], found[leaf]);
}

}  // namespace glasswood
