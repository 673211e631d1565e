// Values from the entries of tables: totals by feature.
#pragma once
#include "explain/tables/entries.h"

namespace silva {
namespace {

template <class Real, int L>
void add_values(const PassTask<Real>& task, const PassSpace<Real>& space, const TableChunk& chunk, int row,
                int n_rows) {
  const Real* sums = space.sums;
  double* total = space.total + row * space.n_slots;
  if (!task.plan.is_wide) {
    for (int i = 0; i < n_rows * L; ++i) total[i] += double(sums[i]);
    return;
  }
  const int32_t* columns = task.plan.slot_column + chunk.first_slot;
  for (int r = 0; r < n_rows; ++r, total += space.n_slots, sums += L) {
    SILVA_UNROLL
    for (int i = 0; i < chunk.n_slots; ++i) total[uint32_t(columns[i])] += double(sums[i]);
  }
}

template <class Real, class Out>
void write_totals(const PassTask<Real>& task, const PassSpace<Real>& space, const ExplanationTarget<Out>& out,
                  int output, int64_t first_row, int n_rows) {
  if (!task.adds)
    for (int row = 0; row < n_rows; ++row)
      for (int64_t f = 0; f < task.coding.n_features; ++f)
        out.data[(first_row + row) * out.row_stride + f * out.feature_stride + output * out.output_stride] = 0;
  for (int row = 0; row < n_rows; ++row)
    for (int c = 0; c < task.n_columns; ++c) {
      Out& to = out.data[(first_row + row) * out.row_stride + task.columns[c].feature * out.feature_stride +
                         output * out.output_stride];
      to = Out(double(to) + space.total[row * space.n_slots + c]);
    }
}

// One block of rows, all outputs.
template <class Real>
void pass_values(const PassTask<Real>& task, PassSpace<Real>& space, int64_t first_row, int n_rows) {
  for (int output = 0; output < task.n_outputs; ++output) {
    __builtin_memset(space.total, 0, sizeof(double) * space.stride * space.n_slots);
    if (task.plan.lanes == 8)
      pass_chunks<Real, 8>(task, space, output, n_rows, [&](const TableChunk& chunk, int row, int n) {
        add_values<Real, 8>(task, space, chunk, row, n);
      });
    else
      pass_chunks<Real, 16>(task, space, output, n_rows, [&](const TableChunk& chunk, int row, int n) {
        add_values<Real, 16>(task, space, chunk, row, n);
      });
    if (task.double_out)
      write_totals(task, space, task.out64, output, first_row, n_rows);
    else
      write_totals(task, space, task.out32, output, first_row, n_rows);
  }
}

}  // namespace
}  // namespace silva
