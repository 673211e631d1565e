// Rows to rank codes (silva/cuda/codes.py). A block turns a tile of 32 rows and 32 columns around in shared memory, so
// that rows are read along their features and codes are written along the rows.
//
// Macros: INPUT (type of X), ROW (type of the thresholds), CODE (of the codes).
#include "encode.h"

namespace silva {

constexpr int TILE = 32, TILE_ROWS = 8;

}  // namespace silva

extern "C" __global__ void __launch_bounds__(silva::TILE* silva::TILE_ROWS)
    encode_rows_kernel(const silva::Input* __restrict__ X, long long row_stride, long long feature_stride, int n_rows,
                       long long stride, const silva::Columns* __restrict__ tables, silva::Code* __restrict__ codes) {
  using namespace silva;
  __shared__ Value tile[TILE][TILE + 1];
  const Columns columns = *tables;
  const int n_columns = int(columns.n_columns);
  const int first_row = blockIdx.x * TILE;
  for (int first = blockIdx.y * TILE; first < n_columns; first += gridDim.y * TILE) {
    const int mine = first + threadIdx.x;
    for (int r = threadIdx.y; r < TILE; r += TILE_ROWS)
      if (mine < n_columns && first_row + r < n_rows)
        tile[r][threadIdx.x] = Value(X[(first_row + r) * row_stride + columns.feature[mine] * feature_stride]);
    __syncthreads();
    for (int c = threadIdx.y; c < TILE; c += TILE_ROWS) {
      const int column = first + c, row = first_row + threadIdx.x;
      if (column < n_columns && row < stride)
        codes[column * stride + row] = Code(row < n_rows ? encode(columns, column, tile[threadIdx.x][c]) : 0);
    }
    __syncthreads();
  }
}
