// Thresholds on rows that the CPU reads.
#pragma once
#include <vector>

#include "grow/cpu/row_source.h"
#include "grow/search/threshold_search.h"

namespace glasswood {

class CpuThresholdSearch : public ThresholdSearch {
 public:
  CpuThresholdSearch(const CpuRowSource& source, Scratch& scratch)
      : ThresholdSearch(source.data(), source.limits(), source.tasks(), scratch),
        source_(source),
        bin_sums_(source.tasks().buffers(), 0) {}

  // The best candidate of a range whose rows are given in order.
  FoundThreshold finish(const ThresholdRequest& request, RowList rows, Range range) {
    request_ = request;
    rows_ = std::move(rows);
    range.last -= range.first, range.first = 0;
    add_side(request_.left, true);
    add_side(request_.right, false);
    refine({std::move(range)}, 1);
    return best_;
  }

 protected:
  int open() override {
    collect();
    add_side(request_.left, true);
    add_side(request_.right, false);
    return int(rows_.size());
  }

  // Whether a leaf holds the rows of leaf 0: the two sides of one leaf that is to be split.
  bool is_mirrored(int i) const { return i == 1 && request_.left == request_.right; }

  RowList rows_, missing_;

 private:
  void collect() {
    rows_.clear();
    missing_.clear();
    const Box& box = *request_.box;
    const int feature = request_.feature;
    const Interval interval = box.interval(data_, feature);
    const int by = narrowest(data_, box);
    const int64_t span = rows_of_interval(data_, interval);
    if (request_.rows ? 4 * int64_t(request_.rows->size()) < span
                      : by >= 0 && 8 * rows_of_interval(data_, box[by]) < span) {
      if (request_.rows)
        sorted_ = *request_.rows;
      else
        collect_rows(data_, box, sorted_);
      sort_by_rank(data_, feature, sorted_, s_.spare);
      for (const int32_t row : sorted_) (data_.rank(row, feature) < 0 ? missing_ : rows_).push_back(row);
      return;
    }
    int skip = -1;
    for (int i = 0; i < box.size(); ++i)
      if (box[i].feature == feature) skip = i;
    visit_by_interval(data_, box, interval, skip,
                      [&](int32_t row) { (data_.rank(row, feature) < 0 ? missing_ : rows_).push_back(row); });
  }

  void add_side(int root, bool on_left) {
    const std::vector<int> index = add_leaves(root, on_left);
    std::vector<int32_t> positions(rows_.size());
    std::iota(positions.begin(), positions.end(), 0);
    s_.spare.resize(rows_.size());
    add_side(root, root, index, positions.data(), int64_t(positions.size()));
    if (request_.missing_left != on_left) return;
    for (const int32_t row : missing_) {
      Leaf& leaf = leaves_[index[route(data_, *request_.tree, root, row) - root]];
      source_.sum_rows(&row, 1, leaf.columns, leaf.missing.data(), s_);
      ++leaf.n_missing;
    }
  }

  // Stable partition of positions down to the leaves.
  void add_side(int root, int v, const std::vector<int>& index, int32_t* positions, int64_t count) {
    const GrowTree& tree = *request_.tree;
    if (tree[v].is_leaf()) {
      Leaf& leaf = leaves_[index[v - root]];
      leaf.positions.assign(positions, positions + count);
      leaf.rows.resize(count);
      for (int64_t i = 0; i < count; ++i) leaf.rows[i] = rows_[positions[i]];
      return;
    }
    const GrowSplit& split = tree[v].split;
    const int32_t* ranks = data_.ranks_of(split.feature);
    int64_t n_left = 0, n_right = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t position = positions[i];
      __builtin_prefetch(ranks + rows_[positions[std::min(i + kAhead, count - 1)]]);
      const bool left = split.left(ranks[rows_[position]]);
      positions[n_left] = position;
      s_.spare[n_right] = position;
      n_left += left;
      n_right += !left;
    }
    std::copy(s_.spare.begin(), s_.spare.begin() + n_right, positions + n_left);
    add_side(root, tree[v].left, index, positions, n_left);
    add_side(root, tree[v].right, index, positions + n_left, n_right);
  }

  // The rows as grow/search/candidates.h reads them.
  struct RankedRows {
    const CpuThresholdSearch& search;
    int32_t rank(int64_t position) const { return search.data_.rank(search.rows_[position], search.request_.feature); }
    int64_t next_change(int64_t at, int64_t last) const {
      return glasswood::next_change([&](int64_t position) { return rank(position); }, at, last);
    }
  };

  std::vector<Candidates> candidates_between(const std::vector<Range>& level) override {
    std::vector<Candidates> candidates;
    for (const Range& range : level) candidates.push_back(candidates_of(RankedRows{*this}, range));
    return candidates;
  }

  void sum_bins(const std::vector<Candidates>& candidates, const std::vector<Range>& level) override {
    bins_.assign(level.size() * leaves_.size(), {});
    size_t n_sums = 0;
    for (size_t at = 0; at < bins_.size(); ++at) {
      bins_[at].first = n_sums;
      if (is_mirrored(int(at % leaves_.size()))) continue;
      n_sums +=
          leaves_[at % leaves_.size()].columns.n_entries() * (candidates[at / leaves_.size()].positions.size() + 1);
    }
    bin_sums_.resize(n_sums);
    std::vector<BinSum> sums;
    for (int b = 0; b < int(level.size()); ++b)
      for (int i = 0; i < int(leaves_.size()); ++i)
        if (!candidates[b].positions.empty() && !is_mirrored(i))
          find_bins(leaves_[i], candidates[b], level[b], bins_of(b, i), sums);
    constexpr int kOfRow = 20;  // multiplications that getting at a row costs
    const auto work = [&](int j) { return double(sums[j].count) * double(sums[j].columns->n_entries() + kOfRow); };
    tasks_.fork_by_work(int(sums.size()), s_, work, [&](int j, Scratch& s) {
      const auto [rows, count, columns, gram] = sums[j];
      std::fill(gram, gram + columns->n_entries(), 0.0);
      source_.sum_rows(rows, count, *columns, gram, s);
    });
  }
  const double* bin_gram(int b, int i, int bin) const override {
    const int from = is_mirrored(i) ? 0 : i;
    return bin_sums_.data() + bins_of(b, from).first + size_t(bin) * leaves_[from].columns.n_entries();
  }
  int64_t bin_rows(int b, int i, int bin) const override { return bins_of(b, is_mirrored(i) ? 0 : i).counts[bin]; }

  // Where its sums stand in bin_sums_; those of a bin without rows are never read.
  struct Bins {
    size_t first = 0;
    std::vector<int64_t> counts;
  };
  Bins& bins_of(int b, int i) { return bins_[b * leaves_.size() + i]; }
  const Bins& bins_of(int b, int i) const { return bins_[b * leaves_.size() + i]; }

  struct BinSum {
    const int32_t* rows;
    int64_t count;
    const ModelColumns* columns;
    double* gram;
  };

  void find_bins(const Leaf& leaf, const Candidates& candidates, const Range& range, Bins& bins,
                 std::vector<BinSum>& sums) {
    const int n = int(candidates.positions.size());
    const size_t entries = leaf.columns.n_entries();
    bins.counts.assign(n + 1, 0);
    const auto at = [&](int position) {
      return std::lower_bound(leaf.positions.begin(), leaf.positions.end(), position) - leaf.positions.begin();
    };
    const bool both = request_.left == request_.right;
    for (int j = 0; j <= n; ++j) {
      if (!both && j == (leaf.on_left ? n : 0)) continue;  // asked for by nobody
      const int64_t from = at(j ? candidates.positions[j - 1] : range.first);
      const int64_t to = at(j < n ? candidates.positions[j] : range.last);
      bins.counts[j] = to - from;
      if (to > from)
        sums.push_back(
            {leaf.rows.data() + from, to - from, &leaf.columns, bin_sums_.data() + bins.first + j * entries});
    }
  }

  const CpuRowSource& source_;
  RowList sorted_;
  std::vector<Bins> bins_;  // by range and leaf
  Buffers::Array<double> bin_sums_;
};

}  // namespace glasswood
