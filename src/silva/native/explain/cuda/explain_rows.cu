// Schedule of SHAP values and interactions: a thread walks one row through one chunk of trees; chunks and the order of
// the trees in them are fixed, so are the bits of the sums.
//
// Macros: REAL, POINTS (K), HEIGHT (levels of splits with frames in registers), LEVELS (in local memory), PAIRS,
// HOT_WORDS, CODE (type of the rank codes), SHARED (accumulators in shared memory), DELTAS (levels of D).
#include "explain/cuda/row.cuh"

extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
    explain_rows_kernel(const silva::Quad* __restrict__ tape, const long long* __restrict__ chunk_starts,
                        const long long* __restrict__ slot_offsets, const CODE* __restrict__ codes, int n_rows,
                        unsigned stride, Real* __restrict__ partial) {
  using namespace silva;
  const int n_tiles = (n_rows + blockDim.x - 1) / blockDim.x, chunk = blockIdx.x / n_tiles;
  const int row = (blockIdx.x - chunk * n_tiles) * blockDim.x + threadIdx.x;
  const long long first_slot = slot_offsets[chunk];
  const int n_slots = int(slot_offsets[chunk + 1] - first_slot);
  Real* result = partial + first_slot * stride + row;
  Walk<POINTS, DeviceRow> walk;
  walk.row.codes = reinterpret_cast<const char*>(codes + row);
  asm volatile("" : "+l"(walk.row.codes));  // or the compiler adds row and column first, at two more additions a code
  walk.row.code_stride = stride * unsigned(sizeof(CODE));
#if PAIRS
  Real deltas[DELTAS * POINTS];
  walk.row.deltas = deltas;
#endif
#if SHARED
  extern __shared__ double shared_sums[];
  Real* sums = reinterpret_cast<Real*>(shared_sums) + threadIdx.x;
  for (int slot = 0; slot < n_slots; ++slot) sums[slot * blockDim.x] = 0;
  walk.row.sums = shared_address(sums);
#else
  for (int slot = 0; slot < n_slots; ++slot) result[slot * static_cast<long long>(stride)] = 0;
  walk.row.sums = result;
  walk.row.stride = stride;
#endif
  const Quad* start = tape + chunk_starts[chunk];
  fetch_ahead(start - WINDOW / int(sizeof(Quad)));
  walk.chunk<HEIGHT, LEVELS>(start);
#if SHARED
  for (int slot = 0; slot < n_slots; ++slot) {
    Real sum;
    load_shared(sum, walk.row.slot_address(slot));
    result[slot * static_cast<long long>(stride)] = sum;
  }
#endif
}
