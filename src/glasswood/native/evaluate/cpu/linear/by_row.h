// Rows as the caller has them, sorted by leaf where they are many. Included by evaluate/cpu/linear/kernels.cpp only.
#pragma once
#include "common/linear_term.h"
#include "evaluate/cpu/linear/leaves.h"

namespace glasswood {
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
  auto numbers(const Real* row) const {
    return [row, this](const LinearTerm& term) { return double(row[term.feature * feature_stride]); };
  }
};

// number(term) is the row's number that a term takes.
template <class Number>
double value_of_any(const LinearLeaves& leaves, int64_t leaf, const Number& number) {
  const LinearModel* model = leaves.model + leaf;
  double sum = 0;
  bool is_missing = false;
  for (int64_t at = model[0].first; at < model[1].first; ++at) {
    const double x = number(leaves.term[at]), mean = leaves.mean ? leaves.mean[at] : 0;
    is_missing |= lacks_number(x, leaves.category[at]);
    sum += leaves.term[at].coefficient * term_deviation(x, leaves.category[at], mean);
  }
  const LinearBounds& bounds = leaves.bounds[leaf];
  return model_value(model->value + sum, is_missing, bounds.missing, bounds.low, bounds.high);
}

// Some rows of one leaf: `n` of those Together are added, the others repeat the first.
template <bool Means, int Together, class Real>
void add_rows(const LinearLeaves& leaves, int64_t leaf, const Rows<Real>& rows, const int32_t* order, int n,
              double weight, double* sums) {
  const LinearModel* model = leaves.model + leaf;
  const Real* row[Together];
  double sum[Together] = {};
  for (int i = 0; i < Together; ++i) row[i] = rows(order[i < n ? i : 0]);
  for (int64_t at = model[0].first; at < model[1].first; ++at) {
    const LinearTerm& term = leaves.term[at];
    const int64_t offset = term.feature * rows.feature_stride;
    for (int i = 0; i < Together; ++i)
      sum[i] += term.coefficient * (Means ? double(row[i][offset]) - leaves.mean[at] : double(row[i][offset]));
  }
  for (int i = 0; i < n; ++i) {
    double value = model->value + sum[i];
    if (sum[i] != sum[i])  // one is missing, or infinities meet
      value = value_of_any(leaves, leaf, rows.numbers(row[i]));
    else if (!leaves.plain)
      value = model_value(value, false, kNoValue, leaves.bounds[leaf].low, leaves.bounds[leaf].high);
    sums[order[i]] += weight * value;
  }
}

template <bool Means, int Together, class Real>
void add_leaf(const LinearLeaves& leaves, int64_t leaf, const Rows<Real>& rows, const int32_t* order, int n,
              double weight, double* sums) {
  if (leaves.plain || leaves.bounds[leaf].plain) {
    for (; n > 0; order += Together, n -= Together)
      add_rows<Means, Together>(leaves, leaf, rows, order, n < Together ? n : Together, weight, sums);
    return;
  }
  for (int i = 0; i < n; ++i) sums[order[i]] += weight * value_of_any(leaves, leaf, rows.numbers(rows(order[i])));
}

// Rows of one leaf follow each other, so that its terms are read once and the number of them is foreseen.
template <bool Means, class Real>
void add_by_row(const LinearLeaves& leaves, int tree, const int32_t* leaf_of, const int32_t* places,
                const LinearRows& given, double* sums) {
  const RowSource& source = given.source;
  const Rows<Real> rows{static_cast<const Real*>(source.data) + given.first_row * source.row_stride, source.row_stride,
                        source.feature_stride};
  const int n_rows = given.n_rows;
  const int64_t first = leaves.first_leaf[tree], n_leaves = leaves.first_leaf[tree + 1] - first;
  const double weight = leaves.weight[tree];
  if (n_rows > kMostSorted || n_leaves * kFewest > n_rows) {
    for (int32_t row = 0; row < n_rows; ++row)
      add_leaf<Means, 1>(leaves, leaf_of[places[row]], rows, &row, 1, weight, sums);
    return;
  }
  int32_t next[kApart * kMostSorted / kFewest], place[kMostSorted], order[kMostSorted];  // next: [leaf][kApart]
  for (int64_t i = 0; i < kApart * n_leaves; ++i) next[i] = 0;
  for (int row = 0; row < n_rows; ++row) {
    place[row] = kApart * int32_t(leaf_of[places[row]] - first) + row % kApart;
    ++next[place[row]];
  }
  for (int64_t i = 0, before = 0; i < kApart * n_leaves; ++i) {
    const int32_t count = next[i];
    next[i] = int32_t(before);
    before += count;
  }
  for (int row = 0; row < n_rows; ++row) order[next[place[row]]++] = row;
  for (int64_t i = 0, at = 0, end = 0; i < n_leaves; ++i, at = end) {
    end = next[kApart * i + kApart - 1];
    add_leaf<Means, kTogether>(leaves, first + i, rows, order + at, int(end - at), weight, sums);
  }
}

}  // namespace
}  // namespace glasswood
