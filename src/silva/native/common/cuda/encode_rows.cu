// Rows to rank codes, [column][stride]. A block takes a run of columns whose thresholds fit into its shared memory and
// as many tiles of rows as come its way. Tiles turn around in shared memory: rows are read along their features and
// codes are written along the rows; all lanes of a warp search one column, so the upper levels of its tree are
// broadcasts.
//
// Macros: INPUT (type of X), ROW (type of the thresholds), CODE (of the codes).
#include "common/cuda/encode.cuh"

using Input = INPUT;
using Value = ROW;
using Code = CODE;

namespace silva {

constexpr int TILE_ROWS = 128, TILE_COLUMNS = 32, N_THREADS = 512, WARP = 32;
constexpr int N_WARPS = N_THREADS / WARP, ROWS_PER_LANE = TILE_ROWS / WARP, ROWS_PER_WARP = TILE_ROWS / N_WARPS;

// Rows of a tile, and the columns first ... end - 1 that are at most TILE_COLUMNS of.
struct Tile {
  long long first_row;
  int first_column, n_columns;
};

struct Rows {
  const Input* X;
  long long row_stride, feature_stride;
  int n_rows;
};

// Reads the values of a tile that a thread writes to shared memory: those of one feature.
__device__ __forceinline__ void read_tile(const Rows& rows, const int* feature, const Tile& tile,
                                          Input (&values)[ROWS_PER_WARP]) {
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  if (lane >= tile.n_columns) return;
  const Input* source =
      rows.X + feature[tile.first_column + lane] * rows.feature_stride + (tile.first_row + warp) * rows.row_stride;
  const long long step = rows.row_stride * N_WARPS;
  const int n_mine = int(min(static_cast<long long>(TILE_ROWS), rows.n_rows - tile.first_row)) - warp;
#pragma unroll
  for (int r = 0; r < ROWS_PER_WARP; ++r, source += step)
    if (r * N_WARPS < n_mine) values[r] = *source;
}

// Finds four rows at a time in one column and writes their codes; 0 beyond the rows.
__device__ __forceinline__ void write_codes(const CodeTables<Value>& columns, const Value (*values)[TILE_COLUMNS + 1],
                                            const Tile& tile, int place, const Thresholds<Value>& thresholds,
                                            int n_rows, long long stride, Code* codes) {
  const int lane = threadIdx.x % WARP, column = tile.first_column + place;
  Value x[ROWS_PER_LANE];
  unsigned code[ROWS_PER_LANE];
#pragma unroll
  for (int k = 0; k < ROWS_PER_LANE; ++k) x[k] = values[k * WARP + lane][place];
  codes_of(columns, column, thresholds, x, code);
  Code* const target = codes + column * stride + tile.first_row + lane;
  if (tile.first_row + TILE_ROWS <= n_rows) {
#pragma unroll
    for (int k = 0; k < ROWS_PER_LANE; ++k) target[k * WARP] = Code(code[k]);
  } else {
#pragma unroll
    for (int k = 0; k < ROWS_PER_LANE; ++k) {
      const long long row = tile.first_row + k * WARP + lane;
      if (row < stride) target[k * WARP] = Code(row < n_rows ? code[k] : 0);
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

// `runs` holds the first columns of the runs and the end of the last. A run that does not fit stays where it is:
// shared_entries says how many thresholds fit. The values of the next tile are on their way to registers while the
// codes of one are found.
extern "C" __global__ void __launch_bounds__(silva::N_THREADS, 2)
    encode_rows_kernel(const Input* __restrict__ X, long long row_stride, long long feature_stride, int n_rows,
                       long long stride, const int* __restrict__ runs, int shared_entries, CODE_TABLE_PARAMETERS,
                       Code* __restrict__ codes) {
  using namespace silva;
  extern __shared__ uint4 memory[];
  __shared__ Value values[TILE_ROWS][TILE_COLUMNS + 1];
  Value* const staged = reinterpret_cast<Value*>(memory);
  const CodeTables<Value> columns = CODE_TABLES;
  const int begin = runs[blockIdx.y], end = runs[blockIdx.y + 1];
  const long long origin = offsets[begin], n_entries = offsets[end] - origin;
  const bool fits = n_entries <= shared_entries;
  unsigned char* const staged_starts = reinterpret_cast<unsigned char*>(staged + shared_entries);
  if (fits) {
    copy_chunks(thresholds + origin, n_entries, staged);
    copy_chunks(bucket_starts + 4 * origin, 4 * n_entries, staged_starts);
  }
  const Rows rows{X, row_stride, feature_stride, n_rows};
  const auto tile_at = [&](long long first_row, int column) {
    return Tile{first_row, column, min(TILE_COLUMNS, end - column)};
  };
  Input read[ROWS_PER_WARP] = {};
  Tile tile = tile_at(static_cast<long long>(blockIdx.x) * TILE_ROWS, begin);
  if (tile.first_row < stride) read_tile(rows, feature, tile, read);
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  while (tile.first_row < stride) {
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; ++r) values[r * N_WARPS + warp][lane] = Value(read[r]);
    __syncthreads();
    const int column = tile.first_column + TILE_COLUMNS;
    const Tile next = column < end ? tile_at(tile.first_row, column)
                                   : tile_at(tile.first_row + static_cast<long long>(gridDim.x) * TILE_ROWS, begin);
    if (next.first_row < stride) read_tile(rows, feature, next, read);
    for (int c = warp; c < tile.n_columns; c += N_WARPS) {
      // Two calls, so that each knows which memory its pointers name.
      const long long at = offsets[tile.first_column + c] - origin;
      if (fits)
        write_codes(columns, values, tile, c, {staged + at, staged_starts + 4 * at}, n_rows, stride, codes);
      else
        write_codes(columns, values, tile, c, thresholds_of(columns, tile.first_column + c), n_rows, stride, codes);
    }
    tile = next;
  }
}
