// Interactions from the entries of tables: totals by pair of features, then dense matrices, a row at a time.
#pragma once
#include "explain/tables/entries.h"

namespace silva {
namespace {

template <class Real>
void add_pairs(const PassTask<Real>& task, const PassSpace<Real>& space, const TableChunk& chunk, double* total,
               int64_t n_totals, int n_rows) {
  const int n = n_pairs(chunk.n_slots), stride = chunk.state_vectors * kPairLanes;
  const int32_t* pair = task.plan.slot_pair + chunk.first_pair;
  const Real* sums = space.sums;
  for (int r = 0; r < n_rows; ++r, total += n_totals, sums += stride) {
    SILVA_UNROLL
    for (int i = 0; i < n; ++i) total[uint32_t(pair[i])] += double(sums[i]);
  }
}

// Where an output's totals of pairs are, and which columns they belong to.
template <class Real>
struct OutputPairs {
  const ColumnPair* pairs;
  int64_t n;

  OutputPairs(const PassTask<Real>& task, int output) {
    const int64_t* first = task.plan.first_pair + (task.plan.width > 1 ? 0 : output);
    pairs = task.plan.pairs + first[0], n = first[1] - first[0];
  }
};

template <class Real, class Out>
void clear_matrix(const PassTask<Real>& task, const ExplanationTarget<Out>& out, Out* matrix) {
  const int64_t F = task.coding.n_features, k = task.n_outputs;
  const bool is_dense = (k == 1 || out.output_stride == 1) && out.second_stride == k &&
                        (out.feature_stride == F * k || task.n_places == 1);
  if (is_dense) {
    __builtin_memset(matrix, 0, sizeof(Out) * task.n_places * F * k);
    return;
  }
  for (int64_t i = 0; i < task.n_places; ++i)
    for (int64_t j = 0; j < F; ++j)
      for (int64_t output = 0; output < k; ++output)
        matrix[i * out.feature_stride + j * out.second_stride + output * out.output_stride] = 0;
}

// Phi_ii = phi_i - Σ_{j != i} Phi_ij.
template <class Real, class Out>
void write_matrix(const PassTask<Real>& task, const PassSpace<Real>& space, const ExplanationTarget<Out>& out,
                  const OutputPairs<Real>& pairs, const double* total, Out* matrix) {
  const auto add = [&](int32_t a, int32_t b, double value) {
    const int32_t place = task.places[task.columns[a].feature];
    if (place < 0) return;
    Out& to = matrix[place * out.feature_stride + task.columns[b].feature * out.second_stride];
    to = Out(double(to) + value);
  };
  for (int c = 0; c < task.n_columns; ++c) space.main[c] = 0;
  for (int64_t i = 0; i < pairs.n; ++i) {
    const ColumnPair pair = pairs.pairs[i];
    if (pair.first == pair.second) {
      space.main[pair.first] += total[i];
      continue;
    }
    space.main[pair.first] -= total[i], space.main[pair.second] -= total[i];
    add(pair.first, pair.second, total[i]);
    add(pair.second, pair.first, total[i]);
  }
  for (int c = 0; c < task.n_columns; ++c) add(c, c, space.main[c]);
}

template <class Real, class Out>
void write_matrices(const PassTask<Real>& task, const PassSpace<Real>& space, const ExplanationTarget<Out>& out,
                    int64_t first_row, int n_rows) {
  for (int row = 0; row < n_rows; ++row) {
    Out* matrix = out.data + (first_row + row) * out.row_stride;
    if (!task.adds) clear_matrix(task, out, matrix);
    const double* total = space.total;
    for (int output = 0; output < task.n_outputs; ++output) {
      const OutputPairs<Real> pairs(task, output);
      write_matrix(task, space, out, pairs, total + row * pairs.n, matrix + output * out.output_stride);
      total += space.stride * pairs.n;
    }
  }
}

// One block of rows. The outputs of a row are written together: they lie side by side in the result.
template <class Real>
void pass_pairs(const PassTask<Real>& task, PassSpace<Real>& space, int64_t first_row, int n_rows) {
  __builtin_memset(space.total, 0, sizeof(double) * space.stride * space.n_slots);
  double* total = space.total;
  for (int output = 0; output < task.n_outputs; ++output) {
    const OutputPairs<Real> pairs(task, output);
    pass_chunks<Real, kPairLanes>(task, space, output, n_rows, [&](const TableChunk& chunk, int row, int n) {
      add_pairs(task, space, chunk, total + row * pairs.n, pairs.n, n);
    });
    total += space.stride * pairs.n;
  }
  if (task.double_out)
    write_matrices(task, space, task.out64, first_row, n_rows);
  else
    write_matrices(task, space, task.out32, first_row, n_rows);
}

}  // namespace
}  // namespace silva
