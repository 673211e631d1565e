// How often background rows are in each state of a subtree: a block counts some of the rows in shared memory, or where
// the states of a subtree do not fit there, adds them up where the sums lie. Sums of integers, so that their order does
// not matter.
//
// Macros: WEIGHTED (each row counts as often as its weight says, which may be negative: sums wrap around; else once),
// SHARED (whether the states fit into shared memory).
#include "explain/cuda/tables/format.h"

namespace glasswood {

constexpr int THREADS = 128, ROWS = 8;

#if WEIGHTED || !SHARED
using Count = unsigned long long;
#else
using Count = unsigned;
#endif

struct alignas(16) Shorts {
  unsigned short key[ROWS];
};

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    count_states_kernel(const unsigned short* __restrict__ keys, long long stride, long long n_rows, long long run,
                        const glasswood::TableSubtree* __restrict__ subtrees, const long long* __restrict__ weight,
                        unsigned long long* __restrict__ count) {
  using namespace glasswood;
  const TableSubtree subtree = subtrees[blockIdx.x];
#if SHARED
  extern __shared__ uint4 shared[];
  Count* const mine = reinterpret_cast<Count*>(shared);
  const int n_states = subtree.n_cells << subtree.n_above;
  for (int s = threadIdx.x; s < n_states; s += THREADS) mine[s] = 0;
  __syncthreads();
#else
  Count* const mine = count + subtree.first_state;
#endif
  const long long first = blockIdx.y * run, end = min(first + run, n_rows);
  for (long long row = first + threadIdx.x * ROWS; row < end; row += THREADS * ROWS) {
    const Shorts some = *reinterpret_cast<const Shorts*>(keys + blockIdx.x * stride + row);
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
      if (row + r < end) atomicAdd(&mine[some.key[r]], Count(WEIGHTED ? weight[row + r] : 1));
  }
#if SHARED
  __syncthreads();
  for (int s = threadIdx.x; s < n_states; s += THREADS)
    if (mine[s]) atomicAdd(&count[subtree.first_state + s], static_cast<unsigned long long>(mine[s]));
#endif
}
