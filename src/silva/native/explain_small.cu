// SHAP values of a small forest in one launch: a block takes 32 rows, turns them into codes in shared memory, walks a
// chunk of trees a warp, and adds the chunks up. For a forest of ten trees the launches and the memory between them cost
// more than the walk; sums have the order of sum_slots.cu.
//
// Macros: those of explain_rows.cu and of encode.h.
#include "explain_row.h"
// After it: the walk's types.
#include "encode.h"

namespace silva {

constexpr int TILE = 32, MOST_WARPS = 16;

// In the GPU's memory, written by silva/explain/cuda.py: 8 bytes each.
struct SmallForest {
  const Columns* columns;
  const Quad* tape;
  const long long *chunk_starts, *slot_offsets, *slot_starts, *slots, *target;
  long long n_chunks, n_slots, n_entries, row_size;
};

SILVA_DEVICE void walk_small(const SmallForest& forest, const Code* codes, Real* sums) {
  for (int chunk = threadIdx.y; chunk < forest.n_chunks; chunk += blockDim.y) {
    Walk<POINTS, DeviceRow> walk;
    walk.row.codes = reinterpret_cast<const char*>(codes + threadIdx.x);
    walk.row.code_stride = TILE * unsigned(sizeof(Code));
    const int first = int(forest.slot_offsets[chunk]), end = int(forest.slot_offsets[chunk + 1]);
    for (int slot = first; slot < end; ++slot) sums[slot * TILE + threadIdx.x] = 0;
    walk.row.sums = unsigned(__cvta_generic_to_shared(sums + first * TILE + threadIdx.x));
    walk.chunk<HEIGHT, LEVELS>(forest.tape + forest.chunk_starts[chunk]);
  }
}

}  // namespace silva

extern "C" __global__ void __launch_bounds__(silva::TILE* silva::MOST_WARPS)
    explain_small_kernel(const silva::SmallForest* __restrict__ tables, const silva::Input* __restrict__ X,
                         long long row_stride, long long feature_stride, int n_rows, Real* __restrict__ result) {
  using namespace silva;
  extern __shared__ double memory[];
  const SmallForest forest = *tables;
  const Columns columns = *forest.columns;
  Real* sums = reinterpret_cast<Real*>(memory);
  Code* codes = reinterpret_cast<Code*>(sums + forest.n_slots * TILE);
  const int row = blockIdx.x * TILE + threadIdx.x;
  const Input* values = X + min(row, n_rows - 1) * row_stride;
  for (int column = threadIdx.y; column < columns.n_columns; column += blockDim.y)
    codes[column * TILE + threadIdx.x] =
        Code(encode(columns, column, Value(values[columns.feature[column] * feature_stride])));
  __syncthreads();
  walk_small(forest, codes, sums);
  __syncthreads();
  if (row >= n_rows) return;
  for (int entry = threadIdx.y; entry < forest.n_entries; entry += blockDim.y) {
    const long long begin = forest.slot_starts[entry], end = forest.slot_starts[entry + 1];
    double sum = 0;
    for (long long at = begin; at < end; ++at) sum += sums[forest.slots[at] * TILE + threadIdx.x];
    result[row * forest.row_size + forest.target[entry]] = Real(sum);
  }
}
