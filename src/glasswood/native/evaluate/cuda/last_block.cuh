// The last of several blocks to finish goes on alone.
#pragma once

namespace glasswood {

// Whether this block is the last of `n_blocks` to come here, and sees what the others wrote. `arrivals` starts at 0 and
// is 0 again afterwards.
__device__ __forceinline__ bool is_last_block(unsigned* arrivals, unsigned n_blocks) {
  __shared__ bool last;
  if (n_blocks == 1) {
    __syncthreads();
    return true;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(arrivals, n_blocks - 1) == n_blocks - 1;
  __syncthreads();
  __threadfence();
  return last;
}

}  // namespace glasswood
