// The players on which each pair of rows differs, as lists: find_differing.cu for forests of more than 32 players. A
// warp takes a pair.
//
// Macros: MASK (its bits are places of a leaf's path).
#include "explain/cuda/coalitions/words.cuh"

namespace glasswood {

constexpr int MOST_WARPS = 4, THREADS = 32 * MOST_WARPS;

// Marks the players of a leaf's mask. Lanes that mark the same player write the same.
__device__ __forceinline__ void mark(Word mask, const unsigned short* place, unsigned char* found) {
  for (Word rest = mask; rest; rest &= rest - 1) found[place[lowest(rest)]] = 1;
}

}  // namespace glasswood

// rows, others: masks [row][leaf], as words; first_place: [leaf] into `place`, the players of paths; pairs: [row]
// [other][1 + most], how many players and the first of these; histogram: of the numbers of players, 0 to n_players.
// Shared memory has n_players bytes a warp.
extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    find_players_kernel(const glasswood::Word* __restrict__ rows, const glasswood::Word* __restrict__ others,
                        long long n_words, int n_others, const int* __restrict__ first_place,
                        const unsigned short* __restrict__ place, int n_players, int most,
                        unsigned short* __restrict__ pairs, unsigned* __restrict__ histogram) {
  using namespace glasswood;
  extern __shared__ unsigned char shared[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, other = blockIdx.x * (blockDim.x / 32) + warp;
  if (other >= n_others) return;
  const long long row = blockIdx.y;
  const Word *a = rows + row * n_words, *c = others + other * n_words;
  unsigned char* const found = shared + warp * n_players;
  for (int player = lane; player < n_players; player += 32) found[player] = 0;
  __syncwarp();
  for (long long word = lane; word < n_words; word += 32) {
    const Word x = a[word], y = c[word], empty = empty_masks(x & y);
#pragma unroll
    for (int i = 0; i < PER_WORD; ++i)
      if (empty >> (MASK_BITS * (i + 1) - 1) & 1)
        mark(static_cast<MASK>((x | y) >> MASK_BITS * i), place + first_place[word * PER_WORD + i], found);
  }
  __syncwarp();
  unsigned short* const pair = pairs + (row * n_others + other) * (1 + most);
  int n = 0;
  for (int first = 0; first < n_players; first += 32) {
    const bool is_found = first + lane < n_players && found[first + lane];
    const unsigned all = __ballot_sync(ALL, is_found);
    const int number = n + __popc(all & ((1u << lane) - 1));
    if (is_found && number < most) pair[1 + number] = (unsigned short)(first + lane);
    n += __popc(all);
  }
  if (lane) return;
  pair[0] = (unsigned short)n;
  atomicAdd(&histogram[n], 1u);
}
