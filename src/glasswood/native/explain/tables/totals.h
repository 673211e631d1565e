// Sums of chunks go to an output's totals, totals of all outputs to the result, a row at a time: the outputs of a row
// lie side by side there.
#pragma once
#include "explain/tables/entries.h"

namespace glasswood {
namespace {

// Where an output's totals are, and which players they belong to.
template <class Real>
struct OutputTotals {
  const PlayerPair* players;
  int64_t n, stride;  // of a row

  OutputTotals(const PassTask<Real>& task, int output) {
    const int64_t* first = task.plan.first_total + (task.plan.width > 1 ? 0 : output);
    players = task.plan.totals + first[0], n = first[1] - first[0];
    stride = task.plan.is_wide ? n : lanes_of_totals(task.n_players);
  }
};

template <class Real, int L>
void add_sums(const PassTask<Real>& task, const PassSpace<Real>& space, const TableChunk& chunk, double* total,
              int64_t stride, int n_rows) {
  const Real* sums = space.sums;
  if (!task.plan.is_wide && chunk.state_vectors * L == stride) {  // slots are totals
    for (int64_t i = 0; i < n_rows * stride; ++i) total[i] += double(sums[i]);
    return;
  }
  const int32_t* to = task.plan.sum_total + chunk.first_sum;
  for (int r = 0; r < n_rows; ++r, total += stride, sums += chunk.state_vectors * L) {
    GLASSWOOD_UNROLL
    for (int i = 0; i < chunk.n_sums; ++i) total[uint32_t(to[i])] += double(sums[i]);
  }
}

// The result of one row: by players asked for (of matrices alone), players, outputs.
template <class Real, class Out>
class RowResult {
 public:
  RowResult(const PassTask<Real>& task, const ExplanationTarget<Out>& out, int64_t row)
      : task_(task), out_(out), row_(out.data + row * out.row_stride), of_pairs_(task.places) {}

  void clear() const {
    const int64_t n_first = of_pairs_ ? task_.n_places : 1, P = task_.n_result_players, k = task_.n_outputs;
    const int64_t step = of_pairs_ ? out_.second_stride : out_.feature_stride;
    if ((k == 1 || out_.output_stride == 1) && step == k && (n_first == 1 || out_.feature_stride == P * k)) {
      __builtin_memset(row_, 0, sizeof(Out) * n_first * P * k);
      return;
    }
    for (int64_t i = 0; i < n_first; ++i)
      for (int64_t p = 0; p < P; ++p)
        for (int64_t o = 0; o < k; ++o) row_[i * out_.feature_stride + p * step + o * out_.output_stride] = 0;
  }

  void add(const OutputTotals<Real>& totals, const double* total, double* main, int output) const {
    Out* to = row_ + output * out_.output_stride;
    if (of_pairs_) return add_matrix(totals, total, main, to);
    for (int64_t i = 0; i < totals.n; ++i) add_to(to[place(totals.players[i].first) * out_.feature_stride], total[i]);
  }

 private:
  const PassTask<Real>& task_;
  const ExplanationTarget<Out>& out_;
  Out* row_;
  bool of_pairs_;

  int64_t place(int32_t player) const { return task_.players[player]; }
  static void add_to(Out& to, double value) { to = Out(double(to) + value); }

  void add_entry(Out* to, int32_t a, int32_t b, double value) const {
    const int32_t at = task_.places[place(a)];
    if (at >= 0) add_to(to[at * out_.feature_stride + place(b) * out_.second_stride], value);
  }

  // Phi_ii = phi_i - Σ_{j != i} Phi_ij.
  void add_matrix(const OutputTotals<Real>& totals, const double* total, double* main, Out* to) const {
    for (int p = 0; p < task_.n_players; ++p) main[p] = 0;
    for (int64_t i = 0; i < totals.n; ++i) {
      const auto [a, b] = totals.players[i];
      if (a == b) {
        main[a] += total[i];
        continue;
      }
      main[a] -= total[i], main[b] -= total[i];
      add_entry(to, a, b, total[i]);
      add_entry(to, b, a, total[i]);
    }
    for (int p = 0; p < task_.n_players; ++p) add_entry(to, p, p, main[p]);
  }
};

template <class Real, class Out>
void write_rows(const PassTask<Real>& task, const PassSpace<Real>& space, const ExplanationTarget<Out>& out,
                int64_t first_row, int n_rows) {
  for (int row = 0; row < n_rows; ++row) {
    const RowResult<Real, Out> result(task, out, first_row + row);
    if (!task.adds) result.clear();
    const double* total = space.total;
    for (int output = 0; output < task.n_outputs; ++output) {
      const OutputTotals<Real> totals(task, output);
      result.add(totals, total + row * totals.stride, space.main, output);
      total += space.stride * totals.stride;
    }
  }
}

}  // namespace
}  // namespace glasswood
