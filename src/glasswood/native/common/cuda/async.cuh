// What a kernel starts and does not wait for: copies to shared memory, and the next launch.
#pragma once

namespace glasswood {

// Copies 16 bytes from global to shared memory.
__device__ __forceinline__ void copy_chunk(uint4* target, const uint4* source) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(target));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(source) : "memory");
#else
  *target = *source;
#endif
}

// Ends a group of copies.
__device__ __forceinline__ void end_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all of this thread's copies but those of the last `pending` groups.
template <int pending>
__device__ __forceinline__ void await_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

// Launches that begin while the one before them in their stream is still at work (programmatic dependent launch), on
// GPUs that can do so; elsewhere each begins when the last has ended, and both functions do nothing.

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

}  // namespace glasswood
