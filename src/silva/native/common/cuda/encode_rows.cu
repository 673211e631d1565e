// Rows to rank codes, [column][stride], stride a multiple of 4. A block takes a run of columns, whose thresholds fit
// into its shared memory, and every few tiles of rows. Tiles turn around in shared memory: rows are read along their
// features and codes are written along the rows, four a lane; all lanes of a warp search one column, so what describes
// it is broadcast.
//
// Macros: INPUT (type of X), ROW (type of the thresholds), CODE (of the codes), COLUMNS (of a tile: 32 are whole lines
// of memory; 8 are sectors, whose few thresholds are copied soon).
#include "common/cuda/async_copy.cuh"
#include "common/cuda/encode.cuh"
#include "common/cuda/overlap.cuh"

using Input = INPUT;
using Value = ROW;
using Code = CODE;

namespace silva {

constexpr int TILE_VALUES = 4096, N_THREADS = 512, WARP = 32, LANE_ROWS = 4, MOST_COLUMNS = 64;
constexpr int TILE_ROWS = TILE_VALUES / COLUMNS, CHUNK_ROWS = WARP * LANE_ROWS, N_CHUNKS = TILE_ROWS / CHUNK_ROWS;
constexpr int N_WARPS = N_THREADS / WARP, N_QUADS = TILE_VALUES / N_THREADS / LANE_ROWS;
constexpr int QUAD_STEP = N_THREADS / COLUMNS * LANE_ROWS;  // rows between the quads of a thread

// Neighbouring rows of a column, read and written in pieces of 16 bytes.
template <class Type>
struct alignas(sizeof(Type) * LANE_ROWS < 16 ? sizeof(Type) * LANE_ROWS : 16) Quad {
  Type values[LANE_ROWS];
};

// What a block does: columns of codes, the first of its tiles of rows, and how many tiles it is to the next.
struct alignas(16) Job {
  int begin, end, first_tile, step;
};

// Rows of a tile, and the columns first ... first + n_columns - 1.
struct Tile {
  int first_row, first_column, n_columns;
};

struct Rows {
  const Input* X;
  long long row_stride, feature_stride;
  int n_rows;
};

// A quad more a column, so that the quads of eight columns lie in different banks.
struct alignas(16) TileValues {
  Value of[COLUMNS][TILE_ROWS + LANE_ROWS];
};

// Reads the values of a tile that a thread writes to shared memory: quads of one feature.
__device__ __forceinline__ void read_tile(const Rows& rows, const int* feature, const Tile& tile,
                                          Input (&values)[N_QUADS][LANE_ROWS]) {
  const int column = threadIdx.x % COLUMNS, first = threadIdx.x / COLUMNS * LANE_ROWS;
  if (column >= tile.n_columns) return;
  const Input* const source =
      rows.X + feature[tile.first_column + column] * rows.feature_stride + (tile.first_row + first) * rows.row_stride;
  const int n_mine = rows.n_rows - tile.first_row - first;
#pragma unroll
  for (int q = 0; q < N_QUADS; ++q)
#pragma unroll
    for (int k = 0; k < LANE_ROWS; ++k)
      if (q * QUAD_STEP + k < n_mine) values[q][k] = source[(q * QUAD_STEP + k) * rows.row_stride];
}

__device__ __forceinline__ void turn_tile(const Input (&values)[N_QUADS][LANE_ROWS], TileValues& tile) {
  const int column = threadIdx.x % COLUMNS, first = threadIdx.x / COLUMNS * LANE_ROWS;
#pragma unroll
  for (int q = 0; q < N_QUADS; ++q) {
    Quad<Value> quad;
#pragma unroll
    for (int k = 0; k < LANE_ROWS; ++k) quad.values[k] = Value(values[q][k]);
    *reinterpret_cast<Quad<Value>*>(&tile.of[column][first + q * QUAD_STEP]) = quad;
  }
}

// Finds the codes of a lane's four rows and writes them; 0 beyond the rows.
__device__ __forceinline__ void write_codes(const CodeTables<Value>& columns, const Column& column,
                                            const Thresholds<Value>& thresholds, const Value* values, int n_rows,
                                            Code* target) {
  Quad<Value> x = *reinterpret_cast<const Quad<Value>*>(values);
  unsigned code[LANE_ROWS];
  codes_of(columns, column, thresholds, x.values, code);
  Quad<Code> quad;
#pragma unroll
  for (int k = 0; k < LANE_ROWS; ++k) quad.values[k] = Code(code[k]);
  if (n_rows < LANE_ROWS)
#pragma unroll
    for (int k = 0; k < LANE_ROWS; ++k) quad.values[k] = k < n_rows ? quad.values[k] : Code(0);
  *reinterpret_cast<Quad<Code>*>(target) = quad;
}

// Begins to copy a whole number of 16 bytes; both sides are aligned to it.
template <class Type>
__device__ __forceinline__ void copy_chunks(const Type* source, long long n, Type* target) {
  for (int i = threadIdx.x; i < n * sizeof(Type) / 16; i += N_THREADS)
    copy_chunk(reinterpret_cast<uint4*>(target) + i, reinterpret_cast<const uint4*>(source) + i);
}

}  // namespace silva

// A run that does not fit stays where it is: shared_entries says how many thresholds fit. The values of the next tile
// are on their way to registers while the codes of one are found.
extern "C" __global__ void __launch_bounds__(silva::N_THREADS, 2)
    encode_rows_kernel(const Input* __restrict__ X, long long row_stride, long long feature_stride, int n_rows,
                       long long stride, const silva::Job* __restrict__ jobs, int shared_entries, CODE_TABLE_PARAMETERS,
                       Code* __restrict__ codes) {
  using namespace silva;
  extern __shared__ uint4 memory[];
  let_next_begin();
  __shared__ TileValues values;
  __shared__ Column described[MOST_COLUMNS];
  const CodeTables<Value> columns = CODE_TABLES;
  const Job job = jobs[blockIdx.x];
  const Rows rows{X, row_stride, feature_stride, n_rows};
  const int n_stored = int(stride);
  const auto tile_at = [&](int first_row, int column) {
    return Tile{first_row, column, min(COLUMNS, job.end - column)};
  };
  Input read[N_QUADS][LANE_ROWS] = {};
  Tile tile = tile_at(job.first_tile * TILE_ROWS, job.begin);
  if (tile.first_row < n_stored) read_tile(rows, feature, tile, read);
  const long long origin = offsets[job.begin], n_entries = offsets[job.end] - origin;
  const bool fits = n_entries <= shared_entries;
  Value* const staged = reinterpret_cast<Value*>(memory);
  unsigned char* const staged_starts = reinterpret_cast<unsigned char*>(staged + shared_entries);
  if (fits) {
    copy_chunks(thresholds + origin, n_entries, staged);
    copy_chunks(bucket_starts + 4 * origin, 4 * n_entries, staged_starts);
  }
  end_copies();
  if (int(threadIdx.x) < job.end - job.begin)
    described[threadIdx.x] = describe_column(columns, job.begin + threadIdx.x, origin);
  await_copies<0>();
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  while (tile.first_row < n_stored) {
    __syncthreads();
    turn_tile(read, values);
    __syncthreads();
    const int next_column = tile.first_column + COLUMNS;
    const Tile next = next_column < job.end ? tile_at(tile.first_row, next_column)
                                            : tile_at(tile.first_row + job.step * TILE_ROWS, job.begin);
    if (next.first_row < n_stored) read_tile(rows, feature, next, read);
    for (int unit = warp; unit < tile.n_columns * N_CHUNKS; unit += N_WARPS) {
      const int place = unit / N_CHUNKS, first = unit % N_CHUNKS * CHUNK_ROWS + lane * LANE_ROWS;
      const int c = tile.first_column + place, row = tile.first_row + first;
      if (row >= n_stored) continue;
      const Column& column = described[c - job.begin];
      const Value* const mine = values.of[place] + first;
      Code* const target = codes + c * stride + row;
      // Two calls, so that each knows which memory its pointers name.
      if (fits)
        write_codes(columns, column, {staged + column.at, staged_starts + 4 * column.at}, mine, n_rows - row, target);
      else
        write_codes(columns, column, thresholds_of(columns, c), mine, n_rows - row, target);
    }
    tile = next;
  }
}
