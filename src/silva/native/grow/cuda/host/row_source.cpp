#include "grow/cuda/host/row_source.h"

#include "grow/cuda/host/grid_search.h"
#include "grow/cuda/host/threshold_search.h"

namespace silva {

static_assert(kMaxDepth + 1 <= kMostIntervals, "the kernel that sums has no room for the intervals of a box");

constexpr int64_t kMostSampled = 1 << 16;
constexpr int64_t kListing = 4;  // multiplications that a row costs which is only looked at

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
  if (!parts().are_copies() || most > kMostSampled || source.count * kListing < settings_.cpu_work)
    return cpu_.sample(box, most, rows);
  ListRequest request;
  request.source = source, request.intervals = intervals_of(box, -1), request.most = int32_t(most);
  scheduler_.ask({.lists = {&request}});
  rows = std::move(request.sample);
  return request.total / most + 1;
}

FoundThreshold GpuRowSource::best_threshold(const ThresholdRequest& request, Scratch& s) const {
  if (!parts().are_copies()) return cpu_.best_threshold(request, s);
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
  parts().assign(request.source, parts().home(list.index()));
  request.intervals = intervals_of(box, skipped_feature);
  request.list = list.index(), request.feature = feature;
  return request;
}

}  // namespace silva
