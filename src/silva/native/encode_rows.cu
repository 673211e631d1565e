// Rows to rank codes (silva/cuda/codes.py). A block turns a tile of 32 rows and 32 columns around in shared memory, so
// that rows are read along their features and codes are written along the rows.
//
// Macros: INPUT (type of X), ROW (type of the thresholds), CODE (of the codes).
namespace silva {

using Input = INPUT;
using Value = ROW;
using Code = CODE;

constexpr int TILE = 32, TILE_ROWS = 8;

struct Columns {
  const int *feature, *category_set, *missing;
  const long long* offsets;
  const Value* thresholds;
  const long long* set_offsets;
  const unsigned* set_words;
  const bool *set_others_left, *zero_missing;
  Value zero_threshold, missing_value;
};

__device__ __forceinline__ bool in_set(const Columns& columns, int set, Value smallest, Value x) {
  const long long first = columns.set_offsets[set], n_bits = (columns.set_offsets[set + 1] - first) * 32;
  // Truncated: -0.5 may count as category 0, which an empty set does not hold.
  if (x < smallest || trunc(x) >= Value(n_bits)) return columns.set_others_left[set];
  const int category = int(x);
  return columns.set_words[first + category / 32] >> (category % 32) & 1;
}

__device__ __forceinline__ int encode(const Columns& columns, int column, Value x) {
  if (columns.zero_missing != nullptr || columns.zero_threshold > 0)
    if (x <= columns.zero_threshold && x >= -columns.zero_threshold) x = 0;
  const bool zero_is_missing = columns.zero_missing != nullptr && columns.zero_missing[columns.feature[column]];
  if (x != x || x == columns.missing_value || (zero_is_missing && x == 0)) return columns.missing[column];
  const long long begin = columns.offsets[column], end = columns.offsets[column + 1];
  if (columns.category_set[column] >= 0)
    return !in_set(columns, columns.category_set[column], columns.thresholds[begin], x);
  long long low = begin, high = end;
  while (low < high) {
    const long long middle = (low + high) / 2;
    // No number reaches the threshold +inf, not even +inf.
    if (columns.thresholds[middle] <= x && columns.thresholds[middle] - columns.thresholds[middle] == 0)
      low = middle + 1;
    else
      high = middle;
  }
  return int(low - begin);
}

}  // namespace silva

extern "C" __global__ void __launch_bounds__(silva::TILE* silva::TILE_ROWS)
    encode_rows_kernel(const silva::Input* __restrict__ X, long long row_stride, long long feature_stride, int n_rows,
                       int n_columns, long long stride, const int* feature, const int* category_set, const int* missing,
                       const long long* offsets, const silva::Value* thresholds, const long long* set_offsets,
                       const unsigned* set_words, const bool* set_others_left, const bool* zero_missing,
                       double zero_threshold, double missing_value, silva::Code* __restrict__ codes) {
  using namespace silva;
  __shared__ Value tile[TILE][TILE + 1];
  const Columns columns{feature,
                        category_set,
                        missing,
                        offsets,
                        thresholds,
                        set_offsets,
                        set_words,
                        set_others_left,
                        zero_missing,
                        Value(zero_threshold),
                        Value(missing_value)};
  const int first_row = blockIdx.x * TILE;
  for (int first = blockIdx.y * TILE; first < n_columns; first += gridDim.y * TILE) {
    const int mine = first + threadIdx.x;
    for (int r = threadIdx.y; r < TILE; r += TILE_ROWS)
      if (mine < n_columns && first_row + r < n_rows)
        tile[r][threadIdx.x] = Value(X[(first_row + r) * row_stride + feature[mine] * feature_stride]);
    __syncthreads();
    for (int c = threadIdx.y; c < TILE; c += TILE_ROWS) {
      const int column = first + c, row = first_row + threadIdx.x;
      if (column < n_columns && row < stride)
        codes[column * stride + row] = Code(row < n_rows ? encode(columns, column, tile[threadIdx.x][c]) : 0);
    }
    __syncthreads();
  }
}
