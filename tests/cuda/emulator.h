// Enough of CUDA to run a kernel's own source on the CPU: a thread of a block is a fiber, barriers switch to the next.
// Blocks run one after the other, their shared memory filled with garbage first.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __restrict__
#define __grid_constant__

struct dim3 {
  unsigned x, y, z;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace emulator {

constexpr int WARP = 32, STACK = 1 << 16, SHARED_BYTES = 256 << 10;

struct Barrier {
  int alive = 0, arrived = 0;
  long generation = 0;
};

struct Fiber {
  ucontext_t context;
  dim3 thread;
  int number;
  bool done;
};

inline ucontext_t scheduler;
inline Fiber* current;
inline Barrier block;
inline std::vector<Barrier> warps;
inline std::vector<unsigned> votes;
inline dim3 blockIdx, gridDim, blockDim;
alignas(1024) inline unsigned char shared[SHARED_BYTES];
inline void (*body)(void**);
inline void** arguments;

inline void yield() { swapcontext(&current->context, &scheduler); }

inline void release(Barrier& barrier) {
  barrier.arrived = 0;
  ++barrier.generation;
}

inline void wait(Barrier& barrier) {
  const long generation = barrier.generation;
  if (++barrier.arrived == barrier.alive) return release(barrier);
  while (barrier.generation == generation) yield();
}

inline void leave(Barrier& barrier) {
  if (--barrier.alive == barrier.arrived && barrier.alive > 0) release(barrier);
}

inline void run_fiber() {
  body(arguments);
  current->done = true;
  leave(block);
  leave(warps[current->number / WARP]);
  yield();
}

inline void run_block() {
  const int n = int(blockDim.x * blockDim.y * blockDim.z);
  static std::vector<std::vector<char>> stacks;
  while (int(stacks.size()) < n) stacks.emplace_back(STACK);
  std::vector<Fiber> fibers(n);
  block = {n, 0, 0};
  warps.assign((n + WARP - 1) / WARP, Barrier{});
  votes.assign(n, 0);
  for (unsigned i = 0; i < SHARED_BYTES; ++i) shared[i] = static_cast<unsigned char>(i * 37 + blockIdx.x * 11 + 5);
  for (int i = 0; i < n; ++i) {
    Fiber& fiber = fibers[i];
    ++warps[i / WARP].alive;
    fiber.number = i, fiber.done = false;
    fiber.thread = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    getcontext(&fiber.context);
    fiber.context.uc_stack = {stacks[i].data(), 0, STACK};
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
  }
  for (int left = n; left > 0;) {
    left = 0;
    for (Fiber& fiber : fibers) {
      if (fiber.done) continue;
      current = &fiber;
      swapcontext(&scheduler, &fiber.context);
      left += !fiber.done;
    }
  }
}

inline unsigned vote(bool value) {
  const int first = current->number / WARP * WARP;
  votes[current->number] = value;
  Barrier& warp = warps[current->number / WARP];
  wait(warp);
  unsigned result = 0;
  for (int lane = 0; lane < WARP && first + lane < int(votes.size()); ++lane) result |= votes[first + lane] << lane;
  wait(warp);
  return result;
}

template <class... Types, std::size_t... Index>
void call(void (*kernel)(Types...), void** args, std::index_sequence<Index...>) {
  kernel(*static_cast<std::remove_cv_t<Types>*>(args[Index])...);
}

template <class... Types>
void call(void (*kernel)(Types...), void** args) {
  call(kernel, args, std::index_sequence_for<Types...>{});
}

}  // namespace emulator

#define threadIdx (emulator::current->thread)
using emulator::blockDim;
using emulator::blockIdx;
using emulator::gridDim;
using std::max;
using std::min;

inline void __syncthreads() { emulator::wait(emulator::block); }
inline int __syncthreads_or(int value) {
  static int any[4] = {};  // by barrier; nobody is two barriers ahead
  const long at = emulator::block.generation;
  any[at % 4] |= value;
  emulator::wait(emulator::block);
  any[(at + 2) % 4] = 0;
  return any[at % 4];
}
inline void __syncwarp() { emulator::wait(emulator::warps[emulator::current->number / emulator::WARP]); }
inline void __threadfence() {}
inline unsigned __ballot_sync(unsigned, bool value) { return emulator::vote(value); }
inline bool __any_sync(unsigned, bool value) { return emulator::vote(value) != 0; }
inline bool __all_sync(unsigned, bool value) { return emulator::vote(!value) == 0; }

inline bool __syncthreads_and(bool value) {
  static bool result;
  __syncthreads();
  result = true;
  __syncthreads();
  if (!value) result = false;
  __syncthreads();
  return result;
}

inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline long long __double_as_longlong(double value) {
  long long bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline double __longlong_as_double(long long bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class Type>
inline Type __ldg(const Type* at) {
  return *at;
}

// Every lane of the warp gives a value, and takes that of another lane.
template <class Type>
inline Type exchange(Type value, int source) {
  static std::vector<std::uint64_t> given(1024);
  const int number = emulator::current->number, first = number / emulator::WARP * emulator::WARP;
  std::memcpy(&given[number], &value, sizeof(Type));
  emulator::Barrier& warp = emulator::warps[number / emulator::WARP];
  emulator::wait(warp);
  Type result;
  std::memcpy(&result, &given[first + (source & (emulator::WARP - 1))], sizeof(Type));
  emulator::wait(warp);
  return result;
}
template <class Type>
inline Type __shfl_sync(unsigned, Type value, int source) {
  return exchange(value, source);
}
template <class Type>
inline Type __shfl_xor_sync(unsigned, Type value, int mask) {
  return exchange(value, emulator::current->number % emulator::WARP ^ mask);
}

inline long long __double2ll_rn(double x) { return std::llrint(x); }
template <class Type>
inline Type atomicAdd(Type* at, Type value) {
  const Type old = *at;
  *at += value;
  return old;
}

template <class Type>
inline Type __ldcg(const Type* at) {
  return *at;
}

inline unsigned atomicInc(unsigned* at, unsigned limit) {
  const unsigned old = *at;
  *at = old >= limit ? 0 : old + 1;
  return old;
}

inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= unsigned(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}

#define EMULATE(kernel)                                                                                 \
  extern "C" void emulate(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
                          unsigned bytes, void** args) {                                                \
    using namespace emulator;                                                                           \
    if (bytes > SHARED_BYTES) std::abort();                                                             \
    gridDim = {gx, gy, gz}, blockDim = {bx, by, bz}, arguments = args;                                  \
    body = [](void** values) { call(&kernel, values); };                                                \
    for (unsigned z = 0; z < gz; ++z)                                                                   \
      for (unsigned y = 0; y < gy; ++y)                                                                 \
        for (unsigned x = 0; x < gx; ++x) {                                                             \
          blockIdx = {x, y, z};                                                                         \
          run_block();                                                                                  \
        }                                                                                               \
  }
