// SHAP values of a small forest in one launch: a block takes 32 rows, turns them into codes in shared memory, walks a
// chunk of trees a warp, and adds the chunks up in the order of explain/cuda/sum_slots.cu. For a forest of ten trees
// launches and the memory between them cost more than the walk.
//
// Macros: those of explain/cuda/explain_rows.cu, INPUT (type of X), ROW (type of the thresholds).
#include "common/cuda/encode.cuh"
#include "explain/cuda/row.cuh"

using Input = INPUT;
using Value = ROW;
using Code = CODE;

namespace glasswood {

constexpr int WARP = 32, MOST_WARPS = 16;

// Walks the chunk for the lane's row; codes are [column][32], sums [slot][33].
GLASSWOOD_DEVICE void walk_chunk(const Quad* tape, const Code* codes, Real* sums) {
  Walk<POINTS, DeviceRow> walk;
  walk.row.codes = reinterpret_cast<const char*>(codes);
  walk.row.code_stride = WARP * unsigned(sizeof(Code));
  walk.row.sums = shared_address(sums);
  walk.chunk<HEIGHT, LEVELS>(tape);
}

// Adds up the chunks of up to 32 rows. Neighbouring threads write neighbouring numbers: most of a wide row is zeros,
// whose writing takes longer than all the rest.
GLASSWOOD_DEVICE void write_rows(const Real* sums, const long long* __restrict__ slot_starts,
                                 const long long* __restrict__ slots, int n_entries, int n_rows,
                                 Real* __restrict__ rows) {
  int width = 1;
  while (width < n_entries && width < WARP) width *= 2;
  const int at_once = blockDim.x / width, first = threadIdx.x / width;
  if (first >= at_once) return;
  for (int entry = threadIdx.x % width; entry < n_entries; entry += width) {
    const long long begin = slot_starts[entry], end = slot_starts[entry + 1];
    for (int row = first; row < n_rows; row += at_once) {
      double sum = 0;
      for (long long at = begin; at < end; ++at) sum += sums[slots[at] * sum_stride() + row];
      rows[row * static_cast<long long>(n_entries) + entry] = Real(sum);
    }
  }
}

}  // namespace glasswood

// At least one block: without the number the compiler guesses how many would be good and spills for them.
extern "C" __global__ void __launch_bounds__(glasswood::WARP* glasswood::MOST_WARPS, 1)
    explain_small_kernel(const Input* __restrict__ X, long long row_stride, long long feature_stride, int n_rows,
                         int n_columns, CODE_TABLE_PARAMETERS, const glasswood::Quad* __restrict__ tape,
                         const long long* __restrict__ chunk_starts, const long long* __restrict__ slot_offsets,
                         int n_chunks, int n_slots, int n_entries, const long long* __restrict__ slot_starts,
                         const long long* __restrict__ slots, Real* __restrict__ result) {
  using namespace glasswood;
  extern __shared__ double memory[];
  const CodeTables<Value> columns = CODE_TABLES;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n_warps = blockDim.x / WARP;
  const int first_row = blockIdx.x * WARP, row = min(first_row + lane, n_rows - 1);
  Real* const sums = reinterpret_cast<Real*>(memory);
  Code* const codes = reinterpret_cast<Code*>(sums + n_slots * sum_stride()) + lane;
  const Input* values = X + row * row_stride;
  for (int column = warp; column < n_columns; column += n_warps) {
    Value x[1] = {Value(values[feature[column] * feature_stride])};
    unsigned code[1];
    codes_of(columns, describe_column(columns, column), thresholds_of(columns, column), x, code);
    codes[column * WARP] = Code(code[0]);
  }
  __syncthreads();
  for (int chunk = warp; chunk < n_chunks; chunk += n_warps) {
    walk_chunk(tape + chunk_starts[chunk], codes, sums + slot_offsets[chunk] * sum_stride() + lane);
  }
  __syncthreads();
  write_rows(sums, slot_starts, slots, n_entries, min(WARP, n_rows - first_row),
             result + first_row * static_cast<long long>(n_entries));
}
