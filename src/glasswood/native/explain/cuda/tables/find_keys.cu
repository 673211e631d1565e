// Rows to the keys of subtrees: which vector of its table a subtree adds to a row's values.
//
// A thread finds the keys of eight neighbouring rows, subtree after subtree of its run. With PACKED two rows pass side
// by side as halves of 16 bits: codes as they are, since halves of positive sign are ordered as their bits are, weights
// and keys as integers, which halves hold exactly: 1,024 + key has ten bits of mantissa, the key.
//
// Macro: PACKED.
#include "explain/cuda/tables/format.h"

namespace glasswood {

constexpr int ROWS = 8, PAIRS = ROWS / 2, THREADS = 128;

struct alignas(16) Shorts {
  unsigned pair[PAIRS];
};

#if PACKED
#ifndef __CUDACC__
// Under a host's compiler, where tests run the kernels.
template <class Function>
unsigned for_halves(unsigned a, unsigned b, unsigned c, const Function& function) {
  union Pair {
    unsigned word;
    _Float16 half[2];
  };
  const Pair x{a}, y{b}, z{c};
  Pair result;
  for (int i = 0; i < 2; ++i) result.half[i] = _Float16(function(x.half[i], y.half[i], z.half[i]));
  return result.word;
}
#endif

// 1 in each half whose x has reached the bound, else 0.
__device__ __forceinline__ unsigned reached(unsigned x, unsigned bound) {
#ifdef __CUDACC__
  unsigned result;
  asm("set.ge.f16x2.f16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(bound));
  return result;
#else
  return for_halves(x, bound, 0, [](_Float16 a, _Float16 b, _Float16) { return a >= b; });
#endif
}

__device__ __forceinline__ unsigned multiply_add(unsigned a, unsigned b, unsigned c) {
#ifdef __CUDACC__
  unsigned result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
#else
  return for_halves(a, b, c, [](_Float16 x, _Float16 y, _Float16 z) { return x * y + z; });
#endif
}

__device__ __forceinline__ Shorts find_keys(const KeyHead& head, const KeyEntry* __restrict__ entries,
                                            const unsigned short* __restrict__ codes, long long stride) {
  Shorts key;
#pragma unroll
  for (int pair = 0; pair < PAIRS; ++pair) key.pair[pair] = head.base * 0x10001;
  for (int e = head.first; e < head.first + head.n; ++e) {
    const KeyEntry entry = entries[e];
    const Shorts x = *reinterpret_cast<const Shorts*>(codes + entry.column * stride);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned selector = half ? 0x3232 : 0x1010;
      const unsigned bound = __byte_perm(entry.bounds, 0, selector), weight = __byte_perm(entry.weights, 0, selector);
#pragma unroll
      for (int pair = 0; pair < PAIRS; ++pair)
        key.pair[pair] = multiply_add(reached(x.pair[pair], bound), weight, key.pair[pair]);
    }
  }
#pragma unroll
  for (int pair = 0; pair < PAIRS; ++pair) key.pair[pair] &= 0x03ff03ff;
  return key;
}
#else
// Keys of up to 14 bits; sums of weights wrap around on the way.
__device__ __forceinline__ Shorts find_keys(const KeyHead& head, const KeyEntry* __restrict__ entries,
                                            const unsigned short* __restrict__ codes, long long stride) {
  unsigned key[ROWS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row) key[row] = head.base;
  for (int e = head.first; e < head.first + head.n; ++e) {
    const KeyEntry entry = entries[e];
    const Shorts x = *reinterpret_cast<const Shorts*>(codes + entry.column * stride);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned bound = entry.bounds >> 16 * half & 0xffff, weight = entry.weights >> 16 * half & 0xffff;
#pragma unroll
      for (int row = 0; row < ROWS; ++row) {
        const unsigned code = x.pair[row / 2] >> 16 * (row & 1) & 0xffff;
        key[row] += code >= bound ? weight : 0;
      }
    }
  }
  Shorts result;
#pragma unroll
  for (int pair = 0; pair < PAIRS; ++pair)
    result.pair[pair] = (key[2 * pair] & 0x3fff) | (key[2 * pair + 1] & 0x3fff) << 16;
  return result;
}
#endif

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    find_keys_kernel(const unsigned short* __restrict__ codes, long long stride,
                     const glasswood::KeyHead* __restrict__ heads, const glasswood::KeyEntry* __restrict__ entries,
                     int n_subtrees, int run, unsigned short* __restrict__ keys) {
  using namespace glasswood;
  const long long row = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) * ROWS;
  if (row >= stride) return;
  const int first = blockIdx.y * run, end = min(first + run, n_subtrees);
  for (int s = first; s < end; ++s)
    *reinterpret_cast<Shorts*>(keys + s * stride + row) = find_keys(heads[s], entries, codes + row, stride);
}
