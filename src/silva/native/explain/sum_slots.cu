// Partial sums of chunks to results: entry e of a row is the sum in float64 of the accumulators that belong to it, in
// an order that the forest alone decides: one warp adds the accumulators of an entry one after the other, or where
// there are many, eight warps an eighth each. A tile of 32 rows and up to 32 entries turns around in shared memory.
//
// Macro: REAL.
constexpr int TILE = 32, TILE_ROWS = 8;
constexpr long long MANY = 64;

__device__ __forceinline__ double add_slots(const REAL* __restrict__ partial, long long stride,
                                            const long long* __restrict__ slots, long long begin, long long end) {
  double sum = 0;
#pragma unroll 8
  for (long long at = begin; at < end; ++at) sum += partial[slots[at] * stride];
  return sum;
}

extern "C" __global__ void __launch_bounds__(TILE* TILE_ROWS)
    explain_sum_slots_kernel(const REAL* __restrict__ partial, long long stride, int n_rows, int n_entries,
                             int tile_entries, const long long* __restrict__ slot_starts,
                             const long long* __restrict__ slots, const long long* __restrict__ target,
                             const long long* __restrict__ mirror, long long row_size, REAL* __restrict__ result) {
  __shared__ REAL tile[TILE][TILE + 1];
  __shared__ double eighths[TILE_ROWS][TILE];
  const int first_row = blockIdx.x * TILE, x = threadIdx.x, y = threadIdx.y;
  const REAL* mine = partial + first_row + x;
  for (int first = blockIdx.y * tile_entries; first < n_entries; first += gridDim.y * tile_entries) {
    const int n_here = min(tile_entries, n_entries - first);
    bool has_many = false;
    for (int e = y; e < n_here; e += TILE_ROWS) {
      const long long begin = slot_starts[first + e], end = slot_starts[first + e + 1];
      if (end - begin < MANY)
        tile[e][x] = REAL(add_slots(mine, stride, slots, begin, end));
      else
        has_many = true;
    }
    for (int e = 0; __syncthreads_or(has_many) && e < n_here; ++e) {
      const long long begin = slot_starts[first + e], n = slot_starts[first + e + 1] - begin;
      if (n < MANY) continue;
      eighths[y][x] = add_slots(mine, stride, slots, begin + n * y / TILE_ROWS, begin + n * (y + 1) / TILE_ROWS);
      __syncthreads();
      if (y > 0) continue;
      double sum = 0;
      for (int part = 0; part < TILE_ROWS; ++part) sum += eighths[part][x];
      tile[e][x] = REAL(sum);
    }
    __syncthreads();
    const int entry = first + x;
    for (int r = y; r < TILE && first_row + r < n_rows && x < n_here; r += TILE_ROWS) {
      REAL* row = result + (first_row + r) * row_size;
      row[target[entry]] = tile[x][r];
      if (mirror[entry] >= 0) row[mirror[entry]] = tile[x][r];
    }
    __syncthreads();
  }
}
