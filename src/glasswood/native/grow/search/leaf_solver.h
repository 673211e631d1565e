// The residual of a leaf's model from its sums, or from its rows where the sums have lost the digits that it needs.
#pragma once
#include <algorithm>
#include <numeric>
#include <vector>

#include "grow/data/columns.h"
#include "grow/search/gram_cache.h"
#include "grow/tasks/task_runner.h"

namespace glasswood {

class LeafSolver {
 public:
  LeafSolver(const GrowData& data, TaskRunner& tasks)
      : data_(data), tasks_(tasks), kernels_(grow_kernels()), all_columns_(data, all_features(data)) {}

  // Residual sum of squares of the model of the leaf with this box.
  double residual(const Box& box, const LeafStats& stats, const FeatureSet& model, Scratch& s) const {
    const double* gram = imputed(stats.gram, s);
    model_columns(data_, model, s.columns);
    if (is_narrow(gram, s.columns)) {
      collect_rows(data_, box, s.rows);
      drop_constant(gram, s);
      if (is_narrow(gram, s.columns)) gram = recentred(gram, s);
    }
    Buffers::SmallArray work(tasks_.buffers(), work_size(int(s.columns.size())));
    return kernels_.residual(gram, data_.width, s.columns.data(), int(s.columns.size()), work.data());
  }

  // The sums with the leaf's means in place of missing values.
  const double* imputed(const std::vector<double>& gram, Scratch& s) const {
    if (all_columns_.imputed().empty()) return gram.data();
    s.gram = gram;
    impute(all_columns_.imputed(), data_.width, s.gram.data());
    return s.gram.data();
  }

 private:
  static constexpr double kNarrow = 1e-5;

  double centred_square(const double* gram, int column) const {
    const double sum = gram[packed(0, column, data_.width)];
    return gram[packed(column, column, data_.width)] - sum * sum / gram[0];
  }

  // Whether a column varies so little beside its distance from the mean of all rows that centring cancels the digits
  // that the residual needs. Columns that do not vary at all are left out of it.
  bool is_narrow(const double* gram, int column) const {
    const double centred = centred_square(gram, column), raw = gram[packed(column, column, data_.width)];
    return centred < kNarrow * raw && (centred > kConstant * raw || column == data_.width - 1);
  }
  bool is_narrow(const double* gram, const std::vector<int32_t>& columns) const {
    const auto is_one = [&](int column) { return is_narrow(gram, column); };
    return is_one(data_.width - 1) || std::any_of(columns.begin() + 1, columns.end(), is_one);
  }

  // Drops the narrow columns of s.columns that are constant in s.rows: what sums found by subtraction say of them is
  // rounding. A look at their ranks costs a hundredth of the sums about the leaf's own means.
  void drop_constant(const double* gram, Scratch& s) const {
    for (int a = 0; a < data_.n_features; ++a) {
      const auto at = std::find(s.columns.begin() + 1, s.columns.end(), data_.column[a]);
      if (data_.column[a] < 0 || at == s.columns.end() || !is_narrow(gram, *at)) continue;
      const int32_t* ranks = data_.ranks_of(a);
      int32_t first = -1;
      const auto differs = [&](int32_t row) {
        if (first < 0) first = ranks[row];
        return ranks[row] >= 0 && ranks[row] != first;
      };
      if (std::none_of(s.rows.begin(), s.rows.end(), differs)) s.columns.erase(at);
    }
  }

  // The sums about the leaf's own means from its rows, s.rows, without the columns that are constant up to rounding.
  const double* recentred(const double* gram, Scratch& s) const {
    const int width = data_.width;
    std::erase_if(s.columns,
                  [&](int32_t c) { return c > 0 && centred_square(gram, c) <= kConstant * gram[packed(c, c, width)]; });
    std::vector<double> means(width, 0);
    for (int c = 1; c < width; ++c) means[c] = gram[packed(0, c, width)] / gram[0];
    std::vector<double> z(width * kLanes + kLanes);
    std::vector<int32_t> lanes(kLanes);
    std::iota(lanes.begin(), lanes.end(), 0);
    s.recentred.assign(packed_size(width), 0);
    for (size_t first = 0; first < s.rows.size(); first += kLanes) {
      const size_t count = std::min<size_t>(kLanes, s.rows.size() - first);
      for (size_t i = 0; i < count; ++i) recentre_row(s.rows[first + i], means, z.data() + i * width);
      kernels_.accumulate({z.data(), nullptr, size_t(width)}, width, lanes.data(), count, s.recentred.data());
    }
    s.rows_read += int64_t(s.rows.size());
    return s.recentred.data();
  }

  // Missing values stand at the mean, so at 0.
  void recentre_row(int32_t row, const std::vector<double>& means, double* out) const {
    const StoredRows& z = data_.z;
    out[0] = z.at(row, 0);
    for (int c = 1; c < data_.width; ++c) out[c] = z.at(row, c) - means[c] * out[0];
    for (int a = 0; a < data_.n_features; ++a)
      if (data_.indicator[a] >= 0 && z.at(row, data_.indicator[a]) != 0) out[data_.column[a]] = 0;
  }

  const GrowData& data_;
  TaskRunner& tasks_;
  const GrowKernels& kernels_;
  const ModelColumns all_columns_;
};

}  // namespace glasswood
