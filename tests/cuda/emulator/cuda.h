// CUDA's names in the source of a kernel, and EMULATE(kernel), which makes it one of the emulated GPU's.
#pragma once
#include <cmath>
#include <cstring>
#include <utility>

#include "machine.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __shared__ static
#define __restrict__ __restrict
#define __grid_constant__

#define threadIdx emulator::thread_index
#define blockIdx emulator::block_index
#define blockDim emulator::block_size
#define gridDim emulator::grid_size

struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

using std::fma, std::max, std::min, std::sqrt;

// Threads that meet, and what they tell each other.

inline void __syncthreads() { emulator::meet_block(); }
inline int __syncthreads_or(int value) { return emulator::meet_block(value != 0) != 0; }
inline int __syncthreads_and(int value) { return emulator::meet_block(value == 0) == 0; }
inline void __syncwarp() { emulator::meet_warp(); }
inline void __threadfence() {}
inline unsigned __ballot_sync(unsigned, int value) {
  return emulator::meet_warp(unsigned(value != 0) << emulator::lane());
}
inline int __any_sync(unsigned, int value) { return emulator::meet_warp(value != 0) != 0; }
inline int __all_sync(unsigned, int value) { return emulator::meet_warp(value == 0) == 0; }

namespace emulator {

template <class To, class From>
To same_bits(From from) {
  To to{};
  std::memcpy(&to, &from, sizeof to < sizeof from ? sizeof to : sizeof from);
  return to;
}

}  // namespace emulator

template <class T>
T __shfl_sync(unsigned, T value, int from) {
  const auto* shown = emulator::show(emulator::same_bits<uint64_t>(value));
  return emulator::same_bits<T>(shown[unsigned(from) % emulator::kWarp]);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with) {
  return __shfl_sync(mask, value, int(emulator::lane()) ^ with);
}
template <class T>
unsigned __match_any_sync(unsigned, T value) {
  const auto own = emulator::same_bits<uint64_t>(value);
  const auto* shown = emulator::show(own);
  unsigned mask = 0;
  for (unsigned i = 0; i < emulator::kWarp; ++i) mask |= unsigned(shown[i] == own) << i;
  return mask;
}

// Memory: only one thread runs at a time.

template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcg(const T* at) {
  return *at;
}
template <class T>
T atomicAdd(T* at, T value) {
  return std::exchange(*at, *at + value);
}
inline unsigned atomicInc(unsigned* at, unsigned limit) { return std::exchange(*at, *at >= limit ? 0 : *at + 1); }

// Bits.

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __float_as_uint(float x) { return emulator::same_bits<unsigned>(x); }
inline int __float_as_int(float x) { return emulator::same_bits<int>(x); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
inline float __uint_as_float(unsigned x) { return emulator::same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emulator::same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emulator::same_bits<double>(x); }
inline long long __double2ll_rn(double x) { return std::llrint(x); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= unsigned(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}

namespace emulator {

template <class... Types, size_t... I>
void call(void (*kernel)(Types...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<Types>*>(arguments[I])...);
}
template <class... Types>
void call(void (*kernel)(Types...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<Types...>{});
}

}  // namespace emulator

namespace glasswood {}
using namespace glasswood;

#define EMULATE(kernel) \
  extern "C" void emulate_##kernel(void** arguments) { emulator::call(&kernel, arguments); }
