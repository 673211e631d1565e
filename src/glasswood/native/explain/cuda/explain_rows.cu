// Schedule of SHAP values and interactions: a thread walks one row through one chunk of trees; chunks and the order of
// the trees in them are fixed, so are the bits of the sums.
//
// Macros: REAL, POINTS (K), HEIGHT (levels of splits with frames in registers), LEVELS (in local memory), PAIRS,
// HOT_WORDS, CODE (type of the rank codes), SHARED (accumulators in shared memory), DELTAS (levels of D).
#include "explain/cuda/row.cuh"

extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
    explain_rows_kernel(const glasswood::Quad* __restrict__ tape, const long long* __restrict__ chunk_starts,
                        const long long* __restrict__ slot_offsets, const CODE* __restrict__ codes, int n_rows,
                        unsigned stride, Real* __restrict__ partial) {
  using namespace glasswood;
  const int n_tiles = (n_rows + blockDim.x - 1) / blockDim.x, chunk = blockIdx.x / n_tiles;
  const int row = (blockIdx.x - chunk * n_tiles) * blockDim.x + threadIdx.x;
  const long long first_slot = slot_offsets[chunk];
  const int n_slots = int(slot_offsets[chunk + 1] - first_slot);
  Real* result = partial + first_slot * stride + row;
  Walk<POINTS, DeviceRow> walk;
  open_row(walk.row, codes + row, stride, PAIRS ? n_slots : 0, result);
#if PAIRS
  Real deltas[DELTAS * POINTS];
  walk.row.deltas = deltas;
#endif
  const Quad* start = tape + chunk_starts[chunk];
  fetch_ahead(start - WINDOW / int(sizeof(Quad)));
  walk.chunk<HEIGHT, LEVELS>(start);
  close_row(walk.row, n_slots, result, stride);
}
