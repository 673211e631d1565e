// The conditions of each leaf that rows do not meet, as bits of their players (explain/coalitions/kernels.h): a thread
// takes a leaf and some rows.
//
// Macros: MASK, CODE (unsigned types of masks and of the rows' codes).
#include "explain/coalitions/conditions.h"
#include "explain/cuda/coalitions/words.cuh"

namespace glasswood {

constexpr int THREADS = 128, ROWS = 8;

}  // namespace glasswood

// codes: [column][stride], stride a multiple of ROWS; masks: [row][leaf].
extern "C" __global__ void __launch_bounds__(glasswood::THREADS)
    find_masks_kernel(const CODE* __restrict__ codes, long long stride, long long n_rows,
                      const glasswood::LeafCondition* __restrict__ conditions, const int* __restrict__ first_condition,
                      long long n_leaves, MASK* __restrict__ masks) {
  using namespace glasswood;
  const long long leaf = blockIdx.x * (long long)THREADS + threadIdx.x, first_row = blockIdx.y * (long long)ROWS;
  if (leaf >= n_leaves) return;
  const int first = first_condition[leaf], end = first_condition[leaf + 1];
  Word mask[ROWS] = {};
  for (int i = first; i < end; ++i) {
    const LeafCondition condition = conditions[i];
    const CODE* const code = codes + condition.column * stride + first_row;
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
      mask[r] |= Word(!(code[r] >= condition.low && code[r] < condition.high)) << condition.bit;
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    if (first_row + r < n_rows) masks[(first_row + r) * n_leaves + leaf] = static_cast<MASK>(mask[r]);
}
