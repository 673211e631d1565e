// Rows to rank codes, [column][stride], of columns with at most 255 thresholds: a lane takes a column, so that a warp
// reads a row along its features, and the lanes' thresholds alternate in shared memory, so that each lane stays in its
// own bank wherever its values lead it. Nothing turns around: a lane writes the codes of neighbouring rows at once, and
// warps wait for each other only for the thresholds.
//
// Macros: INPUT (type of X), ROW (type of the thresholds), CODE (of the codes).
#include "common/columns.h"

using Input = INPUT;
using Value = ROW;
using Code = CODE;

namespace silva {

constexpr int WARP = 32, N_THREADS = 512, LANE_ROWS = 16;
constexpr int AT_ONCE = 32 / sizeof(Value), WORD_ROWS = 4 / sizeof(Code);

// Columns that share a block, a lane each. Their thresholds lie in the image as [entry][lane], then the starts of their
// buckets as [bucket / 4][lane][4].
struct alignas(16) LaneGroup {
  int first_column, n_columns;
  int steps;  // the largest of the columns', if all are plain: in buckets, and nothing but NaN is missing; otherwise 0
  int n_entries;
  int first_chunk, n_chunks;  // of 16 bytes
  int reserved[2];
};

// A lane's column: where its values come from and its codes go to.
struct Lane {
  Column column;
  Thresholds<Value, WARP> thresholds;
  const Input* source;  // of row 0
  long long row_stride;
  Code* target;  // of row 0

  // LANE_ROWS rows from `row` on of a plain column.
  __device__ __forceinline__ void encode_plain(int steps, long long row) const {
    Input read[LANE_ROWS];
    const Input* from = source + row * row_stride;
#pragma unroll
    for (int k = 0; k < LANE_ROWS; ++k, from += row_stride) read[k] = *from;
    alignas(16) unsigned words[LANE_ROWS / WORD_ROWS] = {};
#pragma unroll
    for (int first = 0; first < LANE_ROWS; first += AT_ONCE) {
      Value x[AT_ONCE];
      unsigned code[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) x[k] = Value(read[first + k]);
      count_in_buckets(column, steps, thresholds, x, code);
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) {
        const int at = first + k;
        const unsigned found = x[k] == x[k] ? code[k] : unsigned(column.missing);
        words[at / WORD_ROWS] |= found << at % WORD_ROWS * (32 / WORD_ROWS);
      }
    }
#pragma unroll
    for (int i = 0; i < LANE_ROWS / WORD_ROWS / 4; ++i)
      reinterpret_cast<uint4*>(target + row)[i] = reinterpret_cast<const uint4*>(words)[i];
  }

  // The same for a column of any kind and rows that may end, 0 beyond the `n_mine` that there are.
  __device__ __forceinline__ void encode_any(const Columns<Value>& columns, long long row, int n_mine) const {
    constexpr int FEW = 2;
#pragma unroll 1
    for (int first = 0; first < LANE_ROWS; first += FEW) {
      Value x[FEW];
      unsigned code[FEW];
#pragma unroll
      for (int k = 0; k < FEW; ++k)
        x[k] = first + k < n_mine ? Value(source[(row + first + k) * row_stride]) : Value(0);
      codes_of(columns, column, thresholds, x, code);
#pragma unroll
      for (int k = 0; k < FEW; ++k) target[row + first + k] = Code(first + k < n_mine ? code[k] : 0);
    }
  }
};

}  // namespace silva

// Grid: blocks that share the rows × groups of columns. `stride` is a multiple of LANE_ROWS; codes beyond the rows
// are 0.
extern "C" __global__ void __launch_bounds__(silva::N_THREADS, 2)
    common_encode_columns_kernel(const Input* __restrict__ X, long long row_stride, long long feature_stride,
                                 int n_rows, long long stride, const silva::LaneGroup* __restrict__ groups,
                                 const uint4* __restrict__ image, const __grid_constant__ silva::Columns<Value> columns,
                                 Code* __restrict__ codes) {
  using namespace silva;
  extern __shared__ uint4 memory[];
  const LaneGroup group = groups[blockIdx.y];
  for (int i = threadIdx.x; i < group.n_chunks; i += N_THREADS) memory[i] = image[group.first_chunk + i];
  __syncthreads();
  const int number = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  if (number >= group.n_columns) return;
  const Value* const staged = reinterpret_cast<const Value*>(memory);
  const unsigned char* const starts = reinterpret_cast<const unsigned char*>(staged + group.n_entries * WARP);
  const Column column = columns.columns[group.first_column + number];
  const Lane lane{column,
                  {staged + number, starts + 4 * number},
                  X + column.feature * feature_stride,
                  row_stride,
                  codes + (group.first_column + number) * stride};
  const long long step = static_cast<long long>(gridDim.x) * (N_THREADS / WARP * LANE_ROWS);
  long long row = static_cast<long long>(blockIdx.x) * (N_THREADS / WARP * LANE_ROWS) + warp * LANE_ROWS;
  for (; group.steps > 0 && row + LANE_ROWS <= n_rows; row += step) lane.encode_plain(group.steps, row);
  for (; row < stride; row += step) lane.encode_any(columns, row, int(min(n_rows - row, LANE_ROWS + 0ll)));
}
