// What reads the training rows for the search. The engine asks for sums and thresholds, a whole phase at a time; cores
// answer here, GPUs in grow/cuda/host/row_source.h.
#pragma once
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "common/threads/thread_pool.h"
#include "grow/data/buffers.h"
#include "grow/data/columns.h"
#include "grow/paper/evaluation.h"
#include "grow/search/gram_cache.h"

namespace silva {

class Evaluator;
struct SweepRequest;

// Rows and sums of one leaf; no sums where a request allowed to leave them out.
struct LeafSums {
  int64_t n_rows = 0;
  std::vector<double> gram;  // packed
};

// What a task did.
struct Tally {
  int64_t rows_read = 0, n_evaluations = 0;
  ProcedureSeconds procedures{};  // of the paper's evaluation

  void add(const Tally& other) {
    rows_read += other.rows_read, n_evaluations += other.n_evaluations;
    for (int p = 0; p < kProcedures; ++p) procedures[p] += other.procedures[p];
  }
};

// Buffers of one task.
struct Scratch : Tally {
  std::vector<Box> boxes, shifted;
  std::vector<LeafStats*> stats;
  RowList rows, spare;
  std::vector<int64_t> offsets;      // by node: where its rows stand
  std::vector<int64_t> least, most;  // by node: bounds of a request
  std::vector<char> missing;         // by node: whether a leaf below lacks its sums
  std::vector<LeafSums> sums;        // by node: the answer to a request
  std::vector<int> unknown;          // leaves whose errors are
  std::vector<int32_t> columns;
  std::vector<double> gram, recentred, block;
  std::vector<int32_t> block_rows;
};

// The rows of a box, shared out by the subtree at `top`. `wanted` marks leaves whose sums are asked for, and the splits
// above them.
struct LeafRequest {
  const Box* box;
  const GrowTree* tree;
  int top;
  const std::vector<char>* wanted;
  const std::vector<int64_t>* least = nullptr;  // by node: fewer rows and the request fails
  const std::vector<int64_t>* most = nullptr;   // by node: with more rows the sums may be left out
  bool spares_largest = false;                  // the sums of the largest wanted leaf may be left out
  int64_t n_rows = -1;                          // of the wanted leaves together, -1 if unknown
  const std::vector<Box>* boxes = nullptr;      // by node, where n_rows is known
};

struct FoundCut {
  int32_t cut = -1;  // -1: no cut leaves enough rows everywhere
  double error = std::numeric_limits<double>::infinity();
};

class RowReader {
 public:
  virtual ~RowReader() = default;
  // Runs the tasks 0 .. n_tasks - 1 of a phase; each is told which scratch buffers are its own.
  virtual void run(ThreadPool& pool, int n_tasks, const std::function<void(int task, int scratch)>& run_task) = 0;
  // Within a task: parts that know nothing of each other, with buffers of their own.
  virtual void fork(int n_parts, Scratch& s, const std::function<void(int part, Scratch&)>& run_part) const {
    for (int i = 0; i < n_parts; ++i) run_part(i, s);
  }
  // Within a task: task(i, scratch) for every i below n, in parts of about equal `work`, in multiplications.
  template <class Work, class Task>
  void share(int n, Scratch& s, Work work, Task task) const {
    if (!is_batched()) {
      for (int i = 0; i < n; ++i) task(i, s);
      return;
    }
    std::vector<int> firsts = {0};
    double sum = 0;
    for (int i = 0; i < n; ++i) {
      if (sum >= kPart) firsts.push_back(i), sum = 0;
      sum += work(i);
    }
    firsts.push_back(n);
    fork(int(firsts.size()) - 1, s, [&](int part, Scratch& own) {
      for (int i = firsts[part]; i < firsts[part + 1]; ++i) task(i, own);
    });
  }
  static constexpr double kPart = 300'000;  // that are worth a part: some 20 microseconds
  // Whether parts that ask at the same time wait hardly longer than one alone.
  virtual bool is_batched() const { return false; }
  // Answers in s.sums; returns the first leaf that has fewer rows than it needs, or -1.
  virtual int sum_leaves(const LeafRequest& request, Scratch& s) const = 0;
  // Every stride-th row of a box in an order that the box alone decides, stride = rows of the box / most + 1, which it
  // returns.
  virtual int64_t sample(const Box& box, int64_t most, RowList& rows) const = 0;
  // The best threshold of a test.
  virtual FoundCut best_cut(const Evaluator& evaluator, const SweepRequest& request, Scratch& s) const = 0;
  // Lends the paper's evaluation of one tree.
  virtual void evaluate_by_qr(const std::function<void(PaperEvaluation&)>& evaluate, Scratch& s) const = 0;
  // For what is too large to be a task's own.
  Buffers& buffers() const { return buffers_; }

 private:
  mutable Buffers buffers_;
};

class CoreReader : public RowReader {
 public:
  CoreReader(const GrowData& data, const GrowKernels& kernels) : data_(data), kernels_(kernels) {}

  void run(ThreadPool& pool, int n_tasks, const std::function<void(int, int)>& run_task) override {
    pool.run(n_tasks, run_task);
  }

  int sum_leaves(const LeafRequest& request, Scratch& s) const override {
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

  int64_t sample(const Box& box, int64_t most, RowList& rows) const override {
    collect_rows(data_, box, rows);
    const int64_t stride = int64_t(rows.size()) / most + 1;
    if (stride == 1) return 1;
    size_t kept = 0;
    for (size_t i = 0; i < rows.size(); i += stride) rows[kept++] = rows[i];
    rows.resize(kept);
    return stride;
  }

  FoundCut best_cut(const Evaluator& evaluator, const SweepRequest& request, Scratch& s) const override;

  void evaluate_by_qr(const std::function<void(PaperEvaluation&)>& evaluate, Scratch& s) const override {
    const std::unique_ptr<PaperEvaluation> paper = make_cpu_evaluation(data_);
    paper->add_seconds_to(s.procedures);
    evaluate(*paper);
  }

  void sum_rows(const int32_t* rows, int64_t count, double* gram, Scratch& s) const {
    kernels_.accumulate(data_.z, data_.width, rows, count, gram);
    s.rows_read += count;
  }

  // The same of some columns only, brought together a block at a time.
  void sum_rows(const int32_t* rows, int64_t count, const ModelColumns& columns, double* gram, Scratch& s) const {
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

 private:
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

  // Reads the rows of one leaf, and of the other only if they are fewer.
  int sum_smaller(const LeafRequest& request, int first, int second, Scratch& s) const {
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
  int sort_by_leaf(const LeafRequest& request, int v, int64_t first, int64_t count, Scratch& s) const {
    if (!(*request.wanted)[v]) return -1;
    const GrowNode& node = (*request.tree)[v];
    s.offsets[v] = first;
    s.sums[v].n_rows = count;
    if (node.is_leaf()) return request.least && count < (*request.least)[v] ? v : -1;
    const int64_t n_left = partition_rows(data_, node.test, s.rows.data() + first, count, s.spare);
    const int offending = sort_by_leaf(request, node.left, first, n_left, s);
    return offending >= 0 ? offending : sort_by_leaf(request, node.right, first + n_left, count - n_left, s);
  }

  void sum_wanted(const LeafRequest& request, Scratch& s) const {
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

  const GrowData& data_;
  const GrowKernels& kernels_;
};

}  // namespace silva
