#include "grow/cuda/host/row_source.h"

#include <numeric>

#include "grow/cuda/host/grid_search.h"
#include "grow/cuda/host/threshold_search.h"

namespace glasswood {

static_assert(kMaxDepth + 1 <= kMostIntervals, "the kernel that sums has no room for the intervals of a box");

constexpr int64_t kMostSampled = 1 << 16;
constexpr int64_t kListing = 4;  // multiplications that a row costs which is only looked at

static int64_t sum_of(const std::vector<int64_t>& totals) {
  return std::accumulate(totals.begin(), totals.end(), int64_t(0));
}

std::vector<RouteInterval> intervals_of(const Box& box, int skipped_feature) {
  std::vector<RouteInterval> intervals;
  for (int i = 0; i < box.size(); ++i)
    if (box[i].feature != skipped_feature)
      intervals.push_back({box[i].feature, box[i].low, box[i].high, box[i].missing});
  return intervals;
}

int add_nodes(const GrowTree& tree, int top, const std::vector<char>* wanted, std::vector<RouteNode>& nodes) {
  int n_slots = 0;
  for (int v = top; v < subtree_end(tree, top); ++v) {
    const GrowNode& node = tree[v];
    const bool ends = node.is_leaf() || (wanted && !(*wanted)[v]);
    const bool counts = node.is_leaf() && (!wanted || (*wanted)[v]);
    nodes.push_back(ends ? RouteNode{-1, counts ? n_slots : -1, 0, 0, 0}
                         : RouteNode{node.split.feature, node.split.threshold, node.split.missing_left, node.left - top,
                                     node.right - top});
    n_slots += counts;
  }
  return n_slots;
}

int GpuRowSource::sum_leaves(const LeafRequest& leaves, Scratch& s) const {
  const GrowTree& tree = *leaves.tree;
  SumRequest request;
  request.source = source_of(*leaves.box, kGathered);
  request.n_slots = add_nodes(tree, leaves.top, leaves.wanted, request.nodes);
  const bool is_small = request.source.count * work_of_row() < settings_.cpu_work;
  if (is_small || request.n_slots > kMostSlots || request.nodes.size() > size_t(kMostNodes))
    return cpu_.sum_leaves(leaves, s);
  request.intervals = intervals_of(*leaves.box, -1);
  scheduler_.ask({.sums = {&request}});
  s.sums.assign(tree.nodes.size(), {});
  for (size_t i = 0; i < request.nodes.size(); ++i) {
    const RouteNode& node = request.nodes[i];
    const int v = leaves.top + int(i);
    if (node.feature >= 0 || node.threshold < 0) continue;
    s.sums[v] = std::move(request.answer[node.threshold]);
    s.rows_read += s.sums[v].n_rows;
    if (leaves.least && s.sums[v].n_rows < (*leaves.least)[v]) return v;
  }
  return -1;
}

int64_t GpuRowSource::sample(const Box& box, int64_t most, RowList& rows) const {
  const RowsByPart source = source_of(box, kVisited);
  if (source.count * kListing < settings_.cpu_work) return cpu_.sample(box, most, rows);
  if (parts().are_copies()) {
    if (most <= kMostSampled) return sample_at_once(source, box, int32_t(most), rows);
  } else if (source.ordered_by >= 0) {
    return sample_by_rank(source, box, most, rows);
  }
  const FiberScheduler::List list(scheduler_);
  ListRequest all = list_request(list, source, box, -1, -1);
  scheduler_.ask({.lists = {&all}});
  const int64_t stride = sum_of(all.totals) / most + 1;
  if (stride > 1) all = every(stride, list, all);
  rows.resize(sum_of(all.totals));
  std::vector<RowRange> ranges;
  for (int p = 0; p < parts().size(); ++p) ranges.push_back({p, 0, all.totals[p]});
  read_rows(ranges, list.index(), stride > 1, rows.data());
  return stride;
}

FoundThreshold GpuRowSource::best_threshold(const ThresholdRequest& request, Scratch& s) const {
  if (request.rows) return GridThresholdSearch(*this, s).run(request);
  const int n_nodes = subtree_end(*request.tree, request.right) - request.left;
  const int64_t n_rows = rows_of_interval(data_, request.box->interval(data_, request.feature));
  const int64_t by_box = source_of(*request.box, kGathered).count;
  if (is_handed_over(std::min(n_rows, by_box)) || n_nodes > kMostNodes) return cpu_.best_threshold(request, s);
  return GpuThresholdSearch(*this, s).run(request);
}

void GpuRowSource::evaluate_by_qr(const std::function<void(PaperEvaluation&)>& evaluate, Scratch& s) const {
  if (!paper_) return cpu_.evaluate_by_qr(evaluate, s);
  scheduler_.run_alone([&] {
    paper_->add_seconds_to(s.procedures);
    evaluate(*paper_);
  });
}

// All rows, or those of the box's narrowest interval where they are few.
RowsByPart GpuRowSource::source_of(const Box& box, SourceUse use) const {
  const int by = narrowest(data_, box);
  const bool few = use == kVisited ? is_visited(data_, box, by)
                                   : by >= 0 && rows_of_interval(data_, box[by]) * settings_.sectors < data_.n_rows;
  return few ? rows_of(box[by], box[by].missing) : parts().all_rows();
}

ListRequest GpuRowSource::list_request(const FiberScheduler::List& list, RowsByPart source, const Box& box,
                                       int skipped_feature, int feature) const {
  ListRequest request;
  request.source = std::move(source);
  parts().bring_home(request.source, list.index());
  request.intervals = intervals_of(box, skipped_feature);
  request.list = list.index(), request.feature = feature;
  return request;
}

std::unique_ptr<RankedList> GpuRowSource::ranked_list(const FiberScheduler::List& list, int feature,
                                                      const Interval& interval) const {
  if (parts().are_copies()) return std::make_unique<WholeList>(list.index(), parts().home(list.index()));
  return std::make_unique<ListInParts>(*this, feature, interval);
}

// Where a part holds all rows.
int64_t GpuRowSource::sample_at_once(const RowsByPart& source, const Box& box, int32_t most, RowList& rows) const {
  ListRequest request;
  request.source = source, request.intervals = intervals_of(box, -1), request.most = most;
  scheduler_.ask({.lists = {&request}});
  rows = std::move(request.sample);
  return sum_of(request.totals) / most + 1;
}

// Every stride-th row of a list over all parts, written over the list's ranks.
ListRequest GpuRowSource::every(int64_t stride, const FiberScheduler::List& list, const ListRequest& all) const {
  ListRequest some;
  some.list = list.index(), some.over_ranks = true;
  int64_t before = 0;
  for (int p = 0; p < parts().size(); ++p) {
    const int64_t skipped = (stride - before % stride) % stride;
    const int64_t count = std::max<int64_t>(0, (all.totals[p] - skipped + stride - 1) / stride);
    some.source.parts.push_back({parts()[p].list_rows(list.index()), 0, skipped, count, stride});
    some.source.count += count, before += all.totals[p];
  }
  scheduler_.ask({.lists = {&some}});
  return some;
}

void GpuRowSource::read_rows(const std::vector<RowRange>& ranges, int list, bool over_ranks, int32_t* rows) const {
  std::vector<ReadRequest> reads;
  int32_t* to = rows;
  for (const auto& [p, first, last] : ranges) {
    const int32_t* from = (over_ranks ? parts()[p].list_ranks(list) : parts()[p].list_rows(list)) + first;
    if (last > first) reads.push_back({p, to, from, size_t(last - first) * sizeof(int32_t)});
    to += last - first;
  }
  GpuRequests all;
  for (ReadRequest& read : reads) all.reads.push_back(&read);
  if (!reads.empty()) scheduler_.ask(all);
  for (const auto& [p, first, last] : ranges)
    for (int64_t i = first; i < last; ++i) *rows++ += int32_t(parts()[p].first);
}

// A sample of rows that several parts hold in the order of a feature.
int64_t GpuRowSource::sample_by_rank(const RowsByPart& source, const Box& box, int64_t most, RowList& rows) const {
  const FiberScheduler::List list(scheduler_);
  const Interval interval = box.interval(data_, source.ordered_by);
  ListRequest all = list_request(list, source, box, -1, source.ordered_by);
  RankCounts::count(all, interval.missing ? -1 : interval.low, interval.high, settings_.n_cells);
  scheduler_.ask({.lists = {&all}});
  RankCounts counts(all);
  const int64_t stride = counts.n_rows() / most + 1;
  std::vector<RankCounts::Place> places;
  const auto locate = [&] {
    places.clear();
    for (int64_t at = 0; at < counts.n_rows(); at += stride) places.push_back(counts.place(at));
  };
  for (locate(); counts.wants(); locate())
    counts.resolve([&](const GpuRequests& requests) { scheduler_.ask(requests); });
  std::vector<RowRange> ranges;
  std::vector<int64_t> starts(parts().size(), 0);
  for (int p = 0; p < parts().size(); ++p) {
    ranges.push_back({p, 0, all.totals[p]});
    if (p) starts[p] = starts[p - 1] + all.totals[p - 1];
  }
  RowList listed(counts.n_rows());
  read_rows(ranges, list.index(), false, listed.data());
  rows.resize(places.size());
  for (size_t i = 0; i < places.size(); ++i) rows[i] = listed[starts[places[i].part] + places[i].position];
  return stride;
}

}  // namespace glasswood
