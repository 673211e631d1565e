// Thresholds on rows that the CPU reads.
#pragma once
#include <vector>

#include "grow/cpu/row_reader.h"
#include "grow/search/threshold_search.h"

namespace silva {

class CpuThresholdSearch : public ThresholdSearch {
 public:
  CpuThresholdSearch(const CpuRowReader& source, Scratch& scratch)
      : ThresholdSearch(source.data(), source.limits(), source.tasks(), scratch),
        source_(source),
        part_sums_(source.tasks().buffers(), 0) {}

  // The best cut of a bracket whose rows are given in order.
  FoundCut finish(const ThresholdRequest& request, RowList rows, Bracket bracket) {
    request_ = request;
    rows_ = std::move(rows);
    bracket.last -= bracket.first, bracket.first = 0;
    share_out(request_.left, true);
    share_out(request_.right, false);
    refine({std::move(bracket)}, 1);
    return best_;
  }

 protected:
  int open() override {
    collect();
    share_out(request_.left, true);
    share_out(request_.right, false);
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

  void share_out(int root, bool on_left) {
    const std::vector<int> index = add_leaves(root, on_left);
    std::vector<int32_t> positions(rows_.size());
    std::iota(positions.begin(), positions.end(), 0);
    s_.spare.resize(rows_.size());
    share_out(root, root, index, positions.data(), int64_t(positions.size()));
    if (request_.missing_left != on_left) return;
    for (const int32_t row : missing_) {
      Leaf& leaf = leaves_[index[route(data_, *request_.tree, root, row) - root]];
      source_.sum_rows(&row, 1, leaf.columns, leaf.missing.data(), s_);
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

  // The rows as grow/cuda/shared/cuts.h reads them.
  struct RankedRows {
    const CpuThresholdSearch& sweep;
    int32_t rank(int64_t position) const { return sweep.data_.rank(sweep.rows_[position], sweep.request_.attribute); }
    int64_t next_change(int64_t at, int64_t last) const {
      return silva::next_change([&](int64_t position) { return rank(position); }, at, last);
    }
  };

  std::vector<Cuts> cuts_between(const std::vector<Bracket>& level) override {
    std::vector<Cuts> cuts;
    for (const Bracket& bracket : level) cuts.push_back(cuts_of(RankedRows{*this}, bracket));
    return cuts;
  }

  void sum_parts(const std::vector<Cuts>& cuts, const std::vector<Bracket>& level) override {
    parts_.assign(level.size() * leaves_.size(), {});
    size_t n_sums = 0;
    for (size_t at = 0; at < parts_.size(); ++at) {
      parts_[at].first = n_sums;
      if (is_mirrored(int(at % leaves_.size()))) continue;
      n_sums += leaves_[at % leaves_.size()].columns.n_entries() * (cuts[at / leaves_.size()].positions.size() + 1);
    }
    part_sums_.resize(n_sums);
    std::vector<PartSum> sums;
    for (int b = 0; b < int(level.size()); ++b)
      for (int i = 0; i < int(leaves_.size()); ++i)
        if (!cuts[b].positions.empty() && !is_mirrored(i))
          find_parts(leaves_[i], cuts[b], level[b], parts_of(b, i), sums);
    constexpr int kOfRow = 20;  // multiplications that getting at a row costs
    const auto work = [&](int j) { return double(sums[j].count) * double(sums[j].columns->n_entries() + kOfRow); };
    tasks_.fork_by_work(int(sums.size()), s_, work, [&](int j, Scratch& s) {
      const auto [rows, count, columns, gram] = sums[j];
      std::fill(gram, gram + columns->n_entries(), 0.0);
      source_.sum_rows(rows, count, *columns, gram, s);
    });
  }
  const double* part_gram(int b, int i, int part) const override {
    const int from = is_mirrored(i) ? 0 : i;
    return part_sums_.data() + parts_of(b, from).first + size_t(part) * leaves_[from].columns.n_entries();
  }
  int64_t part_rows(int b, int i, int part) const override { return parts_of(b, is_mirrored(i) ? 0 : i).counts[part]; }

  // Where its sums stand in part_sums_; those of a part without rows are never read.
  struct Parts {
    size_t first = 0;
    std::vector<int64_t> counts;
  };
  Parts& parts_of(int b, int i) { return parts_[b * leaves_.size() + i]; }
  const Parts& parts_of(int b, int i) const { return parts_[b * leaves_.size() + i]; }

  struct PartSum {
    const int32_t* rows;
    int64_t count;
    const ModelColumns* columns;
    double* gram;
  };

  void find_parts(const Leaf& leaf, const Cuts& cuts, const Bracket& bracket, Parts& parts,
                  std::vector<PartSum>& sums) {
    const int n = int(cuts.positions.size());
    const size_t entries = leaf.columns.n_entries();
    parts.counts.assign(n + 1, 0);
    const auto at = [&](int position) {
      return std::lower_bound(leaf.positions.begin(), leaf.positions.end(), position) - leaf.positions.begin();
    };
    const bool both = request_.left == request_.right;
    for (int j = 0; j <= n; ++j) {
      if (!both && j == (leaf.on_left ? n : 0)) continue;  // asked for by nobody
      const int64_t from = at(j ? cuts.positions[j - 1] : bracket.first);
      const int64_t to = at(j < n ? cuts.positions[j] : bracket.last);
      parts.counts[j] = to - from;
      if (to > from)
        sums.push_back(
            {leaf.rows.data() + from, to - from, &leaf.columns, part_sums_.data() + parts.first + j * entries});
    }
  }

  const CpuRowReader& source_;
  RowList sorted_;
  std::vector<Parts> parts_;  // by bracket and leaf
  Buffers::Lease<double> part_sums_;
};

}  // namespace silva
