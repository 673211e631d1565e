// Partial sums of chunks to results: entry e of a row is the sum in float64 of the accumulators that belong to it, in
// an order that the forest alone decides: one warp adds the accumulators of an entry one after the other, or where
// there are many, eight warps an eighth each. A tile of 32 rows and up to 128 entries turns around in shared memory.
// Most entries of wide rows of many outputs have no accumulator: a thread looks at each, and no warp visits them.
//
// Macro: REAL.
constexpr int TILE = 32, TILE_ROWS = 8, MOST_ENTRIES = 128;
constexpr long long MANY = 64;

__device__ __forceinline__ double add_slots(const REAL* __restrict__ partial, long long stride,
                                            const long long* __restrict__ slots, long long begin, long long end) {
  double sum = 0;
#pragma unroll 8
  for (long long at = begin; at < end; ++at) sum += partial[slots[at] * stride];
  return sum;
}

extern "C" __global__ void __launch_bounds__(TILE* TILE_ROWS)
    sum_slots_kernel(const REAL* __restrict__ partial, long long stride, int n_rows, int n_entries, int tile_entries,
                     const long long* __restrict__ slot_starts, const long long* __restrict__ slots,
                     const long long* __restrict__ target, const long long* __restrict__ mirror, long long row_size,
                     REAL* __restrict__ result) {
  __shared__ REAL tile[MOST_ENTRIES][TILE + 1];
  __shared__ double eighths[TILE_ROWS][TILE];
  __shared__ int few[MOST_ENTRIES], many[MOST_ENTRIES], n_few, n_many;  // entries of the tile, in any order
  const int first_row = blockIdx.x * TILE, x = threadIdx.x, y = threadIdx.y, thread = y * TILE + x;
  const REAL* mine = partial + first_row + x;
  for (int first = blockIdx.y * tile_entries; first < n_entries; first += gridDim.y * tile_entries) {
    const int n_here = min(tile_entries, n_entries - first);
    if (thread == 0) n_few = n_many = 0;
    __syncthreads();
    if (thread < n_here) {
      const long long n = slot_starts[first + thread + 1] - slot_starts[first + thread];
      if (n == 0)
        for (int r = 0; r < TILE; ++r) tile[thread][r] = 0;
      else if (n < MANY)
        few[atomicAdd(&n_few, 1)] = thread;
      else
        many[atomicAdd(&n_many, 1)] = thread;
    }
    __syncthreads();
    for (int i = y; i < n_few; i += TILE_ROWS) {
      const int e = few[i];
      tile[e][x] = REAL(add_slots(mine, stride, slots, slot_starts[first + e], slot_starts[first + e + 1]));
    }
    for (int i = 0; i < n_many; ++i) {
      const int e = many[i];
      const long long begin = slot_starts[first + e], n = slot_starts[first + e + 1] - begin;
      eighths[y][x] = add_slots(mine, stride, slots, begin + n * y / TILE_ROWS, begin + n * (y + 1) / TILE_ROWS);
      __syncthreads();
      if (y == 0) {
        double sum = 0;
        for (int i = 0; i < TILE_ROWS; ++i) sum += eighths[i][x];
        tile[e][x] = REAL(sum);
      }
      __syncthreads();
    }
    __syncthreads();
    for (int e = x; e < n_here; e += TILE) {
      const long long at = target[first + e], mirrored = mirror[first + e];
      for (int r = y; r < TILE && first_row + r < n_rows; r += TILE_ROWS) {
        REAL* row = result + (first_row + r) * row_size;
        row[at] = tile[e][r];
        if (mirrored >= 0) row[mirrored] = tile[e][r];
      }
    }
    __syncthreads();
  }
}
