// Which features are worth a search for a split, where models are wide. The exact gain of a candidate takes the Gram
// matrices of both sides; here the leaf's own model stands in for them, as in tests for structural change (Zeileis,
// Hothorn & Hornik 2008, doi:10.1198/106186008X319331): scores are residuals times features, whitened by the leaf's
// Gram matrix, and a candidate is worth as much as their sums on its two sides differ. The split feature and the
// intercept, whose spread a candidate changes most, are treated exactly.
#pragma once
#include <limits>
#include <vector>

#include "grow/search/candidates.h"
#include "grow/search/evaluator.h"

namespace glasswood {

class SplitScores {
 public:
  // The model's scores on the rows, which must outlive this.
  SplitScores(const Evaluator& evaluator, const RowList& rows, const FeatureSet& model, Scratch& s)
      : e_(evaluator),
        data_(evaluator.data()),
        rows_(rows),
        model_(model),
        columns_(columns_of(evaluator, model)),
        residuals_(rows.size()),
        values_(evaluator.tasks().buffers(), size_t(data_.width) * rows.size()),
        scores_(evaluator.tasks().buffers(), rows.size() * pitch()) {
    sum(s);
    factorise();
    score(s);
  }

  // The largest gain of a candidate of the feature, negated so that smaller is better; infinite if no candidate leaves
  // enough rows on both sides.
  double best(int feature, bool missing_left) const {
    FeatureSet wide = model_;
    if (data_.column[feature] >= 0) wide.set(feature, true);
    const int64_t least = e_.limits().least_rows(wide);
    const std::vector<int32_t> order = sorted(feature);
    const auto rank = [&](int64_t at) { return data_.rank(rows_[order[at]], feature); };
    const int64_t n = int64_t(order.size());
    int64_t first = 0;
    while (first < n && rank(first) < 0) ++first;
    const std::vector<double> direction = direction_of(feature);
    Line all;
    add(feature, order.data(), n, all);
    Sums left(pitch());
    if (missing_left) add(feature, order.data(), first, left);
    double most = -std::numeric_limits<double>::infinity();
    int64_t at = first;
    for (int j = 0; j < n_targets(first, n); ++j) {
      const int64_t target = grid_target(first, n, j), candidate = next_change(rank, std::max(target, at + 1), n);
      if (candidate >= n) break;
      add(feature, order.data() + at, candidate - at, left);
      at = candidate;
      if (left.line.n_rows < least || n - left.line.n_rows < least) continue;
      most = std::max(most, gain(left, all, direction));
    }
    return -most;
  }

 private:
  // What a line in the split feature is fitted to.
  struct Line {
    int64_t n_rows = 0;
    double weight = 0, x = 0, xx = 0, e = 0, xe = 0;

    Line without(const Line& other) const {
      return {n_rows - other.n_rows, weight - other.weight, x - other.x, xx - other.xx, e - other.e, xe - other.xe};
    }
    // What it takes off the residuals.
    double gain() const {
      if (weight <= 0) return 0;
      const double spread = xx - x * x / weight, slope = xe - x * e / weight;
      return e * e / weight + (spread > kCollinear * xx ? slope * slope / spread : 0);
    }
  };
  // Over the rows on the left.
  struct Sums {
    explicit Sums(int n_scores) : scores(n_scores, 0) {}
    Line line;
    std::vector<double> scores;
  };

  static constexpr int kChunkRows = 512;  // the sums are added chunk by chunk, by however many threads

  static std::vector<int32_t> columns_of(const Evaluator& evaluator, const FeatureSet& model) {
    std::vector<int32_t> columns;
    model_columns(evaluator.data(), model, columns);
    return columns;
  }

  int n_columns() const { return int(columns_.size()); }
  int pitch() const { return int(score_pitch(n_columns())); }
  int n_chunks() const { return int((rows_.size() + kChunkRows - 1) / kChunkRows); }
  size_t chunk_rows(int chunk) const { return std::min<size_t>(kChunkRows, rows_.size() - size_t(chunk) * kChunkRows); }

  // Gram matrix of the rows, whose values are copied meanwhile.
  void sum(Scratch& s) {
    const size_t n_entries = packed_size(data_.width);
    Buffers::Array<double> grams(e_.tasks().buffers(), n_entries * n_chunks());
    e_.tasks().fork(n_chunks(), s, [&](int chunk, Scratch& own) {
      double* gram = grams.data() + chunk * n_entries;
      std::fill(gram, gram + n_entries, 0.0);
      kernels_.accumulate(data_.z, data_.width, rows_.data() + chunk * kChunkRows, chunk_rows(chunk), gram);
      copy_columns(size_t(chunk) * kChunkRows, chunk_rows(chunk));
      own.rows_read += int64_t(chunk_rows(chunk));
    });
    gram_.assign(n_entries, 0);
    for (int chunk = 0; chunk < n_chunks(); ++chunk)
      for (size_t i = 0; i < n_entries; ++i) gram_[i] += grams.data()[chunk * n_entries + i];
  }

  // Line j of factor_ is column j of the Cholesky factor.
  void factorise() {
    const int k = n_columns(), side = k + 1;
    Buffers::Array<double> work(e_.tasks().buffers(), work_size(k));
    kernels_.residual(gram_.data(), data_.width, columns_.data(), k, work.data());
    factor_.resize(size_t(side) * side);
    for (int j = 0; j < side; ++j)
      for (int i = 0; i <= j; ++i) factor_[j * side + i] = work.data()[i * side + j];
  }

  void score(Scratch& s) {
    e_.tasks().fork(n_chunks(), s, [&](int chunk, Scratch&) {
      const size_t first = size_t(chunk) * kChunkRows;
      kernels_.score(data_.z, rows_.data() + first, chunk_rows(chunk), columns_.data(), n_columns(), data_.width - 1,
                     factor_.data(), scores_.data() + first * pitch(), residuals_.data() + first);
    });
  }

  // One behind the other: in the order of a feature they would be read from all over memory.
  void copy_columns(size_t first, size_t count) {
    constexpr size_t kBlock = 16;  // rows whose lines stay in the first cache
    const size_t n = rows_.size();
    for (size_t at = first; at < first + count; at += kBlock)
      for (int c = 0; c < data_.width; ++c)
        for (size_t i = at; i < std::min(at + kBlock, first + count); ++i)
          values_.data()[c * n + i] = data_.z.at(rows_[i], c);
  }

  // Positions in rows_ by rank, missing ones first.
  std::vector<int32_t> sorted(int feature) const {
    const int32_t* ranks = data_.ranks_of(feature);
    std::vector<int32_t> order(rows_.size()), spare(rows_.size());
    std::iota(order.begin(), order.end(), 0);
    sort_by_key([&](int32_t i) { return ranks[rows_[i]] + 1; }, data_.n_distinct[feature], order.data(), spare.data(),
                rows_.size());
    return order;
  }

  void add(int feature, const int32_t* order, int64_t count, Line& sum) const {
    const int column = data_.column[feature];
    const double *ones = values_.data(), *xs = column >= 0 ? ones + column * rows_.size() : nullptr;
    for (int64_t i = 0; i < count; ++i) {
      const double one = ones[order[i]], x = xs ? xs[order[i]] : 0, e = residuals_[order[i]];
      sum.weight += one * one, sum.x += one * x, sum.xx += x * x, sum.e += one * e, sum.xe += x * e;
    }
    sum.n_rows += count;
  }
  void add(int feature, const int32_t* order, int64_t count, Sums& sum) const {
    add(feature, order, count, sum.line);
    kernels_.add_rows(scores_.data(), pitch(), order, size_t(count), sum.scores.data());
  }

  // The direction of the feature among the whitened columns behind the intercept, of length 1.
  std::vector<double> direction_of(int feature) const {
    const int k = n_columns(), side = k + 1, column = data_.column[feature];
    std::vector<double> v(k, 0);
    double length = 0;
    for (int j = 0; j < k && column >= 0; ++j) {
      v[j] = gram_[packed(columns_[j], column, data_.width)];
      for (int i = 0; i < j; ++i) v[j] -= v[i] * factor_[j * side + i];
      const double pivot = factor_[j * side + j];
      v[j] = pivot > 0 ? v[j] / pivot : 0;
      if (j) length += v[j] * v[j];
    }
    for (double& entry : v) entry = length > 0 ? entry / std::sqrt(length) : 0;
    return v;
  }

  double gain(const Sums& left, const Line& all, const std::vector<double>& direction) const {
    const double share = left.line.weight / all.weight;
    double others = 0, along = 0;
    for (size_t j = 1; j < direction.size(); ++j) {
      others += left.scores[j] * left.scores[j];
      along += left.scores[j] * direction[j];
    }
    return left.line.gain() + all.without(left.line).gain() +
           std::max(others - along * along, 0.0) / (share * (1 - share));
  }

  const Evaluator& e_;
  const GrowKernels& kernels_ = grow_kernels();
  const GrowData& data_;
  const RowList& rows_;
  FeatureSet model_;
  std::vector<int32_t> columns_;
  std::vector<double> gram_, factor_, residuals_;
  Buffers::Array<double> values_;  // by column of z
  Buffers::Array<float> scores_;
};

}  // namespace glasswood
