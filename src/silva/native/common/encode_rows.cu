// Rows to rank codes, [column][stride]. A block takes a run of columns whose thresholds fit into its shared memory and
// as many tiles of rows as come its way. Tiles turn around in shared memory: rows are read along their features and
// codes are written along the rows; all lanes of a warp search one column, so the upper levels of its tree are
// broadcasts.
//
// Macros: INPUT (type of X), ROW (type of the thresholds), CODE (of the codes).
#include "common/columns.h"

using Input = INPUT;
using Value = ROW;
using Code = CODE;

namespace silva {

constexpr int TILE_ROWS = 128, TILE_COLUMNS = 32, N_THREADS = 512, WARP = 32;
constexpr int N_WARPS = N_THREADS / WARP, ROWS_PER_LANE = TILE_ROWS / WARP;

struct Tile {
  const Input* X;
  long long row_stride, feature_stride;
  int n_rows, first_row;
  Value (*values)[TILE_COLUMNS + 1];
};

// Reads the features of columns first ... end - 1 for the rows of the tile.
template <bool is_full>
__device__ __forceinline__ void read_tile(const Tile& tile, const int* feature, int first, int end) {
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  if (first + lane >= end) return;
  const Input* source =
      tile.X + feature[first + lane] * tile.feature_stride + (tile.first_row + warp) * tile.row_stride;
  const long long step = tile.row_stride * N_WARPS;
#pragma unroll
  for (int r = 0; r < TILE_ROWS; r += N_WARPS, source += step)
    if (is_full || tile.first_row + warp + r < tile.n_rows) tile.values[warp + r][lane] = Value(*source);
}

// Finds four rows at a time in one column and writes their codes; 0 beyond the rows.
template <bool is_full>
__device__ __forceinline__ void write_codes(const Columns<Value>& columns, const Tile& tile, int column, int place,
                                            const Thresholds<Value>& thresholds, long long stride, Code* codes) {
  const int lane = threadIdx.x % WARP;
  Value x[ROWS_PER_LANE];
  unsigned code[ROWS_PER_LANE];
#pragma unroll
  for (int k = 0; k < ROWS_PER_LANE; ++k) x[k] = tile.values[k * WARP + lane][place];
  codes_of(columns, column, thresholds, x, code);
  Code* const target = codes + column * stride + tile.first_row + lane;
#pragma unroll
  for (int k = 0; k < ROWS_PER_LANE; ++k) {
    const int row = tile.first_row + k * WARP + lane;
    if (is_full || row < stride) target[k * WARP] = Code(is_full || row < tile.n_rows ? code[k] : 0);
  }
}

// `staged` are copies of the thresholds from `origin` on, or nothing.
template <bool is_full>
__device__ __forceinline__ void encode_tile(const Columns<Value>& columns, const Tile& tile, int begin, int end,
                                            const Thresholds<Value>& staged, long long origin, long long stride,
                                            Code* codes) {
  for (int first = begin; first < end; first += TILE_COLUMNS) {
    __syncthreads();
    read_tile<is_full>(tile, columns.feature, first, end);
    __syncthreads();
    for (int c = threadIdx.x / WARP; c < TILE_COLUMNS && first + c < end; c += N_WARPS) {
      const long long at = columns.offsets[first + c] - origin;
      if (staged.values != nullptr)
        write_codes<is_full>(columns, tile, first + c, c, {staged.values + at, staged.starts + 4 * at}, stride, codes);
      else
        write_codes<is_full>(columns, tile, first + c, c, thresholds_of(columns, first + c), stride, codes);
    }
  }
}

// Copies a whole number of 16 bytes; both sides are aligned to it.
template <class Type>
__device__ __forceinline__ void copy_chunks(const Type* source, long long n, Type* target) {
  for (int i = threadIdx.x; i < n * sizeof(Type) / 16; i += N_THREADS)
    reinterpret_cast<uint4*>(target)[i] = reinterpret_cast<const uint4*>(source)[i];
}

}  // namespace silva

// `runs` holds the first columns of the runs and the end of the last. A run of one column that does not fit stays where
// it is: shared_entries says how many thresholds fit.
extern "C" __global__ void __launch_bounds__(silva::N_THREADS, 2)
    common_encode_rows_kernel(const Input* __restrict__ X, long long row_stride, long long feature_stride, int n_rows,
                              long long stride, const int* __restrict__ runs, int shared_entries,
                              const int* __restrict__ feature, const int* __restrict__ category_set,
                              const int* __restrict__ missing, const int* __restrict__ height,
                              const long long* __restrict__ offsets, const silva::Buckets* __restrict__ buckets,
                              const Value* __restrict__ thresholds, const unsigned char* __restrict__ starts,
                              const long long* set_offsets, const unsigned* set_words, const bool* set_others_left,
                              const bool* zero_missing, double zero_threshold, double missing_value,
                              Code* __restrict__ codes) {
  using namespace silva;
  extern __shared__ uint4 memory[];
  __shared__ Value values[TILE_ROWS][TILE_COLUMNS + 1];
  Value* const staged = reinterpret_cast<Value*>(memory);
  const Columns<Value> columns{feature,
                               category_set,
                               missing,
                               height,
                               offsets,
                               buckets,
                               thresholds,
                               starts,
                               set_offsets,
                               set_words,
                               set_others_left,
                               zero_missing,
                               Value(zero_threshold),
                               Value(missing_value)};
  const int begin = runs[blockIdx.y], end = runs[blockIdx.y + 1];
  const long long origin = offsets[begin], n_entries = offsets[end] - origin;
  const bool fits = n_entries <= shared_entries;
  unsigned char* const staged_starts = reinterpret_cast<unsigned char*>(staged + shared_entries);
  if (fits) {
    copy_chunks(thresholds + origin, n_entries, staged);
    copy_chunks(starts + 4 * origin, 4 * n_entries, staged_starts);
  }
  const Thresholds<Value> copies{fits ? staged : nullptr, staged_starts};
  const long long n_tiles = (stride + TILE_ROWS - 1) / TILE_ROWS;
  for (long long t = blockIdx.x; t < n_tiles; t += gridDim.x) {
    const Tile tile{X, row_stride, feature_stride, n_rows, int(t * TILE_ROWS), values};
    if (tile.first_row + TILE_ROWS <= n_rows)
      encode_tile<true>(columns, tile, begin, end, copies, origin, stride, codes);
    else
      encode_tile<false>(columns, tile, begin, end, copies, origin, stride, codes);
  }
}
