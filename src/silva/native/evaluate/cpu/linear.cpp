#include <algorithm>
#include <numeric>

#include "common/linear_term.h"
#include "evaluate/cpu/linear_plan.h"

namespace silva {
namespace {

constexpr int kMostSorted = 512;  // rows
constexpr int kFewest = 2;        // rows a leaf, below which sorting costs more than it saves
constexpr int kTogether = 4;      // rows whose sums are independent of each other
constexpr int kApart = 4;         // neighbouring rows are counted apart: counting again waits for the last count

template <class Real>
struct Rows {
  const Real* data;
  int64_t row_stride, feature_stride;
  const Real* operator()(int64_t row) const { return data + row * row_stride; }
};

double value_of_any(const LinearModel& model, const LinearTerm* terms, const auto* row, int64_t feature_stride) {
  double sum = 0;
  bool is_missing = false;
  for (int64_t at = model.first; at < model.end; ++at) {
    const LinearTerm& term = terms[at];
    const double x = row[term.feature * feature_stride];
    is_missing |= lacks_number(x, term.category);
    sum += term.coefficient * term_deviation(x, term.category, term.mean);
  }
  return model_value(model.value + sum, is_missing, model.missing, model.low, model.high);
}

// Some rows of one leaf: `n` of those Together are added, the others repeat the first.
template <bool Means, int Together, class Real>
void add_rows(const LinearModel& model, const LinearTerm* terms, const Rows<Real>& rows, const int32_t* order, int n,
              double weight, double* sums) {
  const Real* row[Together];
  double sum[Together] = {};
  for (int i = 0; i < Together; ++i) row[i] = rows(order[i < n ? i : 0]);
  for (int64_t at = model.first; at < model.end; ++at) {
    const LinearTerm& term = terms[at];
    const int64_t offset = term.feature * rows.feature_stride;
    for (int i = 0; i < Together; ++i)
      sum[i] += term.coefficient * (Means ? double(row[i][offset]) - term.mean : double(row[i][offset]));
  }
  for (int i = 0; i < n; ++i) {
    // Not a number where one is missing, or infinities meet.
    const double value = sum[i] == sum[i] ? model_value(model.value + sum[i], false, kNoValue, model.low, model.high)
                                          : value_of_any(model, terms, row[i], rows.feature_stride);
    sums[order[i]] += weight * value;
  }
}

template <bool Means, int Together, class Real>
void add_leaf(const LinearModel& model, const LinearTerm* terms, const Rows<Real>& rows, const int32_t* order, int n,
              double weight, double* sums) {
  if (model.plain) {
    for (; n > 0; order += Together, n -= Together)
      add_rows<Means, Together>(model, terms, rows, order, n < Together ? n : Together, weight, sums);
    return;
  }
  for (int i = 0; i < n; ++i)
    sums[order[i]] += weight * value_of_any(model, terms, rows(order[i]), rows.feature_stride);
}

// Rows of one leaf follow each other, so that its terms are read once and the number of them is foreseen.
template <bool Means, class Real>
void add_tree(const LinearLeaves& leaves, int tree, const int32_t* leaf_of, const int32_t* places,
              const Rows<Real>& rows, int n_rows, double* sums) {
  const int64_t first = leaves.first_leaf[tree], n_leaves = leaves.first_leaf[tree + 1] - first;
  const double weight = leaves.weight[tree];
  if (n_rows > kMostSorted || n_leaves * kFewest > n_rows) {
    for (int32_t row = 0; row < n_rows; ++row)
      add_leaf<Means, 1>(leaves.model[leaf_of[places[row]]], leaves.term, rows, &row, 1, weight, sums);
    return;
  }
  int32_t next[kApart * kMostSorted / kFewest], place[kMostSorted], order[kMostSorted];  // next: [leaf][kApart]
  std::fill_n(next, kApart * n_leaves, 0);
  for (int row = 0; row < n_rows; ++row) {
    place[row] = kApart * int32_t(leaf_of[places[row]] - first) + row % kApart;
    ++next[place[row]];
  }
  std::exclusive_scan(next, next + kApart * n_leaves, next, 0);
  for (int row = 0; row < n_rows; ++row) order[next[place[row]]++] = row;
  for (int64_t i = 0, at = 0, end = 0; i < n_leaves; ++i, at = end) {
    end = next[kApart * i + kApart - 1];
    add_leaf<Means, kTogether>(leaves.model[first + i], leaves.term, rows, order + at, int(end - at), weight, sums);
  }
}

template <class Real>
void add_tree(const LinearLeaves& leaves, int tree, const int32_t* leaf_of, const int32_t* places,
              const RowSource& source, int64_t first_row, int n_rows, double* sums) {
  const Rows<Real> rows{static_cast<const Real*>(source.data) + first_row * source.row_stride, source.row_stride,
                        source.feature_stride};
  if (leaves.any_mean)
    add_tree<true>(leaves, tree, leaf_of, places, rows, n_rows, sums);
  else
    add_tree<false>(leaves, tree, leaf_of, places, rows, n_rows, sums);
}

void add(const LinearLeaves& leaves, int tree, const int32_t* leaf_of, const int32_t* places, const RowSource& rows,
         int64_t first_row, int n_rows, double* sums) {
  if (rows.is_double)
    add_tree<double>(leaves, tree, leaf_of, places, rows, first_row, n_rows, sums);
  else
    add_tree<float>(leaves, tree, leaf_of, places, rows, first_row, n_rows, sums);
}

}  // namespace

LinearPlan::LinearPlan(const ForestView& forest) {
  if (!forest.is_linear()) return;
  weight_.assign(forest.tree_weight.begin(), forest.tree_weight.end());
  const int64_t n_leaves = int64_t(forest.leaf_value.size());
  for (int64_t leaf = 0; leaf < n_leaves; ++leaf) {
    const int64_t first = int64_t(terms_.size());
    bool plain = true;
    for (int64_t t = forest.linear_offsets[leaf]; t < forest.linear_offsets[leaf + 1]; ++t) {
      terms_.push_back(
          {forest.linear_feature[t], forest.linear_category[t], forest.linear_coefficient[t], forest.linear_mean[t]});
      plain &= forest.linear_category[t] == kTermOfNumber;
      any_mean_ |= forest.linear_mean[t] != 0;
    }
    models_.push_back({first, int64_t(terms_.size()), forest.leaf_value[leaf], forest.leaf_range[2 * leaf],
                       forest.leaf_range[2 * leaf + 1],
                       forest.leaf_missing.empty() ? kNoValue : forest.leaf_missing[leaf], plain});
  }
  for (int64_t node = 0, leaf = 0, tree = 0; tree <= forest.n_trees(); ++tree) {
    for (; node < forest.tree_offsets[tree]; ++node) leaf += !forest.is_split(node);
    first_leaf_.push_back(leaf);
  }
}

LinearLeaves LinearPlan::view() const {
  return {terms_.data(), models_.data(), first_leaf_.data(), weight_.data(), any_mean_, empty() ? nullptr : add};
}

}  // namespace silva
