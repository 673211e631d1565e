// Positions in a list that lies in parts, for test_rank_counts.py: the requests are answered by plain counting.
#include "grow/cuda/host/rank_counts.h"
#include "grow/search/candidates.h"

using namespace glasswood;

namespace {

struct Lists {
  const int32_t* ranks;  // of all parts, one behind the other
  const int64_t* sizes;
  int n_parts;

  int32_t below(int part, int32_t rank) const {
    const int32_t* first = ranks;
    for (int p = 0; p < part; ++p) first += sizes[p];
    return int32_t(std::lower_bound(first, first + sizes[part], rank) - first);
  }
  template <class Request>
  void count(Request& request) const {
    request.counts.resize(n_parts);
    for (int p = 0; p < n_parts; ++p)
      for (int edge = 1; edge < request.n_cells; ++edge)
        request.counts[p].push_back(below(p, cell_edge(request.low, request.span, request.n_cells, edge)));
  }
};

}  // namespace

extern "C" {

// Cuts between two positions with their ranks and whether there are more, and the part and position of every stride-th
// row; returns the number of cuts. `n_asked` counts the rounds of requests.
int look(const int32_t* ranks, const int64_t* sizes, int n_parts, int32_t low, int32_t high, int cells, int64_t first,
         int64_t last, int64_t stride, int32_t* cuts, int32_t* cut_ranks, int32_t* more, int32_t* places,
         int32_t* n_asked) {
  const Lists lists{ranks, sizes, n_parts};
  ListRequest list;
  list.totals.assign(sizes, sizes + n_parts);
  RankCounts::count(list, low, high, cells);
  lists.count(list);
  RankCounts counts(list);
  const auto answer = [&](const GpuRequests& requests) {
    for (CountRequest* request : requests.counts) lists.count(*request);
    ++*n_asked;
  };
  const auto moved_on = [&](int j) { return counts.next_change(grid_target(first, last, j), last); };
  int n_cuts;
  for (;;) {
    n_cuts = find_candidates(counts, first, last, moved_on, cuts);
    for (int j = 0; j < n_cuts; ++j) {
      cut_ranks[j] = counts.rank(cuts[j]);
      more[j] = has_more_candidates(counts, first, last, cuts, n_cuts, j);
    }
    if (!counts.wants()) break;
    counts.resolve(answer);
  }
  for (;;) {
    int32_t* to = places;
    for (int64_t at = 0; at < counts.n_rows(); at += stride) {
      const RankCounts::Place place = counts.place(at);
      *to++ = place.part, *to++ = int32_t(place.position);
    }
    if (!counts.wants()) return n_cuts;
    counts.resolve(answer);
  }
}
}
