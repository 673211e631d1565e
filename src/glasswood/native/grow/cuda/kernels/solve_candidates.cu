// Errors of a leaf's model at the candidates of a threshold search, whose sums stand on the GPU: a block a candidate.
// It adds up what lies on the leaf's side of the candidate, bin after bin behind the sums that are known of every
// eighth candidate (grow/cuda/kernels/advance_sums.cu), and eliminates the model's columns
// as `eliminate` of grow/sums/gram.h does, every entry by the same operations in the same order: both find the same
// error, to the last bit.
//
// A thread keeps a tile of 4 x 4 entries in registers. The rows of four pivots pass through shared memory: a thread a
// column takes them out of one another, and factorises their diagonal tile for itself, as it would wait longer for
// others; then all threads take them out of their tiles. What limits is the chain of roots and quotients, so that
// blocks should stand beside each other on a multiprocessor: the fewer registers the better.
#include "grow/cuda/shared/records.h"
#include "grow/sums/tolerances.h"

namespace glasswood {

constexpr int kPanel = kSolveTile;
constexpr int kSolveRegisters = 96;  // of a thread, so that none is spilled: two blocks of 91 columns a multiprocessor

struct PivotRows {
  double rows[kPanel][kMostSolved], done[kPanel][kMostSolved];  // before and after their elimination
  double scale[kMostSolved], centred[kMostSolved];              // the diagonal, as it was and about the leaf's means
  int columns[kMostSolved];
};

__device__ __forceinline__ double larger_of(double a, double b) { return a > b ? a : b; }

// On the leaf's side of candidate k. A lane a bin, as each would be waited for: whole numbers are added in any order.
__device__ __forceinline__ double rows_before(const SolveRecord& record, int k) {
  const int lane = threadIdx.x % 32;
  double count = lane == 0 && record.base ? record.base[0] : 0;
  for (int bin = lane; bin <= k; bin += 32) count += record.bins[bin * record.step];
#pragma unroll
  for (int apart = 16; apart; apart /= 2) count += __shfl_xor_sync(0xffffffffu, count, apart);
  return count;
}

// The four rows from `first` on lose one another; those that are pivots, not y's, are scaled. A thread a column.
__device__ __forceinline__ void eliminate_panel(PivotRows& shared, int first, int n_pivots, int side) {
  const int column = first + int(threadIdx.x), n = n_pivots - first < kPanel ? n_pivots - first : kPanel;
  if (column >= side) return;
  double diagonal[kPanel][kPanel], own[kPanel];
#pragma unroll
  for (int a = 0; a < kPanel; ++a) {
    own[a] = shared.rows[a][column];
#pragma unroll
    for (int b = a; b < kPanel; ++b) diagonal[a][b] = first + b < side ? shared.rows[a][first + b] : 0;
#pragma unroll
    for (int i = 0; i < a; ++i) {
      if (i >= n) continue;
      own[a] = fma(-diagonal[i][a], own[i], own[a]);
#pragma unroll
      for (int b = a; b < kPanel; ++b) diagonal[a][b] = fma(-diagonal[i][a], diagonal[i][b], diagonal[a][b]);
    }
    if (a < n) {
      const int pivot = first + a;
      const double scale = shared.scale[pivot];
      const double centred = first ? shared.centred[pivot] : a ? fma(-diagonal[0][a], diagonal[0][a], scale) : 0;
      const double limit = pivot ? larger_of(kCollinear * centred, kConstant * scale) : 0;
      const double factor = diagonal[a][a] > limit ? 1 / sqrt(diagonal[a][a]) : 0;
      own[a] *= factor;
#pragma unroll
      for (int b = a; b < kPanel; ++b) diagonal[a][b] *= factor;
      if (pivot == 0) shared.centred[column] = fma(-own[0], own[0], shared.scale[column]);
    }
    shared.done[a][column] = own[a];
  }
}

extern "C" __global__ void __maxnreg__(kSolveRegisters)
    solve_candidates_kernel(const SolveRecord* __restrict__ records, int n_records, const int32_t* __restrict__ columns,
                            double* __restrict__ answers) {
  __shared__ PivotRows shared;
  const SolveRecord record = records[record_of(records, n_records, &SolveRecord::first_block, int32_t(blockIdx.x))];
  const int k = int(blockIdx.x) - record.first_block, n_pivots = record.n_solved, side = n_pivots + 1;
  double* answer = answers + record.first_answer + 2 * k;
  const double count = rows_before(record, k);
  if (threadIdx.x == 0) answer[0] = count;
  if (count < record.least_rows) return;
  const int mine = threadIdx.x;
  if (mine < side) shared.columns[mine] = mine < n_pivots ? columns[record.first_column + mine] : record.width - 1;
  __syncthreads();

  const int n_rows = (side + kPanel - 1) / kPanel;
  const bool has_tile = mine < n_tiles(n_rows);
  const int row = has_tile ? tile_row(mine, n_rows) : n_rows, column = has_tile ? tile_column(mine, n_rows) : 0;
  // Entry (r, c) of the tile stands at lines[r] + places[c]; those below the diagonal or behind y are none.
  int lines[kPanel], places[kPanel];
  const auto counts = [=](int r, int c) {
    return kPanel * row + r <= kPanel * column + c && kPanel * column + c < side;
  };
#pragma unroll
  for (int i = 0; i < kPanel; ++i) {
    const int a = kPanel * row + i, b = kPanel * column + i, low = a < side ? shared.columns[a] : 0;
    lines[i] = 1 + low * record.width - low * (low - 1) / 2 - low;
    places[i] = b < side ? shared.columns[b] : 0;
  }
  const int n_summed = (k + 1) / kSummedBins;
  const double* before =
      n_summed ? record.sums + int64_t(n_summed - 1) * (1 + record.width * (record.width + 1) / 2) : record.base;
  double entries[kPanel][kPanel];
#pragma unroll
  for (int r = 0; r < kPanel; ++r)
#pragma unroll
    for (int c = 0; c < kPanel; ++c) entries[r][c] = before && counts(r, c) ? before[lines[r] + places[c]] : 0;
  const double* from = record.bins + n_summed * kSummedBins * record.step;
#pragma unroll 1
  for (int left = (k + 1) % kSummedBins; left; --left, from += record.step)
#pragma unroll
    for (int r = 0; r < kPanel; ++r)
#pragma unroll
      for (int c = 0; c < kPanel; ++c)
        if (counts(r, c)) entries[r][c] += from[lines[r] + places[c]];
  if (has_tile && row == column)
#pragma unroll
    for (int r = 0; r < kPanel; ++r)
      if (kPanel * row + r < side) shared.scale[kPanel * row + r] = entries[r][r];

  for (int panel = 0; kPanel * panel < n_pivots; ++panel) {
    if (row == panel)
#pragma unroll
      for (int r = 0; r < kPanel; ++r)
#pragma unroll
        for (int c = 0; c < kPanel; ++c)
          if (counts(r, c)) shared.rows[r][kPanel * column + c] = entries[r][c];
    __syncthreads();
    eliminate_panel(shared, kPanel * panel, n_pivots, side);
    __syncthreads();
    if (row <= panel || !has_tile) continue;
#pragma unroll
    for (int i = 0; i < kPanel; ++i) {
      double left[kPanel], above[kPanel];
#pragma unroll
      for (int r = 0; r < kPanel; ++r) {
        left[r] = shared.done[i][kPanel * row + r];
        above[r] = shared.done[i][kPanel * column + r];
      }
#pragma unroll
      for (int r = 0; r < kPanel; ++r)
#pragma unroll
        for (int c = 0; c < kPanel; ++c) entries[r][c] = fma(-left[r], above[c], entries[r][c]);
    }
  }
  // y's row belongs to the last panel, or to a tile of its own.
  if (n_pivots % kPanel) {
    if (mine == 0) answer[1] = larger_of(shared.done[n_pivots % kPanel][n_pivots], 0);
  } else if (row == n_rows - 1) {
    answer[1] = larger_of(entries[0][0], 0);
  }
}

}  // namespace glasswood
