// Positions in a list of rows that lies in parts, each in the order of a feature's ranks. The list that a
// search looks at is what merging them would give: a candidate is known by its rank, and how many rows of each part
// have lower ranks says where it stands. Ranks are counted in cells first, inside a cell only where somebody looks.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "grow/cuda/host/requests.h"

namespace glasswood {

class RankCounts {
 public:
  // Has the rows of a list, which have the ranks low .. high - 1, counted while they are listed.
  static void count(ListRequest& list, int32_t low, int32_t high, int most_cells) {
    list.low = low, list.span = int64_t(high) - low;
    list.n_cells = int32_t(std::min<int64_t>(list.span, most_cells));
  }

  explicit RankCounts(const ListRequest& list)
      : low_(list.low), span_(list.span), n_cells_(list.n_cells), list_(list.list), n_parts_(int(list.totals.size())) {
    for (int p = 0; p < n_parts_; ++p) {
      std::vector<int32_t>& edges = edges_.emplace_back(1, 0);
      edges.insert(edges.end(), list.counts[p].begin(), list.counts[p].end());
      edges.push_back(int32_t(list.totals[p]));
    }
    edges_.push_back(sum_of(edges_));
  }

  int64_t n_rows() const { return edges_[n_parts_].back(); }
  // Rows with ranks below `rank` in a part, or in all.
  int32_t below(int part, int32_t rank) const {
    if (rank >= low_ + span_) return edges_[part].back();
    const int cell = int(((rank - low_ + 1) * int64_t(n_cells_) - 1) / span_);
    if (rank == edge(cell)) return edges_[part][cell];
    return inner_.at(cell)[part][rank - edge(cell) - 1];
  }
  int32_t below(int32_t rank) const { return below(n_parts_, rank); }

  // As grow/search/candidates.h asks. While a cell is not counted its end stands for what it holds, and the cell
  // is noted as wanted.
  int32_t rank(int64_t position) const { return rank_above(position + 1) - 1; }
  int64_t next_change(int64_t at, int64_t last) const {
    return at >= last ? last : std::min<int64_t>(below(rank_above(at)), last);
  }

  // Where the row at a position stands; of equal ranks those of the first part come first.
  struct Place {
    int part;
    int64_t position;
  };
  Place place(int64_t position) const {
    const int32_t above = rank_above(position + 1);
    if (wants()) return {};
    int64_t left = position - below(above - 1);
    int p = 0;
    for (; left >= below(p, above) - below(p, above - 1); ++p) left -= below(p, above) - below(p, above - 1);
    return {p, below(p, above - 1) + left};
  }

  bool wants() const { return !wanted_.empty(); }
  // Counts the cells that were wanted.
  template <class Ask>
  void resolve(const Ask& ask) {
    std::vector<CountRequest> asked;
    for (const int cell : wanted_) {
      CountRequest& request = asked.emplace_back();
      request.list = list_;
      request.low = edge(cell), request.n_cells = edge(cell + 1) - edge(cell), request.span = request.n_cells;
      for (int p = 0; p < n_parts_; ++p) request.positions.push_back({edges_[p][cell], edges_[p][cell + 1]});
    }
    GpuRequests requests;
    for (CountRequest& request : asked) requests.counts.push_back(&request);
    ask(requests);
    auto cell = wanted_.begin();
    for (CountRequest& request : asked) {
      request.counts.push_back(sum_of(request.counts));
      inner_[*cell++] = std::move(request.counts);
    }
    wanted_.clear();
  }

 private:
  int32_t edge(int cell) const { return cell_edge(low_, span_, n_cells_, cell); }
  bool is_known(int cell) const { return edge(cell + 1) - edge(cell) == 1 || inner_.contains(cell); }

  static std::vector<int32_t> sum_of(const std::vector<std::vector<int32_t>>& parts) {
    std::vector<int32_t> sum = parts[0];
    for (size_t p = 1; p < parts.size(); ++p)
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += parts[p][i];
    return sum;
  }

  // The lowest rank below which there are at least `count` rows, 1 <= count <= n_rows().
  int32_t rank_above(int64_t count) const {
    const std::vector<int32_t>& edges = edges_[n_parts_];
    const int cell = int(std::lower_bound(edges.begin() + 1, edges.end(), count) - edges.begin()) - 1;
    if (!is_known(cell)) {
      want(cell);
      const auto next = std::upper_bound(edges.begin() + cell + 1, edges.end(), edges[cell + 1]);
      if (next != edges.end()) want(int(next - edges.begin()) - 1);  // its first row may be asked for as well
      return edge(cell + 1);
    }
    const auto found = inner_.find(cell);
    if (found == inner_.end()) return edge(cell + 1);
    const std::vector<int32_t>& inner = found->second[n_parts_];
    return edge(cell) + 1 + int32_t(std::lower_bound(inner.begin(), inner.end(), count) - inner.begin());
  }

  void want(int cell) const {
    if (!is_known(cell)) wanted_.insert(cell);
  }

  int32_t low_;
  int64_t span_;
  int32_t n_cells_;
  int list_, n_parts_;
  std::vector<std::vector<int32_t>> edges_;                 // by part, the last one their sum; by edge of cells
  std::map<int, std::vector<std::vector<int32_t>>> inner_;  // by cell; the same at every rank inside
  mutable std::set<int> wanted_;
};

}  // namespace glasswood
