// A GPU reads the rows: what the tasks of a phase ask is collected and answered together (grow/gpu_queue.h). Tasks are
// fibers that hand their thread on while they wait, so that the search itself knows nothing of it. Requests that cores
// answer sooner than a launch returns stay on the cores.
#pragma once
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>

#include "grow/fibers.h"
#include "grow/gpu_queue.h"
#include "grow/sweep.h"

namespace silva {

class GpuReader : public RowReader {
 public:
  GpuReader(const GrowData& data, const GrowKernels& kernels, const GpuHandles& handles, const CudaDriver& driver,
            std::function<void()> between_rounds)
      : data_(data),
        cores_(data, kernels),
        queue_(handles, driver, data.n_rows, data.width),
        between_rounds_(std::move(between_rounds)),
        free_lists_(handles.lists) {}

  int64_t n_rounds() const { return n_rounds_; }
  double seconds() const { return seconds_; }  // from a round's questions to their answers

  // The order of questions, and with it that of all sums, does not depend on the number of threads: every task goes on
  // until it asks, and only then are questions answered, lists handed out and parts begun.
  void run(ThreadPool& pool, int n_tasks, const std::function<void(int, int)>& run_task) override {
    failure_ = error_ = nullptr;
    queue_.share_with(&pool);
    free_lists_ = queue_.handles().lists;  // a phase that failed may not have given all of them back
    std::vector<Task*> turn;
    for (int i = 0; i < n_tasks; ++i) turn.push_back(begin(nullptr, [i, &run_task](Scratch&) { run_task(i, i); }));
    while (!turn.empty()) {
      take_turn(pool, turn);
      turn = next_turn(turn);
      if (!turn.empty()) answer(turn);
    }
    if (failure_ || error_) std::rethrow_exception(failure_ ? failure_ : error_);
  }

  void fork(int n_parts, Scratch& s, const std::function<void(int, Scratch&)>& run_part) const override {
    Task* task = current();
    if (!task || n_parts < 2) return RowReader::fork(n_parts, s, run_part);
    std::atomic<int64_t> rows_read = 0, n_evaluations = 0;
    for (int i = 0; i < n_parts; ++i)
      task->parts.push_back([i, &run_part, &rows_read, &n_evaluations](Scratch& own) {
        own.rows_read = own.n_evaluations = 0;
        run_part(i, own);
        rows_read += own.rows_read, n_evaluations += own.n_evaluations;
      });
    task->fiber.yield();
    s.rows_read += rows_read, s.n_evaluations += n_evaluations;
    if (failure_ || error_) throw Abandoned();
  }

  int n_together() const override {
    constexpr int kTogether = 32;
    return data_.n_rows * multiplications() < queue_.handles().core_work ? 1 : kTogether;
  }

  int sum_leaves(const LeafRequest& request, Scratch& s) const override {
    const GrowTree& tree = *request.tree;
    SumQuestion question;
    question.request.source = source_of(*request.box, kGathered);
    question.request.n_slots = add_nodes(tree, request.top, request.wanted, question.nodes);
    const bool is_small = question.request.source.count * multiplications() < queue_.handles().core_work;
    if (is_small || question.request.n_slots > kMostSlots || question.nodes.size() > size_t(kMostNodes))
      return cores_.sum_leaves(request, s);
    question.intervals = intervals_of(*request.box, -1);
    ask({{&question}, {}, {}, {}});
    s.sums.assign(tree.nodes.size(), {});
    for (size_t i = 0; i < question.nodes.size(); ++i) {
      const RouteNode& node = question.nodes[i];
      const int v = request.top + int(i);
      if (node.attribute >= 0 || node.cut < 0) continue;
      s.sums[v] = std::move(question.answer[node.cut]);
      s.rows_read += s.sums[v].n_rows;
      if (request.least && s.sums[v].n_rows < (*request.least)[v]) return v;
    }
    return -1;
  }

  int64_t sample(const Box& box, int64_t most, RowList& rows) const override {
    const RowPositions source = source_of(box, kVisited);
    if (source.count * kListing < queue_.handles().core_work) return cores_.sample(box, most, rows);
    const List list(*this);
    ListQuestion all = list_question(list, source, box, -1, -1);
    ask({{}, {&all}, {}, {}});
    const int64_t stride = all.total / most + 1;
    ReadQuestion read{nullptr, list.rows(), 0};
    if (stride > 1) {
      ListQuestion some;
      some.request.source = {list.row_list(), 0, 0, (all.total + stride - 1) / stride, stride};
      some.request.rows = list.rank_list(), some.request.attribute = -1;
      ask({{}, {&some}, {}, {}});
      all.total = some.total;
      read.from = list.ranks();
    }
    rows.resize(all.total);
    read.to = rows.data(), read.bytes = rows.size() * sizeof(int32_t);
    if (read.bytes) ask({{}, {}, {}, {&read}});
    return stride;
  }

  FoundCut best_cut(const Evaluator& evaluator, const SweepRequest& request, Scratch& s) const override;

 private:
  friend class GpuSweep;
  // A task of the phase or a part of one.
  struct Task {
    Fiber fiber;
    Scratch scratch;  // of a part
    Task* parent = nullptr;
    std::vector<std::function<void(Scratch&)>> parts;  // waits to begin
    int n_parts_left = 0;
    const GpuQuestions* questions = nullptr;  // waits for answers
    bool wants_list = false;
    uint64_t list = 0;
  };
  enum SourceUse { kGathered, kVisited };
  static constexpr int64_t kSweepRounds = 4;  // of launches that a threshold takes at least
  static constexpr int64_t kListing = 4;      // multiplications that a row costs which is only looked at

  // A buffer for a list of rows and their ranks, waited for if all are taken.
  class List {
   public:
    explicit List(const GpuReader& reader) : reader_(reader), rows_(reader.take_list()) {}
    List(const List&) = delete;
    ~List() { reader_.give_back(rows_); }
    uint64_t rows() const { return rows_; }
    uint64_t ranks() const { return rows_ + uint64_t(reader_.data_.n_rows) * sizeof(int32_t); }
    int32_t* row_list() const { return reinterpret_cast<int32_t*>(rows()); }
    int32_t* rank_list() const { return reinterpret_cast<int32_t*>(ranks()); }

   private:
    const GpuReader& reader_;
    uint64_t rows_;
  };

  struct Abandoned : std::runtime_error {
    Abandoned() : std::runtime_error("the search was abandoned") {}
  };

  static Task* current() { return static_cast<Task*>(Fiber::current() ? Fiber::current()->owner() : nullptr); }

  uint64_t take_list() const {
    Task* task = current();
    if (!task) {
      const uint64_t list = free_lists_.back();
      free_lists_.pop_back();
      return list;
    }
    task->wants_list = true;
    task->fiber.yield();
    if (failure_ || error_) throw Abandoned();
    return task->list;
  }
  void give_back(uint64_t list) const {
    const std::lock_guard lock(mutex_);
    free_lists_.push_back(list);
  }

  // Waits for the answers to arrive in the questions.
  void ask(const GpuQuestions& questions) const {
    Task* task = current();
    if (!task) return queue_.answer(questions);
    task->questions = &questions;
    task->fiber.yield();
    if (failure_ || error_) throw Abandoned();
  }

  Task* begin(Task* parent, std::function<void(Scratch&)> body) {
    if (idle_.empty()) {
      tasks_.push_back(std::make_unique<Task>());
      idle_.push_back(tasks_.back().get());
    }
    Task* task = idle_.back();
    idle_.pop_back();
    task->parent = parent;
    task->fiber.start(task, [task, body = std::move(body)] { body(task->scratch); });
    return task;
  }

  // Who goes on after a turn, in the order of the tasks.
  std::vector<Task*> next_turn(const std::vector<Task*>& turn) {
    std::vector<Task*> next;
    for (Task* task : turn) {
      if (task->fiber.is_done()) {
        if (task->fiber.error() && !error_) error_ = task->fiber.error();
        idle_.push_back(task);
        if (task->parent && --task->parent->n_parts_left == 0) next.push_back(task->parent);
      } else if (!task->parts.empty()) {
        task->n_parts_left = int(task->parts.size());
        for (auto& part : std::exchange(task->parts, {})) next.push_back(begin(task, std::move(part)));
      } else {
        task->wants_list ? wanting_.push_back(task) : next.push_back(task);
      }
    }
    while (!wanting_.empty() && (!free_lists_.empty() || failure_ || error_)) {
      Task* task = wanting_.front();
      wanting_.pop_front();
      task->wants_list = false;
      if (!failure_ && !error_) task->list = free_lists_.back(), free_lists_.pop_back();
      next.push_back(task);
    }
    return next;
  }

  // Every task goes on until it asks again or ends: side by side only where that repays waking the other threads.
  void take_turn(ThreadPool& pool, const std::vector<Task*>& turn) {
    constexpr double kWorthwhile = 150e-6;
    const bool alone = seconds_of_task_ * double(turn.size()) < kWorthwhile;
    const int n_threads = alone ? 1 : std::min(pool.n_threads(), int(turn.size()));
    const auto resume = [&](int i, int) { turn[i]->fiber.resume(); };
    const auto began = std::chrono::steady_clock::now();
    if (alone)
      for (int i = 0; i < int(turn.size()); ++i) resume(i, 0);
    else
      pool.run(int(turn.size()), resume);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    seconds_of_task_ = took.count() * n_threads / double(turn.size());
  }

  void answer(const std::vector<Task*>& waiting) {
    GpuQuestions all;
    for (Task* task : waiting)
      if (task->questions) all.add(*std::exchange(task->questions, nullptr));
    const auto began = std::chrono::steady_clock::now();
    try {
      if (!failure_ && !error_) queue_.answer(all);
      seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      if (between_rounds_) between_rounds_();
      n_rounds_ += !all.empty();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  bool is_handed_over(int64_t n_rows) const {
    return 2 * n_rows * multiplications() < kSweepRounds * queue_.handles().core_work;
  }

  int64_t multiplications() const { return int64_t(packed_size(data_.width)) + 20; }

  // All rows, or those of the box's narrowest interval where they are few.
  RowPositions source_of(const Box& box, SourceUse use) const {
    constexpr int64_t kSectors = 8;  // a gathered number costs as much as this many in a row
    const int by = narrowest(data_, box);
    const bool few = use == kVisited ? is_visited(data_, box, by)
                                     : by >= 0 && rows_of_interval(data_, box[by]) * kSectors < data_.n_rows;
    return few ? source_of(box[by], box[by].missing) : RowPositions{nullptr, 0, 0, data_.n_rows, 1};
  }

  RowPositions source_of(const Interval& interval, bool with_missing) const {
    const int64_t n_missing = data_.n_missing(interval.attribute), head = with_missing ? n_missing : 0;
    const int64_t first = data_.starts[interval.attribute][interval.low];
    return {order_of(interval.attribute), head, first - head,
            head + data_.n_between(interval.attribute, interval.low, interval.high), 1};
  }

  const int32_t* order_of(int attribute) const {
    return reinterpret_cast<const int32_t*>(queue_.handles().order) + attribute * data_.n_rows;
  }

  static std::vector<RouteInterval> intervals_of(const Box& box, int skipped_attribute) {
    std::vector<RouteInterval> intervals;
    for (int i = 0; i < box.size(); ++i)
      if (box[i].attribute != skipped_attribute)
        intervals.push_back({box[i].attribute, box[i].low, box[i].high, box[i].missing});
    return intervals;
  }

  // The subtree at `top`; returns the number of slots.
  static int add_nodes(const GrowTree& tree, int top, const std::vector<char>* wanted, std::vector<RouteNode>& nodes) {
    int n_slots = 0;
    for (int v = top; v < subtree_end(tree, top); ++v) {
      const GrowNode& node = tree[v];
      const bool ends = node.is_leaf() || (wanted && !(*wanted)[v]);
      const bool counts = node.is_leaf() && (!wanted || (*wanted)[v]);
      nodes.push_back(ends ? RouteNode{-1, counts ? n_slots : -1, 0, 0, 0}
                           : RouteNode{node.test.attribute, node.test.cut, node.test.missing_left, node.left - top,
                                       node.right - top});
      n_slots += counts;
    }
    return n_slots;
  }

  static ListQuestion list_question(const List& list, const RowPositions& source, const Box& box, int skipped_attribute,
                                    int attribute) {
    ListQuestion question;
    question.request.source = source;
    question.request.rows = list.row_list(), question.request.ranks = list.rank_list();
    question.request.attribute = attribute;
    question.intervals = intervals_of(box, skipped_attribute);
    return question;
  }

  const GrowData& data_;
  CoreReader cores_;
  mutable GpuQueue queue_;
  std::function<void()> between_rounds_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::vector<Task*> idle_;
  std::deque<Task*> wanting_;  // lists
  mutable std::mutex mutex_;
  mutable std::vector<uint64_t> free_lists_;
  std::exception_ptr failure_, error_;  // of the GPU, and of a task
  int64_t n_rounds_ = 0;
  double seconds_ = 0;
  double seconds_of_task_ = 0;  // in the last turn
};

// Cuts of a list of rows that stays on the GPU; the sums between two cuts are one request each.
class GpuSweep : public ThresholdSweep {
 public:
  GpuSweep(const Evaluator& evaluator, const GpuReader& reader, Scratch& scratch)
      : ThresholdSweep(evaluator, scratch), reader_(reader), list_(reader) {}

 private:
  int open() override {
    const GrowTree& tree = *request_.tree;
    const Interval interval = request_.box->interval(data_, request_.attribute);
    add_leaves(request_.left, true);
    n_left_ = int(leaves_.size());
    add_leaves(request_.right, false);
    for (const auto& [root, nodes] : {std::pair{request_.left, &left_}, {request_.right, &right_}})
      GpuReader::add_nodes(tree, root, nullptr, *nodes);
    ListQuestion list = GpuReader::list_question(list_, reader_.source_of(interval, false), *request_.box,
                                                 request_.attribute, request_.attribute);
    SumQuestion missing = question(request_.missing_left);
    const int64_t n_missing = interval.missing ? data_.n_missing(request_.attribute) : 0;
    missing.request.source = {reader_.order_of(request_.attribute), 0, 0, n_missing, 1};
    missing.intervals = list.intervals;
    GpuQuestions questions{{}, {&list}, {}, {}};
    if (n_missing) questions.sums.push_back(&missing);
    reader_.ask(questions);
    const int first = request_.missing_left ? 0 : n_left_;
    for (size_t k = 0; k < missing.answer.size(); ++k) {
      leaves_[first + k].n_missing = missing.answer[k].n_rows;
      leaves_[first + k].missing = std::move(missing.answer[k].gram);
    }
    s_.rows_read += list.total;
    return int(list.total);
  }

  SumQuestion question(bool on_left) const {
    SumQuestion question;
    question.nodes = on_left ? left_ : right_;
    for (int i = on_left ? 0 : n_left_; i < (on_left ? n_left_ : int(leaves_.size())); ++i)
      question.columns.push_back(&leaves_[i].columns);
    question.request.n_slots = int(question.columns.size());
    return question;
  }

  std::vector<Cuts> cuts_between(const std::vector<Bracket>& level) override {
    std::vector<CutsQuestion> questions(level.size());
    GpuQuestions all;
    for (size_t b = 0; b < level.size(); ++b) {
      questions[b].request = {list_.rank_list(), level[b].first, level[b].last};
      if (n_targets(level[b].first, level[b].last) > 0) all.cuts.push_back(&questions[b]);
    }
    reader_.ask(all);
    std::vector<Cuts> cuts;
    for (const CutsQuestion& question : questions) {
      const CutsAnswer& a = question.answer;
      cuts.push_back({{a.cuts, a.cuts + a.n}, {a.ranks, a.ranks + a.n}, {a.more, a.more + a.n}});
    }
    return cuts;
  }

  // Brackets of so few rows that the cores settle them sooner than further rounds return.
  void hand_over(std::vector<Bracket>& level) override {
    std::vector<Bracket> large, small;
    for (Bracket& bracket : level)
      (reader_.is_handed_over(bracket.last - bracket.first) ? small : large).push_back(std::move(bracket));
    level = std::move(large);
    std::vector<RowList> rows(small.size());
    std::vector<ReadQuestion> reads;
    GpuQuestions all;
    for (size_t b = 0; b < small.size(); ++b) {
      rows[b].resize(small[b].last - small[b].first);
      reads.push_back(
          {rows[b].data(), list_.rows() + small[b].first * sizeof(int32_t), rows[b].size() * sizeof(int32_t)});
    }
    for (ReadQuestion& read : reads)
      if (read.bytes) all.reads.push_back(&read);
    if (!all.reads.empty()) reader_.ask(all);
    for (size_t b = 0; b < small.size(); ++b)
      take(CoreSweep(e_, reader_.cores_, s_).finish(request_, std::move(rows[b]), std::move(small[b])));
  }

  // Sums between neighbouring cuts, from the first of `edges` on.
  std::vector<SumQuestion> questions_between(const std::vector<int>& edges, bool on_left) const {
    std::vector<SumQuestion> questions;
    for (size_t j = 0; j + 1 < edges.size(); ++j) {
      questions.push_back(question(on_left));
      questions.back().request.source = {list_.row_list(), 0, edges[j], edges[j + 1] - edges[j], 1};
    }
    return questions;
  }

  void sum_parts(const std::vector<Cuts>& cuts, const std::vector<Bracket>& level) override {
    left_parts_.assign(level.size(), {}), right_parts_.assign(level.size(), {});
    GpuQuestions questions;
    for (size_t b = 0; b < level.size(); ++b) {
      if (cuts[b].positions.empty()) continue;
      std::vector<int> edges = cuts[b].positions;
      edges.insert(edges.begin(), level[b].first);
      edges.push_back(level[b].last);
      left_parts_[b] = questions_between(edges, true);
      if (!is_same()) right_parts_[b] = questions_between(edges, false);
      for (std::vector<SumQuestion>* side : {&left_parts_[b], &right_parts_[b]})
        for (SumQuestion& question : *side) questions.sums.push_back(&question);
    }
    reader_.ask(questions);
  }
  const double* part_gram(int b, int i, int part) const override { return part_sums(b, i, part).gram.data(); }
  int64_t part_rows(int b, int i, int part) const override { return part_sums(b, i, part).n_rows; }

  const LeafSums& part_sums(int b, int i, int part) const {
    const bool on_left = leaves_[i].on_left;
    return (on_left || is_same() ? left_parts_ : right_parts_)[b][part].answer[on_left ? i : i - n_left_];
  }
  bool is_same() const { return request_.left == request_.right; }

  const GpuReader& reader_;
  const GpuReader::List list_;
  std::vector<RouteNode> left_, right_;
  std::vector<std::vector<SumQuestion>> left_parts_, right_parts_;  // by bracket
  int n_left_ = 0;
};

inline FoundCut GpuReader::best_cut(const Evaluator& evaluator, const SweepRequest& request, Scratch& s) const {
  const int n_nodes = subtree_end(*request.tree, request.right) - request.left;
  const int64_t n_rows = rows_of_interval(data_, request.box->interval(data_, request.attribute));
  const int64_t by_box = source_of(*request.box, kGathered).count;
  if (request.rows || is_handed_over(std::min(n_rows, by_box)) || n_nodes > kMostNodes)
    return cores_.best_cut(evaluator, request, s);
  return GpuSweep(evaluator, *this, s).run(request);
}

}  // namespace silva
