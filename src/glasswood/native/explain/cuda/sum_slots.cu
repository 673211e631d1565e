// Partial sums of chunks to results: entry e of a row is the sum in float64 of the accumulators that belong to it, in
// an order that the forest alone decides. A tile of rows and of entries turns around in shared memory.
//
// A group of lanes reads an accumulator's rows of the tile, 16 bytes a lane. If there are many accumulators,
// which memory holds, a warp is one group and reads 512 bytes at once: pieces of 128, tens of kilobytes apart, come at
// half of the bandwidth. If there are few, which the second cache holds, warps of four groups have more on their way.
// Where an entry has few accumulators each group adds up its own; else those of a warp share one, and then all warps.
// Most entries of wide rows of many outputs have none: a thread looks at each, and no warp visits them.
//
// Macros: REAL, TILE (rows).
constexpr int WARP = 32, WARPS = 8, MOST_ENTRIES = 64, LOADS = 4;
constexpr int PER_LANE = 16 / int(sizeof(REAL)), LANES = TILE / PER_LANE, GROUPS = WARP / LANES;
constexpr long long SHARED_BY_GROUPS = 32, SHARED_BY_WARPS = 64 * GROUPS;  // accumulators of an entry
constexpr unsigned ALL = 0xffffffffu;

struct alignas(16) Rows {
  REAL value[PER_LANE];
};

struct Sums {
  double value[PER_LANE];
};

// Adds up each group's accumulators `begin` to `end` - 1 for a lane's rows, which begin at `mine`. Lanes behind the
// last row have none.
__device__ __forceinline__ Sums add_slots(const REAL* __restrict__ mine, bool has_rows, long long stride,
                                          const long long* __restrict__ slots, long long begin, long long end) {
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  Sums sums = {};
  long long next = begin + lane < end ? slots[begin + lane] : 0;
  while (__any_sync(ALL, begin < end)) {
    const long long own = next, n = end - begin;
    begin += LANES;
    if (begin + lane < end) next = slots[begin + lane];
#pragma unroll
    for (int first = 0; first < LANES; first += LOADS) {
      if (GROUPS == 1 && first >= n) break;
      Rows rows[LOADS];
#pragma unroll
      for (int i = 0; i < LOADS; ++i) {
        const long long slot = __shfl_sync(ALL, own, group * LANES + first + i);
        rows[i] = has_rows && first + i < n ? *reinterpret_cast<const Rows*>(mine + slot * stride) : Rows{};
      }
#pragma unroll
      for (int i = 0; i < LOADS; ++i)
#pragma unroll
        for (int r = 0; r < PER_LANE; ++r) sums.value[r] += rows[i].value[r];
    }
  }
  return sums;
}

// The same of accumulators that a warp's groups share out among each other.
__device__ __forceinline__ Sums add_shared(const REAL* __restrict__ mine, bool has_rows, long long stride,
                                           const long long* __restrict__ slots, long long begin, long long end) {
  const long long n = end - begin, group = threadIdx.x / LANES;
  Sums sums = add_slots(mine, has_rows, stride, slots, begin + n * group / GROUPS, begin + n * (group + 1) / GROUPS);
#pragma unroll
  for (int lanes = LANES; lanes < WARP; lanes *= 2)
#pragma unroll
    for (int r = 0; r < PER_LANE; ++r) sums.value[r] += __shfl_xor_sync(ALL, sums.value[r], lanes);
  return sums;
}

// In shared memory neighbours are rows of neighbouring lanes, each from a bank of its own.
__device__ __forceinline__ int place_of(int row) { return row % PER_LANE * LANES + row / PER_LANE; }

template <class Number>
__device__ __forceinline__ void put(Number* line, const Sums& sums) {
#pragma unroll
  for (int r = 0; r < PER_LANE; ++r) line[r * LANES + threadIdx.x % LANES] = Number(sums.value[r]);
}

extern "C" __global__ void __launch_bounds__(WARP* WARPS)
    sum_slots_kernel(const REAL* __restrict__ partial, long long stride, int n_rows, int n_tiles,
                     const int* __restrict__ tile_starts, const long long* __restrict__ slot_starts,
                     const long long* __restrict__ slots, const long long* __restrict__ target,
                     const long long* __restrict__ mirror, long long row_size, REAL* __restrict__ result) {
  __shared__ REAL tile[MOST_ENTRIES][TILE + 1];
  __shared__ double parts[WARPS][TILE];
  __shared__ int kinds[3][MOST_ENTRIES], n_of[3];  // entries of the tile by who adds them up, in any order
  const int first_row = blockIdx.x * TILE, x = threadIdx.x, y = threadIdx.y, thread = y * WARP + x;
  const int lane_row = first_row + x % LANES * PER_LANE;
  const REAL* const mine = partial + lane_row;
  const bool has_rows = lane_row < n_rows;
  for (int at = blockIdx.y; at < n_tiles; at += gridDim.y) {
    const int first = tile_starts[at], n_here = tile_starts[at + 1] - first;
    const long long* const starts = slot_starts + first;
    if (thread < 3) n_of[thread] = 0;
    __syncthreads();
    if (thread < n_here) {
      const long long n = starts[thread + 1] - starts[thread];
      const int kind = n >= SHARED_BY_WARPS ? 2 : GROUPS > 1 && n >= SHARED_BY_GROUPS ? 1 : 0;
      if (n == 0)
        for (int r = 0; r < TILE; ++r) tile[thread][r] = 0;
      else
        kinds[kind][atomicAdd(&n_of[kind], 1)] = thread;
    }
    __syncthreads();
    for (int i = 0; i < n_of[2]; ++i) {
      const int e = kinds[2][i];
      const long long begin = starts[e], n = starts[e + 1] - begin;
      const Sums sums = add_shared(mine, has_rows, stride, slots, begin + n * y / WARPS, begin + n * (y + 1) / WARPS);
      if (x < LANES) put(parts[y], sums);
      __syncthreads();
      if (thread < TILE) {
        double sum = 0;
        for (int part = 0; part < WARPS; ++part) sum += parts[part][thread];
        tile[e][thread] = REAL(sum);
      }
      __syncthreads();
    }
    for (int i = y; i < n_of[1]; i += WARPS) {
      const int e = kinds[1][i];
      const Sums sums = add_shared(mine, has_rows, stride, slots, starts[e], starts[e + 1]);
      if (x < LANES) put(tile[e], sums);
    }
    for (int i = y * GROUPS; i < n_of[0]; i += WARPS * GROUPS) {
      const int own = i + x / LANES, e = kinds[0][min(own, n_of[0] - 1)];
      const long long end = own < n_of[0] ? starts[e + 1] : starts[e];
      const Sums sums = add_slots(mine, has_rows, stride, slots, starts[e], end);
      if (own < n_of[0]) put(tile[e], sums);
    }
    __syncthreads();
    long long to[MOST_ENTRIES / WARP], mirrored[MOST_ENTRIES / WARP];
#pragma unroll
    for (int i = 0; i < MOST_ENTRIES / WARP; ++i) {
      const int e = i * WARP + x;
      to[i] = e < n_here ? target[first + e] : -1, mirrored[i] = e < n_here ? mirror[first + e] : -1;
    }
    for (int r = y; r < TILE && first_row + r < n_rows; r += WARPS) {
      REAL* const row = result + (first_row + r) * row_size;
#pragma unroll
      for (int i = 0; i < MOST_ENTRIES / WARP; ++i) {
        if (to[i] < 0) continue;
        const REAL sum = tile[i * WARP + x][place_of(r)];
        row[to[i]] = sum;
        if (mirrored[i] >= 0) row[mirrored[i]] = sum;
      }
    }
    __syncthreads();
  }
}
