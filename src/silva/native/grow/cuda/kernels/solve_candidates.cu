// Errors of a leaf's model at the candidates of a threshold search, whose sums stand on the GPU: a block a candidate.
// It adds up what lies on the leaf's side of the candidate, bin after bin, and eliminates the model's columns
// as `eliminate` of grow/sums/gram.h does, every entry by the same operations in the same order: both find the same
// error, to the last bit.
//
// A thread keeps a tile of 4 x 4 entries in registers. The rows of four pivots lie in shared memory, where the first
// warp scales them and takes them out of one another; all threads take them out of their tiles.
#include "grow/cuda/shared/records.h"
#include "grow/sums/tolerances.h"

namespace silva {

constexpr int kPanel = kSolveTile;

struct PivotRows {
  double rows[kPanel][kMostSolved];
  double scale[kMostSolved], centred[kMostSolved];  // the diagonal, as it was and about the leaf's means
  int columns[kMostSolved];
};

__device__ __forceinline__ double larger_of(double a, double b) { return a > b ? a : b; }

// The four rows from `first` on lose one another; those that are pivots, not y's, are scaled before.
__device__ __forceinline__ void eliminate_panel(PivotRows& shared, int first, int n_pivots, int side) {
  constexpr unsigned ALL = 0xffffffffu;
  constexpr int CHUNKS = (kMostSolved + 31) / 32;
  const int lane = threadIdx.x, last = n_pivots - first < kPanel ? n_pivots - first : kPanel;
  double v[kPanel][CHUNKS];
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
    for (int r = 0; r < kPanel; ++r) {
      const int column = first + 32 * chunk + lane;
      v[r][chunk] = column < side ? shared.rows[r][column] : 0;
    }
#pragma unroll
  for (int a = 0; a < kPanel; ++a) {
    if (a >= last) break;
    const double diagonal = __shfl_sync(ALL, v[a][0], a);
    const int pivot = first + a;
    const double limit = pivot ? larger_of(kCollinear * shared.centred[pivot], kConstant * shared.scale[pivot]) : 0;
    const double factor = diagonal > limit ? 1 / sqrt(diagonal) : 0;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk) v[a][chunk] *= factor;
    if (pivot == 0) {
#pragma unroll
      for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        const int column = 32 * chunk + lane;
        if (column < side) shared.centred[column] = fma(-v[a][chunk], v[a][chunk], shared.scale[column]);
      }
      __syncwarp();
    }
#pragma unroll
    for (int r = a + 1; r < kPanel; ++r) {
      const double left = __shfl_sync(ALL, v[a][0], r);
#pragma unroll
      for (int chunk = 0; chunk < CHUNKS; ++chunk) v[r][chunk] = fma(-left, v[a][chunk], v[r][chunk]);
    }
  }
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
    for (int r = 0; r < kPanel; ++r) {
      const int column = first + 32 * chunk + lane;
      if (column < side) shared.rows[r][column] = v[r][chunk];
    }
}

extern "C" __global__ void __launch_bounds__(kMostSolvers)
    solve_candidates_kernel(const SolveRecord* __restrict__ records, int n_records, const int32_t* __restrict__ columns,
                            double* __restrict__ answers) {
  __shared__ PivotRows shared;
  const SolveRecord record = records[record_of(records, n_records, &SolveRecord::first_block, int32_t(blockIdx.x))];
  const int k = int(blockIdx.x) - record.first_block, n_pivots = record.n_solved, side = n_pivots + 1;
  double* answer = answers + record.first_answer + 2 * k;
  double count = record.base ? record.base[0] : 0;
  for (int bin = 0; bin <= k; ++bin) count += record.bins[bin * record.step];
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
  double entries[kPanel][kPanel];
#pragma unroll
  for (int r = 0; r < kPanel; ++r)
#pragma unroll
    for (int c = 0; c < kPanel; ++c)
      entries[r][c] = record.base && counts(r, c) ? record.base[lines[r] + places[c]] : 0;
  const double* from = record.bins;
#pragma unroll 2
  for (int bin = 0; bin <= k; ++bin, from += record.step)
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
    if (threadIdx.x < 32) eliminate_panel(shared, kPanel * panel, n_pivots, side);
    __syncthreads();
    if (row > panel && has_tile) {
#pragma unroll
      for (int i = 0; i < kPanel; ++i) {
        double left[kPanel], above[kPanel];
#pragma unroll
        for (int r = 0; r < kPanel; ++r) {
          left[r] = shared.rows[i][kPanel * row + r];
          above[r] = shared.rows[i][kPanel * column + r];
        }
#pragma unroll
        for (int r = 0; r < kPanel; ++r)
#pragma unroll
          for (int c = 0; c < kPanel; ++c) entries[r][c] = fma(-left[r], above[c], entries[r][c]);
      }
    }
    __syncthreads();
  }
  // y's row belongs to the last panel, or to a tile of its own.
  if (n_pivots % kPanel) {
    if (mine == 0) answer[1] = larger_of(shared.rows[n_pivots % kPanel][n_pivots], 0);
  } else if (row == n_rows - 1) {
    answer[1] = larger_of(entries[0][0], 0);
  }
}

}  // namespace silva
