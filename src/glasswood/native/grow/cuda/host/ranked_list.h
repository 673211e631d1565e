// The list of rows that a threshold search looks at, in the order of a feature's ranks: whole on one GPU, or in parts.
#pragma once
#include <map>
#include <memory>

#include "grow/cuda/host/rank_counts.h"
#include "grow/cuda/host/row_source.h"
#include "grow/search/threshold_search.h"

namespace glasswood {

class RankedList {
 public:
  using Range = ThresholdSearch::Range;
  using Candidates = ThresholdSearch::Candidates;

  virtual ~RankedList() = default;
  // Adds to the request for the list what its first candidates follow from; then takes the answer.
  virtual void prepare(ListRequest& list) = 0;
  virtual void open(const ListRequest& list) = 0;
  // The candidates of every range.
  virtual std::vector<Candidates> candidates_between(const std::vector<Range>& level) = 0;
  // Adds to a round what the candidates between these positions follow from: there the search may go on.
  virtual void look_ahead(const std::vector<std::pair<int, int>>& ranges, GpuRequests& round) = 0;
  // Where the rows before a candidate, or before an end of a range, end in a part.
  virtual int64_t position(int part, int edge) const = 0;
  // Sorts the rows of a range, which the parts have listed one behind the other.
  virtual void merge(RowList& rows, const Range& range) const = 0;
};

// A list that one GPU holds: it finds the candidates itself, the first ones with the list, others with the sums of the
// level before.
class WholeList : public RankedList {
 public:
  WholeList(int list, int home) : list_(list), home_(home) {}

  void prepare(ListRequest& list) override {
    known_.assign(1, {home_, list_, 0, 0, {}});
    list.candidates = &known_[0].answer;
  }
  void open(const ListRequest& list) override { known_[0].last = list.totals[home_]; }

  std::vector<Candidates> candidates_between(const std::vector<Range>& level) override {
    std::vector<Candidates> candidates;
    for (const Range& range : level) {
      const auto is_of = [&](const CandidatesRequest& r) { return r.first == range.first && r.last == range.last; };
      const CandidatesAnswer& a = std::find_if(known_.begin(), known_.end(), is_of)->answer;
      candidates.push_back({{a.candidates, a.candidates + a.n}, {a.ranks, a.ranks + a.n}, {a.more, a.more + a.n}});
    }
    return candidates;
  }

  void look_ahead(const std::vector<std::pair<int, int>>& ranges, GpuRequests& round) override {
    known_.clear();
    for (const auto& [first, last] : ranges) known_.push_back({home_, list_, first, last, {}});
    for (CandidatesRequest& request : known_) round.candidates.push_back(&request);
  }

  int64_t position(int part, int edge) const override { return part == home_ ? edge : 0; }
  void merge(RowList&, const Range&) const override {}

 private:
  int list_, home_;                       // the part that holds it
  std::vector<CandidatesRequest> known_;  // of the ranges where the search may go on
};

// A list in parts, which are merged in thought: candidates follow from how many rows of each part have lower ranks.
class ListInParts : public RankedList {
 public:
  // The feature's ranks in its rows are those of `interval`.
  ListInParts(const GpuRowSource& source, int feature, const Interval& interval)
      : source_(source), feature_(feature), interval_(interval) {}

  void prepare(ListRequest& list) override {
    RankCounts::count(list, interval_.low, interval_.high, source_.settings().n_cells);
  }
  void open(const ListRequest& list) override {
    counts_.emplace(list);
    ranks_ = {{0, interval_.low}, {counts_->n_rows(), interval_.high}};
  }

  // Looked for again after the cells that they lie in have been counted, mostly once.
  std::vector<Candidates> candidates_between(const std::vector<Range>& level) override {
    for (;;) {
      std::vector<Candidates> candidates;
      for (const Range& range : level) candidates.push_back(ThresholdSearch::candidates_of(*counts_, range));
      if (counts_->wants()) {
        counts_->resolve([this](const GpuRequests& requests) { source_.scheduler().ask(requests); });
        continue;
      }
      for (const Candidates& c : candidates)
        for (size_t j = 0; j < c.positions.size(); ++j) ranks_[c.positions[j]] = c.ranks[j];
      return candidates;
    }
  }
  void look_ahead(const std::vector<std::pair<int, int>>&, GpuRequests&) override {}

  int64_t position(int part, int edge) const override { return counts_->below(part, ranks_.at(edge)); }

  void merge(RowList& rows, const Range& range) const override {
    const int32_t* ranks = source_.cpu().data().ranks_of(feature_);
    std::vector<uint64_t> keys(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) keys[i] = uint64_t(ranks[rows[i]]) << 32 | uint32_t(rows[i]);
    auto end = keys.begin();
    for (int p = 0; p < source_.parts().size(); ++p) {
      const auto middle = end;
      end += position(p, range.last) - position(p, range.first);
      std::inplace_merge(keys.begin(), middle, end);
    }
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = int32_t(uint32_t(keys[i]));
  }

 private:
  const GpuRowSource& source_;
  int feature_;
  Interval interval_;
  std::optional<RankCounts> counts_;
  std::map<int64_t, int32_t> ranks_;  // of the rows at the candidates that were found
};

}  // namespace glasswood
