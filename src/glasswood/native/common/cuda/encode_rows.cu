// Rows to rank codes, [column][stride], stride a multiple of 4. A block takes a few columns, whose thresholds fit into
// its shared memory, and every few tiles of rows. Tiles turn around in shared memory: rows are read along their
// features and codes are written along the rows, four a lane; all lanes of a warp search one column, so what describes
// it is broadcast. Instructions limit it: each thread keeps to one column and each warp to two, whatever the tile.
//
// Macros: INPUT (type of X), ROW (type of the thresholds), CODE (of the codes), COLUMNS (of a block at most: 32 are
// whole lines of memory; 8 are sectors, whose few thresholds are copied soon), AT_ONCE (chunks of 128 rows of a column
// that a warp takes at once: 1 or 2).
#include "common/cuda/async.cuh"
#include "common/cuda/encode.cuh"

using Input = INPUT;
using Value = ROW;
using Code = CODE;

namespace glasswood {

constexpr int N_THREADS = 512, WARP = 32, LANE_ROWS = 4, CHUNK_ROWS = WARP * LANE_ROWS, N_WARPS = N_THREADS / WARP;
constexpr int TILE_ROWS = COLUMNS == 32 ? AT_ONCE * CHUNK_ROWS : 4 * CHUNK_ROWS;
constexpr int N_QUADS = TILE_ROWS * COLUMNS / N_THREADS / LANE_ROWS, N_UNITS = N_QUADS / AT_ONCE;
constexpr int UNITS_PER_COLUMN = TILE_ROWS / CHUNK_ROWS / AT_ONCE;
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

// A quad more a column, so that the quads of eight columns lie in different banks.
struct alignas(16) TileValues {
  Value of[COLUMNS][TILE_ROWS + LANE_ROWS];
};

// Reads what a thread takes to shared memory of a tile, from its first value on: quads of one feature, up to the last
// row.
__device__ __forceinline__ void read_tile(const Input* first, long long row_stride, int n_rows,
                                          Input (&values)[N_QUADS][LANE_ROWS]) {
#pragma unroll
  for (int q = 0; q < N_QUADS; ++q) {
    const Input* source = first + q * QUAD_STEP * row_stride;
#pragma unroll
    for (int k = 0; k < LANE_ROWS; ++k, source += row_stride)
      if (q * QUAD_STEP + k < n_rows) values[q][k] = *source;
  }
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

// The lane's rows of some chunks, four of each.
template <int n_chunks>
__device__ __forceinline__ void read_values(const Value* source, Value (&x)[n_chunks * LANE_ROWS]) {
#pragma unroll
  for (int c = 0; c < n_chunks; ++c) {
    const Quad<Value> quad = *reinterpret_cast<const Quad<Value>*>(source + c * CHUNK_ROWS);
#pragma unroll
    for (int k = 0; k < LANE_ROWS; ++k) x[c * LANE_ROWS + k] = quad.values[k];
  }
}

// Writes their codes: 0 behind the last row, and nothing where there is no room.
template <int n_chunks>
__device__ __forceinline__ void write_codes(const unsigned (&code)[n_chunks * LANE_ROWS], int n_rows, int n_room,
                                            Code* target) {
#pragma unroll
  for (int c = 0; c < n_chunks; ++c) {
    Quad<Code> quad;
#pragma unroll
    for (int k = 0; k < LANE_ROWS; ++k) quad.values[k] = Code(code[c * LANE_ROWS + k]);
    if (n_rows < TILE_ROWS)
#pragma unroll
      for (int k = 0; k < LANE_ROWS; ++k) quad.values[k] = c * CHUNK_ROWS + k < n_rows ? quad.values[k] : Code(0);
    if (c * CHUNK_ROWS < n_room) *reinterpret_cast<Quad<Code>*>(target + c * CHUNK_ROWS) = quad;
  }
}

// Finds the codes of a lane's rows in AT_ONCE chunks, one after the other.
__device__ __forceinline__ void encode_chunks(const CodeTables<Value>& columns, const Column& column,
                                              const Thresholds<Value>& thresholds, const Value* source, int n_rows,
                                              int n_room, Code* target) {
#pragma unroll 1
  for (int first = 0; first < AT_ONCE * CHUNK_ROWS; first += CHUNK_ROWS) {
    Value x[LANE_ROWS];
    unsigned code[LANE_ROWS];
    read_values<1>(source + first, x);
    codes_of(columns, column, thresholds, x, code);
    write_codes<1>(code, n_rows - first, n_room - first, target + first);
  }
}

// Begins to copy a whole number of 16 bytes; both sides are aligned to it.
template <class Type>
__device__ __forceinline__ void copy_chunks(const Type* source, long long n, Type* target) {
  for (int i = threadIdx.x; i < n * sizeof(Type) / 16; i += N_THREADS)
    copy_chunk(reinterpret_cast<uint4*>(target) + i, reinterpret_cast<const uint4*>(source) + i);
}

}  // namespace glasswood

// Thresholds of columns that do not fit stay where they are: shared_entries says how many fit. The values of the next
// tile are on their way to registers while the codes of one are found.
extern "C" __global__ void __launch_bounds__(glasswood::N_THREADS, 2)
    encode_rows_kernel(const Input* __restrict__ X, long long row_stride, long long feature_stride, int n_rows,
                       long long stride, const glasswood::Job* __restrict__ jobs, int shared_entries,
                       CODE_TABLE_PARAMETERS, Code* __restrict__ codes) {
  using namespace glasswood;
  extern __shared__ uint4 memory[];
  let_next_begin();
  __shared__ TileValues values;
  __shared__ Column described[COLUMNS];
  const CodeTables<Value> columns = CODE_TABLES;
  const Job job = jobs[blockIdx.x];
  const int n_columns = job.end - job.begin, n_stored = int(stride), step = job.step * TILE_ROWS;
  const int own = threadIdx.x % COLUMNS, first = threadIdx.x / COLUMNS * LANE_ROWS;
  int first_row = job.first_tile * TILE_ROWS;
  Input read[N_QUADS][LANE_ROWS] = {};
  const Input* source = X + first * row_stride + feature[job.begin + min(own, n_columns - 1)] * feature_stride;
  const auto read_next = [&](int row) {
    const Input* const mine = source + row * row_stride;
    const int n_left = n_rows - row - first;
    if (own >= n_columns) return;
    // Two calls, so that most tiles ask for no row whether it is there.
    if (n_left >= TILE_ROWS)
      read_tile(mine, row_stride, TILE_ROWS, read);
    else
      read_tile(mine, row_stride, n_left, read);
  };
  read_next(first_row);
  const long long origin = offsets[job.begin], n_entries = offsets[job.end] - origin;
  const bool fits = n_entries <= shared_entries;
  Value* const staged = reinterpret_cast<Value*>(memory);
  unsigned char* const staged_starts = reinterpret_cast<unsigned char*>(staged + shared_entries);
  if (fits) {
    copy_chunks(thresholds + origin, n_entries, staged);
    copy_chunks(bucket_starts + 4 * origin, 4 * n_entries, staged_starts);
  }
  end_copies();
  if (int(threadIdx.x) < n_columns) described[threadIdx.x] = describe_column(columns, job.begin + threadIdx.x, origin);
  await_copies<0>();
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  for (; first_row < n_stored; first_row += step) {
    __syncthreads();
    turn_tile(read, values);
    __syncthreads();
    read_next(first_row + step);
#pragma unroll 1
    for (int u = 0; u < N_UNITS; ++u) {
      const int unit = warp + u * N_WARPS, place = unit / UNITS_PER_COLUMN;
      const int in_tile = unit % UNITS_PER_COLUMN * AT_ONCE * CHUNK_ROWS + lane * LANE_ROWS, row = first_row + in_tile;
      if (place >= n_columns) continue;
      const Column& column = described[place];
      const Value* const mine = values.of[place] + in_tile;
      Code* const target = codes + (job.begin + place) * stride + row;
      const int n_left = n_rows - row, n_room = n_stored - row;
      // Each call knows which memory its pointers name.
      const Thresholds<Value> copied{staged + column.at, staged_starts + 4 * column.at};
      if (fits && is_plain(column)) {
        Value x[AT_ONCE * LANE_ROWS];
        unsigned code[AT_ONCE * LANE_ROWS];
        read_values<AT_ONCE>(mine, x);
        plain_codes_of(column, copied, x, code);
        write_codes<AT_ONCE>(code, n_left, n_room, target);
      } else if (fits) {
        encode_chunks(columns, column, copied, mine, n_left, n_room, target);
      } else {
        encode_chunks(columns, column, thresholds_of(columns, job.begin + place), mine, n_left, n_room, target);
      }
    }
  }
}
