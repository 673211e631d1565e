// Partial sums of chunks to results: entry e of a row is the sum, in float64 and in the order of the chunks, of the
// accumulators that belong to it. A tile of 32 rows and 32 entries turns around in shared memory.
//
// Macro: REAL.
constexpr int TILE = 32, TILE_ROWS = 8;

extern "C" __global__ void __launch_bounds__(TILE* TILE_ROWS)
    sum_slots_kernel(const REAL* __restrict__ partial, long long stride, int n_rows, int n_entries,
                     const long long* __restrict__ slot_starts, const long long* __restrict__ slots,
                     const long long* __restrict__ target, const long long* __restrict__ mirror, long long row_size,
                     REAL* __restrict__ result) {
  __shared__ REAL tile[TILE][TILE + 1];
  const int first_row = blockIdx.x * TILE;
  for (int first = blockIdx.y * TILE; first < n_entries; first += gridDim.y * TILE) {
    for (int e = threadIdx.y; e < TILE && first + e < n_entries; e += TILE_ROWS) {
      double sum = 0;
      const long long end = slot_starts[first + e + 1];
#pragma unroll 8
      for (long long at = slot_starts[first + e]; at < end; ++at)
        sum += partial[slots[at] * stride + first_row + threadIdx.x];
      tile[e][threadIdx.x] = REAL(sum);
    }
    __syncthreads();
    const int entry = first + threadIdx.x;
    for (int r = threadIdx.y; r < TILE && first_row + r < n_rows && entry < n_entries; r += TILE_ROWS) {
      REAL* row = result + (first_row + r) * row_size;
      row[target[entry]] = tile[threadIdx.x][r];
      if (mirror[entry] >= 0) row[mirror[entry]] = tile[threadIdx.x][r];
    }
    __syncthreads();
  }
}
