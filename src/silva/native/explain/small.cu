// SHAP values of a small forest in one launch: a block takes 32 rows, turns them into codes in shared memory, walks a
// chunk of trees a warp, and adds the chunks up in the order of explain/sum_slots.cu. For a forest of ten trees
// launches and the memory between them cost more than the walk.
//
// Macros: those of explain/rows.cu, INPUT (type of X), ROW (type of the thresholds).
#include "common/columns.h"
#include "explain/row.h"

using Input = INPUT;
using Value = ROW;
using Code = CODE;

namespace silva {

constexpr int WARP = 32, MOST_WARPS = 16;

// Walks the chunk for the lane's row; sums and codes are [slot or column][32].
SILVA_DEVICE void walk_chunk(const Quad* tape, const Code* codes, Real* sums, int n_slots) {
  Walk<POINTS, DeviceRow> walk;
  walk.row.codes = reinterpret_cast<const char*>(codes);
  walk.row.code_stride = WARP * unsigned(sizeof(Code));
  for (int slot = 0; slot < n_slots; ++slot) sums[slot * WARP] = 0;
  walk.row.sums = shared_address(sums);
  walk.chunk<HEIGHT, LEVELS>(tape);
}

}  // namespace silva

extern "C" __global__ void __launch_bounds__(silva::WARP* silva::MOST_WARPS)
    explain_small_kernel(const Input* __restrict__ X, long long row_stride, long long feature_stride, int n_rows,
                         int n_columns, const int* __restrict__ feature, const int* __restrict__ category_set,
                         const int* __restrict__ missing, const int* __restrict__ height,
                         const long long* __restrict__ offsets, const silva::Buckets* __restrict__ buckets,
                         const Value* __restrict__ thresholds, const unsigned char* __restrict__ starts_of_buckets,
                         const long long* set_offsets, const unsigned* set_words, const bool* set_others_left,
                         const bool* zero_missing, double zero_threshold, double missing_value,
                         const silva::Quad* __restrict__ tape, const long long* __restrict__ chunk_starts,
                         const long long* __restrict__ slot_offsets, int n_chunks, int n_slots, int n_entries,
                         const long long* __restrict__ slot_starts, const long long* __restrict__ slots,
                         const long long* __restrict__ target, long long row_size, Real* __restrict__ result) {
  using namespace silva;
  extern __shared__ double memory[];
  const Columns<Value> columns{feature,
                               category_set,
                               missing,
                               height,
                               offsets,
                               buckets,
                               thresholds,
                               starts_of_buckets,
                               set_offsets,
                               set_words,
                               set_others_left,
                               zero_missing,
                               Value(zero_threshold),
                               Value(missing_value)};
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n_warps = blockDim.x / WARP;
  const int row = blockIdx.x * WARP + lane;
  Real* const sums = reinterpret_cast<Real*>(memory) + lane;
  Code* const codes = reinterpret_cast<Code*>(reinterpret_cast<Real*>(memory) + n_slots * WARP) + lane;
  const Input* values = X + min(row, n_rows - 1) * row_stride;
  for (int column = warp; column < n_columns; column += n_warps) {
    Value x[1] = {Value(values[feature[column] * feature_stride])};
    unsigned code[1];
    codes_of(columns, column, thresholds_of(columns, column), x, code);
    codes[column * WARP] = Code(code[0]);
  }
  __syncthreads();
  for (int chunk = warp; chunk < n_chunks; chunk += n_warps) {
    const int first = int(slot_offsets[chunk]);
    walk_chunk(tape + chunk_starts[chunk], codes, sums + first * WARP, int(slot_offsets[chunk + 1]) - first);
  }
  __syncthreads();
  if (row >= n_rows) return;
  for (int entry = warp; entry < n_entries; entry += n_warps) {
    double sum = 0;
    for (long long at = slot_starts[entry]; at < slot_starts[entry + 1]; ++at) sum += sums[slots[at] * WARP];
    result[row * row_size + target[entry]] = Real(sum);
  }
}
