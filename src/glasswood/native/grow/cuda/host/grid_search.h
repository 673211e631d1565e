// Thresholds of rows that the CPU has sorted, mostly a sample; a GPU sums them and finds the errors where that is work.
#pragma once
#include "grow/cpu/threshold_search.h"
#include "grow/cuda/host/row_source.h"

namespace glasswood {

class GridThresholdSearch : public CpuThresholdSearch {
 public:
  GridThresholdSearch(const GpuRowSource& source, Scratch& scratch)
      : CpuThresholdSearch(source.cpu(), scratch), gpu_(source) {}

 private:
  int open() override {
    const int n_rows = CpuThresholdSearch::open();
    if (!missing_.empty() || leaves_.size() != 2 || !is_mirrored(1)) return n_rows;
    const ModelColumns& columns = leaves_[0].columns;
    const double work = double(n_rows) * double(columns.n_entries()) + 2 * kGrid * work_of_candidate(0);
    is_asked_ = columns.imputed().empty() && int(columns.solved().size()) < kMostSolved &&
                gpu_.parts()[0].list_sums_bytes > 0 && n_rows * gpu_.work_of_row() >= gpu_.settings().cpu_work &&
                work >= gpu_.settings().solve_work;
    return n_rows;
  }

  // The ends of a range are candidates like those between them.
  std::vector<std::vector<double>> total_errors(const std::vector<Candidates>& candidates,
                                                const std::vector<Range>& level) override {
    if (!is_asked_) return CpuThresholdSearch::total_errors(candidates, level);
    std::vector<GridRequest> grids(level.size());
    GpuRequests requests;
    for (size_t b = 0; b < level.size(); ++b) {
      std::vector<int32_t>& edges = grids[b].candidates;
      edges.assign(candidates[b].positions.begin(), candidates[b].positions.end());
      if (edges.empty()) continue;
      if (level[b].first > 0) edges.insert(edges.begin(), level[b].first);
      if (level[b].last < int(rows_.size())) edges.push_back(level[b].last);
      grids[b].rows = &rows_, grids[b].columns = &leaves_[0].columns, grids[b].least_rows = leaves_[0].least_rows;
      requests.grids.push_back(&grids[b]);
    }
    gpu_.scheduler().ask(requests);
    std::vector<std::vector<double>> totals(level.size());
    for (size_t b = 0; b < level.size(); ++b) {
      const int n = int(grids[b].candidates.size()), first = level[b].first > 0;
      totals[b].assign(candidates[b].positions.size(), 0);
      for (int j = 0; j < int(totals[b].size()); ++j)
        for (int i = 0; i < 2; ++i) {
          const double* found = grids[b].answers[i].data() + 2 * (i ? n - 1 - first - j : first + j);
          totals[b][j] += error_of(i, found[0], found[1]);
        }
      s_.rows_read += n ? int64_t(rows_.size()) : 0;
    }
    return totals;
  }
  void pass(int b, const Range& outer, int n_candidates, int j, Range& inner) override {
    if (!is_asked_) CpuThresholdSearch::pass(b, outer, n_candidates, j, inner);
  }

  const GpuRowSource& gpu_;
  bool is_asked_ = false;
};

}  // namespace glasswood
