// The best threshold of a test, its subtrees kept: Gram matrices of the leaves on both sides run along the sorted
// rows, first on a coarse grid of cuts, then between the neighbours of the best one, down to single rows.
#pragma once
#include <limits>
#include <vector>

#include "grow_evaluate.h"

namespace silva {

struct SweepRequest {
  const Box* box;  // of the node
  int attribute;
  bool missing_left;
  const GrowTree* tree;
  int left, right;                // subtrees below the test; may be the same node
  const RowList* rows = nullptr;  // of the node or a sample of them; null: those of the box
  bool adjusted = false;          // scale errors by (n + k) / (n - k), for models that have yet to be thinned out
};

class ThresholdSweep {
 public:
  ThresholdSweep(const Evaluator& evaluator, const CoreReader& reader, Scratch& scratch)
      : e_(evaluator), reader_(reader), data_(evaluator.data()), s_(scratch) {}

  FoundCut run(const SweepRequest& request) {
    request_ = request;
    collect();
    add_leaves(request.left, true);
    add_leaves(request.right, false);
    Bracket all;
    all.last = int(rows_.size());
    for (const Leaf& leaf : leaves_) all.grams.push_back(leaf.missing), all.counts.push_back(leaf.n_missing);
    Cut best;
    refine(all, 2, best);
    return {best.position < 0 ? -1 : rank_at(best.position), best.error};
  }

 private:
  static constexpr int kGrid = 32;

  struct Leaf {
    bool on_left;
    int least_rows;
    std::vector<int32_t> columns;
    std::vector<int32_t> positions, rows;  // of the rows that reach it when the test sends them to its side
    std::vector<double> missing;
    int64_t n_missing = 0;
  };
  // Cuts strictly between two positions. Leaves on the left hold the rows before `first`, those on the right the rows
  // from `last` on.
  struct Bracket {
    int first = 0, last = 0;
    std::vector<std::vector<double>> grams;
    std::vector<int64_t> counts;
  };
  struct Cut {
    int position = -1;
    double error = std::numeric_limits<double>::infinity();
  };
  // Gram matrices of one leaf at every cut, entry-major, so that neighbouring cuts are lanes.
  struct Course {
    std::vector<double> grams;
    std::vector<int64_t> counts;
  };

  int32_t rank_at(int position) const { return data_.rank(rows_[position], request_.attribute); }

  void collect() {
    rows_.clear();
    missing_.clear();
    const Box& box = *request_.box;
    const int attribute = request_.attribute;
    const Interval interval = box.interval(data_, attribute);
    const int by = narrowest(data_, box);
    const int64_t span = rows_of_interval(data_, interval);
    if (request_.rows ? 4 * int64_t(request_.rows->size()) < span
                      : by >= 0 && 8 * rows_of_interval(data_, box[by]) < span) {
      if (request_.rows)
        sorted_ = *request_.rows;
      else
        collect_rows(data_, box, sorted_);
      sort_by_rank(data_, attribute, sorted_, s_.spare);
      for (const int32_t row : sorted_) (data_.rank(row, attribute) < 0 ? missing_ : rows_).push_back(row);
      return;
    }
    int skip = -1;
    for (int i = 0; i < box.size(); ++i)
      if (box[i].attribute == attribute) skip = i;
    visit_by_interval(data_, box, interval, skip,
                      [&](int32_t row) { (data_.rank(row, attribute) < 0 ? missing_ : rows_).push_back(row); });
  }

  void add_leaves(int root, bool on_left) {
    const GrowTree& tree = *request_.tree;
    const int end = subtree_end(tree, root);
    std::vector<int> index(end - root, -1);
    if (on_left) leaves_.clear();
    for (int v = root; v < end; ++v) {
      if (!tree[v].is_leaf()) continue;
      index[v - root] = int(leaves_.size());
      Leaf& leaf = leaves_.emplace_back();
      leaf.on_left = on_left;
      leaf.least_rows = e_.least_rows(tree[v].model);
      e_.model_columns(tree[v].model, leaf.columns);
      leaf.missing.assign(packed_size(data_.width), 0);
    }
    std::vector<int32_t> positions(rows_.size());
    std::iota(positions.begin(), positions.end(), 0);
    s_.spare.resize(rows_.size());
    share_out(root, root, index, positions.data(), int64_t(positions.size()));
    if (request_.missing_left != on_left) return;
    for (const int32_t row : missing_) {
      Leaf& leaf = leaves_[index[route(data_, tree, root, row) - root]];
      reader_.sum_rows(&row, 1, leaf.missing.data(), s_);
      ++leaf.n_missing;
    }
  }

  // Stable partition of positions down to the leaves.
  void share_out(int root, int v, const std::vector<int>& index, int32_t* positions, int64_t count) {
    const GrowTree& tree = *request_.tree;
    if (tree[v].is_leaf()) {
      Leaf& leaf = leaves_[index[v - root]];
      leaf.positions.assign(positions, positions + count);
      leaf.rows.resize(count);
      for (int64_t i = 0; i < count; ++i) leaf.rows[i] = rows_[positions[i]];
      return;
    }
    const Test& test = tree[v].test;
    const int32_t* ranks = data_.ranks_of(test.attribute);
    int64_t n_left = 0, n_right = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t position = positions[i];
      __builtin_prefetch(ranks + rows_[positions[std::min(i + kAhead, count - 1)]]);
      const bool left = test.left(ranks[rows_[position]]);
      positions[n_left] = position;
      s_.spare[n_right] = position;
      n_left += left;
      n_right += !left;
    }
    std::copy(s_.spare.begin(), s_.spare.begin() + n_right, positions + n_left);
    share_out(root, tree[v].left, index, positions, n_left);
    share_out(root, tree[v].right, index, positions + n_left, n_right);
  }

  // Positions where the rank changes, about evenly spaced.
  std::vector<int> cuts_between(int first, int last) const {
    std::vector<int> cuts;
    const int64_t span = last - first;
    const int64_t n_targets = std::min<int64_t>(span - 1, kGrid);
    for (int64_t j = 1; j <= n_targets; ++j) {
      int at = first + int(span * j / (n_targets + 1));
      at = std::max(at, cuts.empty() ? first + 1 : cuts.back() + 1);
      while (at < last && rank_at(at) == rank_at(at - 1)) ++at;
      if (at >= last) break;
      cuts.push_back(at);
    }
    return cuts;
  }

  Course run_along(const Leaf& leaf, const std::vector<int>& cuts, const Bracket& bracket, int index) {
    const int n = int(cuts.size()), lanes = (n + kLanes - 1) / kLanes * kLanes;
    const size_t entries = packed_size(data_.width);
    Course course{std::vector<double>(entries * lanes, 0), std::vector<int64_t>(n)};
    std::vector<double> gram = bracket.grams[index];
    int64_t count = bracket.counts[index];
    const auto at = [&](int position) {
      return std::lower_bound(leaf.positions.begin(), leaf.positions.end(), position) - leaf.positions.begin();
    };
    for (int k = 0; k < n; ++k) {
      const int j = leaf.on_left ? k : n - 1 - k;
      const int64_t from = at(leaf.on_left ? (k ? cuts[j - 1] : bracket.first) : cuts[j]);
      const int64_t to = at(leaf.on_left ? cuts[j] : (k ? cuts[j + 1] : bracket.last));
      if (to > from) reader_.sum_rows(leaf.rows.data() + from, to - from, gram.data(), s_);
      course.counts[j] = count += to - from;
      for (size_t p = 0; p < entries; ++p) course.grams[p * lanes + j] = gram[p];
    }
    return course;
  }

  // The course of the right leaf from that of the left one, where both are the two sides of one leaf: a coarse look
  // may subtract, what it finds is summed again.
  Course the_others(const Course& left, int n) {
    const int lanes = (n + kLanes - 1) / kLanes * kLanes;
    const int64_t n_left = int64_t(leaves_[0].rows.size()) - left.counts[n - 1] + leaves_[0].n_missing;
    std::vector<double> rest(packed_size(data_.width), 0);
    reader_.sum_rows(leaves_[0].rows.data() + leaves_[0].rows.size() - n_left, n_left, rest.data(), s_);
    Course right{left.grams, left.counts};
    const int64_t total = int64_t(leaves_[0].rows.size()) + leaves_[0].n_missing + leaves_[1].n_missing;
    for (int j = 0; j < n; ++j) right.counts[j] = total - left.counts[j];
    for (size_t p = 0; p < rest.size(); ++p) {
      const double sum = left.grams[p * lanes + n - 1] + rest[p] + leaves_[1].missing[p];
      for (int j = 0; j < n; ++j) right.grams[p * lanes + j] = sum - left.grams[p * lanes + j];
    }
    return right;
  }

  void add_errors(const Leaf& leaf, const Course& course, std::vector<double>& totals) {
    const int n = int(totals.size()), lanes = (n + kLanes - 1) / kLanes * kLanes, k = int(leaf.columns.size());
    s_.work.resize(work_size(k) * kLanes + kLanes);
    for (int j = 0; j < n; j += kLanes) {
      double errors[kLanes];
      solve(leaf, course, j, lanes, errors);
      for (int l = 0; l < kLanes && j + l < n; ++l) {
        const double count = double(course.counts[j + l]);
        if (count < leaf.least_rows)
          totals[j + l] = std::numeric_limits<double>::infinity();
        else
          totals[j + l] += errors[l] * (request_.adjusted ? (count + k) / (count - k) : 1);
      }
    }
  }

  void solve(const Leaf& leaf, const Course& course, int first, int lanes, double* errors) {
    const int k = int(leaf.columns.size());
    double* work = s_.work.data();
    work += (64 - reinterpret_cast<uintptr_t>(work) % 64) % 64 / sizeof(double);
    if (data_.width == data_.n_linear() + 2) {
      e_.kernels().residuals(course.grams.data() + first, lanes, data_.width, leaf.columns.data(), k, work, errors);
      return;
    }
    std::vector<double> gram(packed_size(data_.width));
    for (int l = 0; l < kLanes && first + l < int(course.counts.size()); ++l) {
      for (size_t p = 0; p < gram.size(); ++p) gram[p] = course.grams[p * lanes + first + l];
      e_.impute(gram.data());
      errors[l] = e_.kernels().residual(gram.data(), data_.width, leaf.columns.data(), k, work);
    }
  }

  void refine(const Bracket& bracket, int branches, Cut& best) {
    const std::vector<int> cuts = cuts_between(bracket.first, bracket.last);
    if (cuts.empty()) return;
    std::vector<Course> courses;
    std::vector<double> totals(cuts.size(), 0);
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const bool mirrored = i == 1 && request_.left == request_.right && bracket.first == 0;
      courses.push_back(mirrored ? the_others(courses[0], int(cuts.size()))
                                 : run_along(leaves_[i], cuts, bracket, int(i)));
      add_errors(leaves_[i], courses.back(), totals);
    }
    std::vector<int> minima = local_minima(totals, branches);
    for (const int j : minima)
      if (totals[j] < best.error) best = {cuts[j], totals[j]};
    if (bracket.last - bracket.first - 1 <= kGrid) return;
    for (const int j : minima) {
      const Bracket inner = between(bracket, cuts, courses, j);
      if (inner.last - inner.first < bracket.last - bracket.first && has_more_cuts(inner, cuts)) refine(inner, 1, best);
    }
  }

  // Whether ranks change inside the bracket elsewhere than at the known cuts.
  bool has_more_cuts(const Bracket& bracket, const std::vector<int>& known) const {
    for (int i = bracket.first + 1; i < bracket.last; ++i)
      if (rank_at(i) != rank_at(i - 1) && !std::binary_search(known.begin(), known.end(), i)) return true;
    return false;
  }

  static std::vector<int> local_minima(const std::vector<double>& totals, int most) {
    std::vector<int> order(totals.size()), chosen;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return totals[a] < totals[b]; });
    for (const int j : order) {
      if (int(chosen.size()) == most || std::isinf(totals[j])) break;
      bool apart = true;
      for (const int other : chosen) apart = apart && std::abs(other - j) > 2;
      if (apart) chosen.push_back(j);
    }
    return chosen;
  }

  Bracket between(const Bracket& outer, const std::vector<int>& cuts, const std::vector<Course>& courses, int j) const {
    const int n = int(cuts.size()), lanes = (n + kLanes - 1) / kLanes * kLanes;
    Bracket inner;
    inner.first = j > 0 ? cuts[j - 1] : outer.first;
    inner.last = j + 1 < n ? cuts[j + 1] : outer.last;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const int from = leaves_[i].on_left ? j - 1 : j + 1;
      const bool known = from >= 0 && from < n;
      inner.grams.push_back(outer.grams[i]);
      inner.counts.push_back(known ? courses[i].counts[from] : outer.counts[i]);
      if (!known) continue;
      for (size_t p = 0; p < inner.grams.back().size(); ++p) inner.grams.back()[p] = courses[i].grams[p * lanes + from];
    }
    return inner;
  }

  const Evaluator& e_;
  const CoreReader& reader_;
  const GrowData& data_;
  Scratch& s_;
  SweepRequest request_{};
  RowList rows_, missing_, sorted_;
  std::vector<Leaf> leaves_;
};

inline FoundCut CoreReader::best_cut(const Evaluator& evaluator, const SweepRequest& request, Scratch& s) const {
  return ThresholdSweep(evaluator, *this, s).run(request);
}

}  // namespace silva
