// Thresholds on rows that GPUs read.
#pragma once
#include <numeric>

#include "grow/cpu/threshold_search.h"
#include "grow/cuda/host/ranked_list.h"

namespace glasswood {

// Candidates of a list of rows that stays on the GPU; the sums between two candidates are one request each. Where
// models are large and one GPU holds the list, these sums stay there too, and errors come back.
class GpuThresholdSearch : public ThresholdSearch {
 public:
  GpuThresholdSearch(const GpuRowSource& source, Scratch& scratch)
      : ThresholdSearch(source.cpu().data(), source.cpu().limits(), source.scheduler(), scratch),
        source_(source),
        list_(source.scheduler()),
        sums_(source.scheduler().buffers(), 0) {}

 private:
  int open() override {
    const GrowTree& tree = *request_.tree;
    const Interval interval = request_.box->interval(data_, request_.feature);
    add_leaves(request_.left, true);
    n_left_ = int(leaves_.size());
    add_leaves(request_.right, false);
    for (int i = 0; i < int(leaves_.size()); ++i)
      (i < n_left_ ? left_columns_ : right_columns_).push_back(&leaves_[i].columns);
    for (const auto& [root, nodes] : {std::pair{request_.left, &left_}, {request_.right, &right_}})
      add_nodes(tree, root, nullptr, *nodes);
    ListRequest list = source_.list_request(list_, source_.rows_of(interval, false), *request_.box, request_.feature,
                                            request_.feature);
    ranked_ = source_.ranked_list(list_, request_.feature, interval);
    ranked_->prepare(list);
    SumRequest missing = request(request_.missing_left);
    GpuRequests requests{.lists = {&list}};
    if (interval.missing) {
      missing.source = source_.parts().missing(request_.feature);
      missing.intervals = list.intervals;
      requests.sums.push_back(&missing);
    }
    source_.scheduler().ask(requests);
    const int first = request_.missing_left ? 0 : n_left_;
    for (size_t k = 0; k < missing.answer.size(); ++k) {
      leaves_[first + k].n_missing = missing.answer[k].n_rows;
      leaves_[first + k].missing = std::move(missing.answer[k].gram);
    }
    const int64_t n_rows = std::accumulate(list.totals.begin(), list.totals.end(), int64_t(0));
    ranked_->open(list);
    s_.rows_read += n_rows;
    keeps_sums_ = !interval.missing && keeps_sums();
    for (auto& of_place : has_sums_before_) of_place.assign(leaves_.size(), false);
    for (Leaf& leaf : leaves_)
      if (keeps_sums_) leaf.missing.clear();
    return int(n_rows);
  }

  SumRequest request(bool on_left) const {
    SumRequest request;
    request.nodes = on_left ? left_ : right_;
    request.columns = on_left ? &left_columns_ : &right_columns_;
    request.n_slots = int(request.columns->size());
    return request;
  }

  std::vector<Candidates> candidates_between(const std::vector<Range>& level) override {
    return ranked_->candidates_between(level);
  }

  // Asks, and in the same round for the candidates wherever the search may go on.
  void ask(GpuRequests requests, const std::vector<Candidates>& candidates, const std::vector<Range>& level) {
    std::vector<std::pair<int, int>> ranges;
    for (size_t b = 0; b < level.size(); ++b)
      for (int j = 0; j < int(candidates[b].positions.size()); ++j) {
        const auto [first, last] = inside(level[b], candidates[b], j);
        if (first < last && (keeps_sums_ || !source_.is_handed_over(last - first))) ranges.push_back({first, last});
      }
    ranked_->look_ahead(ranges, requests);
    source_.scheduler().ask(requests);
  }

  // Ranges of so few rows that the CPU settles them sooner than further rounds return.
  void hand_over(std::vector<Range>& level) override {
    if (keeps_sums_) return;
    std::vector<Range> large, small;
    for (Range& range : level)
      (source_.is_handed_over(range.last - range.first) ? small : large).push_back(std::move(range));
    level = std::move(large);
    std::vector<GpuRowSource::RowRange> ranges;
    int64_t n_rows = 0;
    for (const Range& range : small) {
      n_rows += range.last - range.first;
      for (int p = 0; p < source_.parts().size(); ++p)
        ranges.push_back({p, ranked_->position(p, range.first), ranked_->position(p, range.last)});
    }
    RowList all(n_rows);
    source_.read_rows(ranges, list_.index(), false, all.data());
    const int32_t* rows = all.data();
    for (Range& range : small) {
      RowList own(rows, rows + (range.last - range.first));
      rows += own.size();
      ranked_->merge(own, range);
      take(CpuThresholdSearch(source_.cpu(), s_).finish(request_, std::move(own), std::move(range)));
    }
  }

  // Sums between neighbouring candidates, from the first of `edges` on.
  std::vector<SumRequest> requests_between(const std::vector<int>& edges, bool on_left) const {
    std::vector<SumRequest> requests;
    for (size_t j = 0; j + 1 < edges.size(); ++j) {
      requests.push_back(request(on_left));
      requests.back().source.count = edges[j + 1] - edges[j];
      for (int p = 0; p < source_.parts().size(); ++p) {
        const int64_t first = ranked_->position(p, edges[j]), last = ranked_->position(p, edges[j + 1]);
        requests.back().source.parts.push_back(
            {source_.parts()[p].list_rows(list_.index()), 0, first, last - first, 1});
      }
    }
    return requests;
  }

  static std::vector<int> edges_of(const Candidates& candidates, const Range& range) {
    std::vector<int> edges = candidates.positions;
    edges.insert(edges.begin(), range.first);
    edges.push_back(range.last);
    return edges;
  }

  void sum_bins(const std::vector<Candidates>& candidates, const std::vector<Range>& level) override {
    left_bins_.assign(level.size(), {}), right_bins_.assign(level.size(), {});
    GpuRequests requests;
    for (size_t b = 0; b < level.size(); ++b) {
      if (candidates[b].positions.empty()) continue;
      const std::vector<int> edges = edges_of(candidates[b], level[b]);
      left_bins_[b] = requests_between(edges, true);
      if (!is_same()) right_bins_[b] = requests_between(edges, false);
      for (std::vector<SumRequest>* side : {&left_bins_[b], &right_bins_[b]})
        for (SumRequest& request : *side) requests.sums.push_back(&request);
    }
    size_t n_entries = 0;
    for (const SumRequest* request : requests.sums) n_entries += request->n_entries(data_.width);
    sums_.resize(n_entries);
    double* next = sums_.data();
    for (SumRequest* request : requests.sums) request->sums = next, next += request->n_entries(data_.width);
    ask(std::move(requests), candidates, level);
  }
  const double* bin_gram(int b, int i, int part) const override {
    const SumRequest& request = bin_of(b, i, part);
    const double* sums = request.sums;
    for (int slot = 0; slot < slot_of(i); ++slot) sums += (*request.columns)[slot]->n_entries();
    return sums;
  }
  int64_t bin_rows(int b, int i, int part) const override { return bin_of(b, i, part).answer[slot_of(i)].n_rows; }

  const SumRequest& bin_of(int b, int i, int part) const {
    return (leaves_[i].on_left || is_same() ? left_bins_ : right_bins_)[b][part];
  }
  int slot_of(int i) const { return leaves_[i].on_left ? i : i - n_left_; }
  bool is_same() const { return request_.left == request_.right; }

  // Whether errors are worth a launch, and the sums of all leaves fit what the GPU has for those of the list.
  bool keeps_sums() const {
    const GpuPart& part = source_.parts()[home()];
    double work = 0;
    for (int i = 0; i < int(leaves_.size()); ++i) {
      const ModelColumns& columns = leaves_[i].columns;
      if (!columns.imputed().empty() || int(columns.solved().size()) >= kMostSolved) return false;
      work += work_of_candidate(i) * kGrid;
    }
    return work >= source_.settings().solve_work &&
           (bins_end() + kPlaces * step_of(0, int(leaves_.size()))) * int64_t(sizeof(double)) <= part.list_sums_bytes;
  }
  int home() const { return source_.parts().home(list_.index()); }

  // Where sums stand: for each place the parts of the left side's leaves, one record of all of them behind the other,
  // then those of the right side; behind these for each place what lies before the parts, by leaf: the leaf's count of
  // rows, then its sums.
  int64_t step_of(int first_leaf, int last_leaf) const {
    int64_t n = 0;
    for (int i = first_leaf; i < last_leaf; ++i) n += 1 + int64_t(leaves_[i].columns.n_entries());
    return n;
  }
  int64_t step_of(bool on_left) const {
    return on_left ? step_of(0, n_left_) : is_same() ? 0 : step_of(n_left_, int(leaves_.size()));
  }
  int64_t bins_end() const { return kPlaces * (kGrid + 1) * (step_of(true) + step_of(false)); }
  double* kept() const { return source_.parts()[home()].sums_of_list(list_.index()); }
  double* kept_bins(int place, bool on_left) const {
    return kept() + (kGrid + 1) * (place * (step_of(true) + step_of(false)) + (on_left ? 0 : step_of(true)));
  }
  double* kept_before(int place, int i) const {
    return kept() + bins_end() + place * step_of(0, int(leaves_.size())) + step_of(0, i);
  }
  // The first part of a leaf as seen from its side, and how far it is to the next.
  std::pair<double*, int64_t> bins_along(int place, int i, int n_candidates) const {
    const bool on_left = leaves_[i].on_left, by_left = on_left || is_same();
    const int64_t step = step_of(by_left);
    double* first = kept_bins(place, by_left) + step_of(on_left ? 0 : n_left_, i);
    return on_left ? std::pair{first, step} : std::pair{first + n_candidates * step, -step};
  }

  std::vector<std::vector<double>> total_errors(const std::vector<Candidates>& candidates,
                                                const std::vector<Range>& level) override {
    if (!keeps_sums_) return ThresholdSearch::total_errors(candidates, level);
    std::vector<SumRequest> sums;
    std::vector<SolveRequest> solves;
    for (size_t b = 0; b < level.size(); ++b) {
      const int n_candidates = int(candidates[b].positions.size());
      if (!n_candidates) continue;
      for (const bool on_left : {true, false}) {
        if (!on_left && is_same()) break;
        double* to = kept_bins(level[b].place, on_left);
        for (SumRequest& request : requests_between(edges_of(candidates[b], level[b]), on_left)) {
          request.kept = std::exchange(to, to + step_of(on_left));
          sums.push_back(std::move(request));
        }
      }
      for (int i = 0; i < int(leaves_.size()); ++i) {
        const auto [bins, step] = bins_along(level[b].place, i, n_candidates);
        SolveRequest& request = solves.emplace_back();
        request.part = home(), request.columns = &leaves_[i].columns;
        request.record.base = has_sums_before_[level[b].place][i] ? kept_before(level[b].place, i) : nullptr;
        request.record.bins = bins, request.record.step = step;
        request.record.n_candidates = n_candidates, request.record.width = leaves_[i].columns.width();
        request.record.least_rows = leaves_[i].least_rows;
      }
    }
    GpuRequests requests;
    for (AdvanceRequest& request : advances_) requests.advances.push_back(&request);
    for (SumRequest& request : sums) requests.sums.push_back(&request);
    for (SolveRequest& request : solves) requests.solves.push_back(&request);
    ask(std::move(requests), candidates, level);
    advances_.clear();
    std::vector<std::vector<double>> totals(level.size());
    auto solved = solves.begin();
    for (size_t b = 0; b < level.size(); ++b) {
      const int n_candidates = int(candidates[b].positions.size());
      totals[b].assign(n_candidates, 0);
      for (int i = 0; n_candidates && i < int(leaves_.size()); ++i, ++solved)
        for (int k = 0; k < n_candidates; ++k)
          totals[b][leaves_[i].on_left ? k : n_candidates - 1 - k] +=
              error_of(i, solved->answer[2 * k], solved->answer[2 * k + 1]);
    }
    return totals;
  }

  void pass(int b, const Range& outer, int n_candidates, int j, Range& inner) override {
    if (!keeps_sums_) return ThresholdSearch::pass(b, outer, n_candidates, j, inner);
    for (int i = 0; i < int(leaves_.size()); ++i) {
      const int n_bins = leaves_[i].on_left ? j : n_candidates - 1 - j;
      if (!n_bins) continue;
      const auto [bins, step] = bins_along(outer.place, i, n_candidates);
      AdvanceRequest& request = advances_.emplace_back();
      request.part = home();
      char& is_known = has_sums_before_[inner.place][i];
      double* before = kept_before(inner.place, i);
      const int32_t n_entries = 1 + int32_t(leaves_[i].columns.n_entries());
      request.record = {is_known ? before : nullptr, bins, before, step, n_entries, n_bins, 1, 0};
      is_known = true;
    }
  }

  const GpuRowSource& source_;
  const FiberScheduler::List list_;
  std::unique_ptr<RankedList> ranked_;  // the list
  bool keeps_sums_ = false;
  std::vector<char> has_sums_before_[kPlaces];
  std::vector<AdvanceRequest> advances_;  // of the next round
  std::vector<RouteNode> left_, right_;
  SlotColumns left_columns_, right_columns_;
  std::vector<std::vector<SumRequest>> left_bins_, right_bins_;  // by range
  Buffers::Array<double> sums_;                                  // theirs
  int n_left_ = 0;
};

}  // namespace glasswood
