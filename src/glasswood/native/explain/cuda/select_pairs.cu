// The strongest entries of each row's matrix and output, a warp each: falling, of equal magnitudes the first entry.
//
// matrices: [row][number][output], row_size numbers a row with all outputs; entries: numbers that are searched, rising;
// pairs: [entry][2], their features; result: [row][3][top][output], both features as bits of integers, and the entries.
// Shared: for each warp the magnitudes and places of its list.
//
// Macros: REAL, PLACE (an integer as wide).
constexpr int WARP = 32, WARPS = 4, AT_ONCE = 4;
constexpr unsigned ALL = 0xffffffffu;

__device__ __forceinline__ REAL magnitude_of(REAL value) {
  const REAL magnitude = value < 0 ? -value : value;
  return magnitude == magnitude ? magnitude : REAL(__uint_as_float(0x7f800000u));
}

// Puts an entry into a list that is falling; one as large as another goes behind it.
__device__ __forceinline__ void insert(REAL* magnitudes, PLACE* places, int top, REAL magnitude, int place) {
  if (!(magnitude > magnitudes[top - 1])) return;
  int at = top - 1;
  for (; at > 0 && magnitude > magnitudes[at - 1]; --at) {
    magnitudes[at] = magnitudes[at - 1];
    places[at] = places[at - 1];
  }
  magnitudes[at] = magnitude;
  places[at] = place;
}

extern "C" __global__ void __launch_bounds__(WARP* WARPS)
    select_pairs_kernel(const REAL* __restrict__ matrices, long long n_items, long long row_size, int n_outputs,
                        const long long* __restrict__ entries, int n_entries, const int* __restrict__ pairs, int top,
                        REAL* __restrict__ result) {
  extern __shared__ double shared[];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const long long item = blockIdx.x * (long long)WARPS + warp;
  if (item >= n_items) return;
  REAL* const magnitudes = reinterpret_cast<REAL*>(shared) + warp * top;
  PLACE* const places = reinterpret_cast<PLACE*>(reinterpret_cast<REAL*>(shared) + WARPS * top) + warp * top;
  for (int i = lane; i < top; i += WARP) magnitudes[i] = -1, places[i] = 0;
  __syncwarp();
  const long long row = item / n_outputs;
  const int output = int(item % n_outputs);
  const REAL* const mine = matrices + row * row_size + output;
  for (int first = 0; first < n_entries; first += AT_ONCE * WARP) {
    REAL found[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int e = first + i * WARP + lane;
      found[i] = e < n_entries ? magnitude_of(mine[entries[e] * n_outputs]) : REAL(-1);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
      for (unsigned wanted = __ballot_sync(ALL, found[i] > magnitudes[top - 1]); wanted; wanted &= wanted - 1) {
        const int from = __ffs(int(wanted)) - 1;
        const REAL next = __shfl_sync(ALL, found[i], from);
        if (lane == 0) insert(magnitudes, places, top, next, first + i * WARP + from);
        __syncwarp();
      }
  }
  REAL* const mine_found = result + row * 3 * top * n_outputs + output;
  for (int i = lane; i < top; i += WARP) {
    for (int side = 0; side < 2; ++side) {
      const PLACE feature = pairs[2 * places[i] + side];
      mine_found[(long long)(side * top + i) * n_outputs] = *reinterpret_cast<const REAL*>(&feature);
    }
    mine_found[(long long)(2 * top + i) * n_outputs] = mine[entries[places[i]] * n_outputs];
  }
}
