// What tasks ask the GPUs. Every request goes to all parts that hold rows of it.
#pragma once
#include <tuple>
#include <vector>

#include "grow/cuda/host/parts.h"
#include "grow/sums/row_source.h"

namespace glasswood {

// The columns of each slot's answer.
using SlotColumns = std::vector<const ModelColumns*>;

// Sums over one source; the nodes are its own.
struct SumRequest {
  RowsByPart source;
  std::vector<RouteInterval> intervals;
  std::vector<RouteNode> nodes;
  int n_slots = 0;
  const SlotColumns* columns = nullptr;  // null: all
  std::vector<LeafSums> answer;          // by slot; without sums where those go to `sums`
  double* sums = nullptr;                // where to write those of all slots one behind the other
  double* kept = nullptr;                // where they stay on the GPU instead, each behind its count
  bool has_sums = false;                 // of one part at least

  size_t n_entries(int all) const {
    size_t n = 0;
    for (int slot = 0; slot < n_slots; ++slot) n += packed_size(width(slot, all));
    return n;
  }
  // Columns in the answer for a slot, of `all`.
  int width(int slot, int all) const { return columns ? (*columns)[slot]->width() : all; }
};

// Rows of a source that lie in a box, in the source's order, in list `list` of each part.
struct ListRequest {
  RowsByPart source;
  std::vector<RouteInterval> intervals;
  int list = 0;
  int feature = -1;         // whose ranks are listed beside the rows
  bool over_ranks = false;  // the rows go to where the list's ranks stand
  int32_t low = 0;          // the ranks low .. low + span are counted in this many cells
  int64_t span = 0;
  int32_t n_cells = 0;
  CandidatesAnswer* candidates = nullptr;  // of the whole list, which one part holds
  int32_t most = 0;                        // not a list but a sample: every stride-th row, stride = rows / most + 1
  RowList sample;
  std::vector<int64_t> totals;               // by part
  std::vector<std::vector<int32_t>> counts;  // by part and inner edge of cells: positions of lower ranks
};

// The same counts of a list that stands, between two known positions of each part.
struct CountRequest {
  int list = 0;
  std::vector<std::pair<int32_t, int32_t>> positions;  // by part: known bounds of the answers
  int32_t low = 0;
  int64_t span = 0;
  int32_t n_cells = 0;
  std::vector<std::vector<int32_t>> counts;
};

// Candidates of a list that one part holds, all of it.
struct CandidatesRequest {
  int part = 0, list = 0;
  int64_t first = 0, last = 0;
  CandidatesAnswer answer{};
};

// What a leaf's model leaves unexplained at candidates of a list that one part holds, whose sums were kept there in
// this round or before.
struct SolveRequest {
  int part = 0;
  const ModelColumns* columns = nullptr;
  SolveRecord record{};
  std::vector<double> answer;  // by candidate from the leaf's side: rows, error
};

// Errors of one model on both sides of candidates of some rows, which are sent to the GPU.
struct GridRequest {
  int part = 0;  // who answers
  const RowList* rows = nullptr;
  std::vector<int32_t> candidates;  // positions, rising
  const ModelColumns* columns = nullptr;
  int least_rows = 0;
  std::vector<double> answers[2];  // of the left and the right side: rows, error; by candidate from that side
};

// Before anything else is answered.
struct AdvanceRequest {
  int part = 0;
  AdvanceRecord record{};
};

struct ReadRequest {
  int part;
  void* to;
  const void* from;
  size_t bytes;
};

// In the order in which a round answers them.
struct GpuRequests {
  std::vector<AdvanceRequest*> advances = {};
  std::vector<ListRequest*> lists = {};
  std::vector<CountRequest*> counts = {};
  std::vector<CandidatesRequest*> candidates = {};
  std::vector<SumRequest*> sums = {};
  std::vector<SolveRequest*> solves = {};
  std::vector<GridRequest*> grids = {};
  std::vector<ReadRequest*> reads = {};

  static constexpr size_t kKinds = 8, kSums = 4;  // place of the sums among the kinds
  auto kinds() const { return std::tie(advances, lists, counts, candidates, sums, solves, grids, reads); }
  auto kinds() { return std::tie(advances, lists, counts, candidates, sums, solves, grids, reads); }

  bool empty() const {
    return std::apply([](const auto&... kind) { return (kind.empty() && ...); }, kinds());
  }
  void add(const GpuRequests& other) {
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    [&]<size_t... I>(std::index_sequence<I...>) {
      (append(std::get<I>(kinds()), std::get<I>(other.kinds())), ...);
    }(std::make_index_sequence<kKinds>{});
  }
};

// Whether a part has rows that a request asks for.
inline bool concerns(const SumRequest& request, int part) { return request.source.parts[part].count > 0; }
inline bool concerns(const ListRequest& request, int part) { return request.source.parts[part].count > 0; }
inline bool concerns(const CountRequest& request, int part) {
  return request.positions[part].first < request.positions[part].second;
}
template <class OfOnePart>
bool concerns(const OfOnePart& request, int part) {
  return request.part == part;
}

inline bool concerns(const GpuRequests& requests, int part) {
  const auto any = [part](const auto& kind) {
    return std::any_of(kind.begin(), kind.end(), [part](const auto* request) { return concerns(*request, part); });
  };
  return std::apply([&](const auto&... kind) { return (any(kind) || ...); }, requests.kinds());
}

}  // namespace glasswood
