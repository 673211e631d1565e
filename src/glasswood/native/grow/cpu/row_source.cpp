#include "grow/cpu/row_source.h"

#include <numeric>

#include "grow/cpu/threshold_search.h"

namespace glasswood {

static bool is_wanted(const LeafRequest& request, int v) {
  return (*request.tree)[v].is_leaf() && (*request.wanted)[v];
}

// The wanted leaves if they are two, otherwise -1.
static std::pair<int, int> two_wanted(const LeafRequest& request) {
  std::pair<int, int> found = {-1, -1};
  for (int v = request.top; v < subtree_end(*request.tree, request.top); ++v) {
    if (!is_wanted(request, v)) continue;
    if (found.second >= 0) return {-1, -1};
    (found.first < 0 ? found.first : found.second) = v;
  }
  return found;
}

int CpuRowSource::sum_leaves(const LeafRequest& request, Scratch& s) const {
  const size_t n_nodes = request.tree->nodes.size();
  s.sums.assign(n_nodes, {});
  s.offsets.assign(n_nodes, 0);
  if (request.n_rows >= 0)
    if (const auto [first, second] = two_wanted(request); second >= 0) return sum_smaller(request, first, second, s);
  collect_rows(data_, *request.box, s.rows);
  const int offending = sort_by_leaf(request, request.top, 0, int64_t(s.rows.size()), s);
  if (offending < 0) sum_wanted(request, s);
  return offending;
}

int64_t CpuRowSource::sample(const Box& box, int64_t most, RowList& rows) const {
  collect_rows(data_, box, rows);
  const int64_t stride = int64_t(rows.size()) / most + 1;
  if (stride == 1) return 1;
  size_t kept = 0;
  for (size_t i = 0; i < rows.size(); i += stride) rows[kept++] = rows[i];
  rows.resize(kept);
  return stride;
}

FoundThreshold CpuRowSource::best_threshold(const ThresholdRequest& request, Scratch& s) const {
  return CpuThresholdSearch(*this, s).run(request);
}

void CpuRowSource::evaluate_by_qr(const std::function<void(PaperEvaluation&)>& evaluate, Scratch& s) const {
  const std::unique_ptr<PaperEvaluation> paper = make_cpu_evaluation(data_);
  paper->add_seconds_to(s.procedures);
  evaluate(*paper);
}

void CpuRowSource::sum_rows(const int32_t* rows, int64_t count, double* gram, Scratch& s) const {
  kernels_.accumulate(data_.z, data_.width, rows, count, gram);
  s.rows_read += count;
}

void CpuRowSource::sum_rows(const int32_t* rows, int64_t count, const ModelColumns& columns, double* gram,
                            Scratch& s) const {
  if (columns.is_all()) return sum_rows(rows, count, gram, s);
  constexpr int64_t kBlock = 64, kAhead = 8;
  const int width = columns.width();
  s.block.resize(size_t(kBlock) * width + kLanes);
  s.block_rows.resize(kBlock);
  std::iota(s.block_rows.begin(), s.block_rows.end(), 0);
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t n = std::min(kBlock, count - first);
    const auto gather = [&](const auto* z) {
      double* to = s.block.data();
      for (int64_t i = first; i < first + n; ++i) {
        const auto* ahead = z + int64_t(rows[std::min(i + kAhead, count - 1)]) * data_.z.stride;
        for (int c = 0; c < data_.width; c += 64 / int(sizeof *z)) __builtin_prefetch(ahead + c);
        const auto* from = z + int64_t(rows[i]) * data_.z.stride;
        for (const int32_t column : columns.taken()) *to++ = from[column];
      }
    };
    data_.z.floats ? gather(data_.z.floats) : gather(data_.z.doubles);
    kernels_.accumulate({s.block.data(), nullptr, size_t(width)}, width, s.block_rows.data(), n, gram);
  }
  s.rows_read += count;
}

// Reads the rows of one leaf, and of the other only if they are fewer.
int CpuRowSource::sum_smaller(const LeafRequest& request, int first, int second, Scratch& s) const {
  const std::vector<Box>& boxes = *request.boxes;
  collect_rows(data_, boxes[first], s.rows);
  s.sums[first].n_rows = int64_t(s.rows.size());
  s.sums[second].n_rows = request.n_rows - s.sums[first].n_rows;
  for (const int v : {first, second})
    if (request.least && s.sums[v].n_rows < (*request.least)[v]) return v;
  const int smaller = s.sums[first].n_rows <= s.sums[second].n_rows ? first : second;
  if (smaller == second) collect_rows(data_, boxes[second], s.rows);
  LeafSums& sums = s.sums[smaller];
  sums.gram.assign(packed_size(data_.width), 0);
  sum_rows(s.rows.data(), sums.n_rows, sums.gram.data(), s);
  return -1;
}

// Brings the rows of wanted leaves together.
int CpuRowSource::sort_by_leaf(const LeafRequest& request, int v, int64_t first, int64_t count, Scratch& s) const {
  if (!(*request.wanted)[v]) return -1;
  const GrowNode& node = (*request.tree)[v];
  s.offsets[v] = first;
  s.sums[v].n_rows = count;
  if (node.is_leaf()) return request.least && count < (*request.least)[v] ? v : -1;
  const int64_t n_left = partition_rows(data_, node.split, s.rows.data() + first, count, s.spare);
  const int offending = sort_by_leaf(request, node.left, first, n_left, s);
  return offending >= 0 ? offending : sort_by_leaf(request, node.right, first + n_left, count - n_left, s);
}

void CpuRowSource::sum_wanted(const LeafRequest& request, Scratch& s) const {
  const int end = subtree_end(*request.tree, request.top);
  int largest = -1;
  for (int v = request.top; v < end && request.spares_largest; ++v)
    if (is_wanted(request, v) && (largest < 0 || s.sums[v].n_rows > s.sums[largest].n_rows)) largest = v;
  for (int v = request.top; v < end; ++v) {
    LeafSums& sums = s.sums[v];
    if (!is_wanted(request, v) || v == largest || (request.most && sums.n_rows > (*request.most)[v])) continue;
    sums.gram.assign(packed_size(data_.width), 0);
    sum_rows(s.rows.data() + s.offsets[v], sums.n_rows, sums.gram.data(), s);
  }
}

}  // namespace glasswood
