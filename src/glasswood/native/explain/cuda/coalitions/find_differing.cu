// The players on which each pair of rows differs: those of the leaves that any hybrid of both reaches. A warp takes a
// pair.
//
// Macros: MASK.
#include "explain/cuda/coalitions/words.cuh"

namespace glasswood {

constexpr int WARPS = 4, THREADS = 32 * WARPS;

}  // namespace glasswood

// rows, others: masks [row][leaf], as words; differ: [row][other]; histogram: of the numbers of players, 0 to 32.
extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    find_differing_kernel(const unsigned* __restrict__ rows, const unsigned* __restrict__ others, long long n_words,
                          int n_others, unsigned* __restrict__ differ, unsigned* __restrict__ histogram) {
  using namespace glasswood;
  const int lane = threadIdx.x % 32, other = blockIdx.x * WARPS + threadIdx.x / 32;
  if (other >= n_others) return;
  const long long row = blockIdx.y;
  const unsigned *a = rows + row * n_words, *c = others + other * n_words;
  unsigned found = 0;
  for (long long word = lane; word < n_words; word += 32) {
    const unsigned x = a[word], y = c[word], empty = empty_masks(x & y) >> (MASK_BITS - 1);
    found |= (x | y) & (MASK_BITS == 32 ? 0u - empty : empty * ((1ull << MASK_BITS) - 1));
  }
#pragma unroll
  for (int step = 16; step; step /= 2) found |= __shfl_xor_sync(ALL, found, step);
#pragma unroll
  for (int bits = 16; bits >= MASK_BITS; bits /= 2) found = (found | found >> bits) & ((1u << bits) - 1);
  if (lane) return;
  differ[row * n_others + other] = found;
  atomicAdd(&histogram[__popc(found)], 1u);
}
