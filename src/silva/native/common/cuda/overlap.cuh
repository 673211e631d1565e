// Launches that begin while the one before them in their stream is still at work (programmatic dependent launch), on
// GPUs that can do so; elsewhere each begins when the last has ended, and both functions do nothing.
#pragma once

namespace silva {

// The next launch may begin as soon as all blocks of this one have come here or ended. What they write afterwards it
// sees none the less: it waits for their end before it reads.
__device__ __forceinline__ void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until the launch before this one has ended and what it wrote is there.
__device__ __forceinline__ void await_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace silva
