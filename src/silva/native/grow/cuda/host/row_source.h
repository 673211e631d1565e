// GPUs read the rows: what the tasks of a phase ask is collected and answered together (grow/cuda/host/queue.h). Tasks
// are fibers that hand their thread on while they wait, so that the search itself knows nothing of it. Requests that
// cores answer sooner than a launch returns stay on the cores.
#pragma once
#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>

#include "grow/cuda/host/fibers.h"
#include "grow/cuda/host/queue.h"
#include "grow/paper/gpu.h"

namespace silva {

static_assert(kMaxDepth + 1 <= kMostIntervals, "the kernel that sums has no room for the intervals of a box");

struct GpuSettings {
  int64_t core_work;  // requests of less than this many multiplications are answered by the cores
  int n_lists;        // that the GPUs have room for
  int n_cells;        // of ranks, at most, that a list's rows are counted in
  int sectors;        // numbers in a row that cost as much as one that is gathered
  double solve_work;  // errors at a grid of cuts that take fewer multiplications are the cores'
};

class GpuReader : public RowReader {
 public:
  GpuReader(const GrowData& data, const GrowKernels& kernels, const GpuSettings& settings,
            const std::vector<StreamHandles>& streams, std::vector<GpuPart> parts, const QrHandles* qr,
            const CudaDriver& driver, std::function<void()> between_rounds)
      : data_(data),
        cores_(data, kernels),
        settings_(settings),
        queue_(streams, driver, data, std::move(parts)),
        between_rounds_(std::move(between_rounds)) {
    if (qr) paper_ = make_gpu_evaluation(data, *qr, driver);
    free_all_lists();
  }

  int64_t n_rounds() const { return n_rounds_; }
  double seconds() const { return seconds_; }  // from a round's questions to their answers

  // The order of questions, and with it that of all sums, does not depend on the number of threads: every task goes on
  // until it asks, has parts or wants a list; lists are handed out and parts begun between the turns, and questions are
  // answered when all that are left wait for an answer.
  void run(ThreadPool& pool, int n_tasks, const std::function<void(int, int)>& run_task) override {
    failure_ = error_ = nullptr;
    queue_.share_with(&pool);
    pool.set_patience(kPatience);
    free_all_lists();  // a phase that failed may not have given all of them back
    std::vector<Task*> ready, asking;
    for (int i = 0; i < n_tasks; ++i) unbegun_.emplace_back(nullptr, [i, &run_task](Scratch&) { run_task(i, i); });
    begin_parts(ready, asking);
    while (!ready.empty()) {
      take_turn(pool, ready);
      ready = next_turn(ready, asking);
      if (!ready.empty()) continue;
      if (!asking.empty()) answer(asking);
      ready = std::exchange(asking, {});
    }
    if (failure_ || error_) std::rethrow_exception(failure_ ? failure_ : error_);
  }

  void fork(int n_parts, Scratch& s, const std::function<void(int, Scratch&)>& run_part) const override {
    Task* task = current();
    if (!task || n_parts < 2) return RowReader::fork(n_parts, s, run_part);
    std::mutex adding;
    for (int i = 0; i < n_parts; ++i)
      task->parts.push_back([i, &run_part, &s, &adding](Scratch& own) {
        static_cast<Tally&>(own) = {};
        run_part(i, own);
        const std::lock_guard lock(adding);
        s.add(own);
      });
    task->fiber.yield();
    if (failure_ || error_) throw Abandoned();
  }

  bool is_batched() const override { return true; }

  int sum_leaves(const LeafRequest& request, Scratch& s) const override {
    const GrowTree& tree = *request.tree;
    SumQuestion question;
    question.source = source_of(*request.box, kGathered);
    question.n_slots = add_nodes(tree, request.top, request.wanted, question.nodes);
    const bool is_small = question.source.count * multiplications() < settings_.core_work;
    if (is_small || question.n_slots > kMostSlots || question.nodes.size() > size_t(kMostNodes))
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
    const RowsByPart source = source_of(box, kVisited);
    if (source.count * kListing < settings_.core_work) return cores_.sample(box, most, rows);
    if (source.ordered_by >= 0 && !parts().are_copies()) return sample_by_rank(source, box, most, rows);
    if (parts().are_copies() && most <= kMostSampled) return sample_at_once(source, box, int32_t(most), rows);
    const List list(*this);
    ListQuestion all = list_question(list, source, box, -1, -1);
    ask({{}, {&all}, {}, {}});
    const int64_t stride = std::accumulate(all.totals.begin(), all.totals.end(), int64_t(0)) / most + 1;
    if (stride > 1) all = every(stride, list, all);
    rows.resize(std::accumulate(all.totals.begin(), all.totals.end(), int64_t(0)));
    std::vector<RowRange> ranges;
    for (int p = 0; p < parts().size(); ++p) ranges.push_back({p, 0, all.totals[p]});
    read_rows(ranges, list.index(), stride > 1, rows.data());
    return stride;
  }

  FoundCut best_cut(const Evaluator& evaluator, const SweepRequest& request, Scratch& s) const override;

  // One tree after the other, in the order of the tasks.
  void evaluate_by_qr(const std::function<void(PaperEvaluation&)>& evaluate, Scratch& s) const override {
    if (!paper_) return cores_.evaluate_by_qr(evaluate, s);
    const std::function<void()> work = [&] {
      paper_->add_seconds_to(s.procedures);
      evaluate(*paper_);
    };
    Task* task = current();
    if (!task) return work();
    task->work = &work;
    wait(*task);
  }

 private:
  friend class GpuSweep;
  friend class GridSweep;
  // Why a task goes on: those of a kind take about as long.
  enum Reason { kBegun, kPartBegun, kPartsDone, kListed, kAnswered, kReasons };
  // A task of the phase or a part of one.
  struct Task {
    Fiber fiber;
    Reason reason = kBegun;
    Scratch scratch;  // of a part
    Task* parent = nullptr;
    std::vector<std::function<void(Scratch&)>> parts;  // waits to begin
    int n_parts_left = 0;
    const GpuQuestions* questions = nullptr;      // waits for answers
    const std::function<void()>* work = nullptr;  // waits for the GPU to itself
    bool wants_list = false;
    int list = 0;
  };
  enum SourceUse { kGathered, kVisited };
  // Longer than most rounds, so that threads are awake when the answers come.
  static constexpr std::chrono::microseconds kPatience{1000};
  static constexpr int64_t kSweepRounds = 4;  // of launches that a threshold takes at least
  static constexpr int64_t kMostSampled = 1 << 16;
  static constexpr int64_t kListing = 4;  // multiplications that a row costs which is only looked at

  // Room for a list of rows and their ranks, waited for if all is taken.
  class List {
   public:
    explicit List(const GpuReader& reader) : reader_(reader), index_(reader.take_list()) {}
    List(const List&) = delete;
    ~List() { reader_.give_back(index_); }
    int index() const { return index_; }

   private:
    const GpuReader& reader_;
    int index_;
  };

  // Positions of a part's list.
  struct RowRange {
    int part;
    int64_t first, last;
  };

  struct Abandoned : std::runtime_error {
    Abandoned() : std::runtime_error("the search was abandoned") {}
  };

  static Task* current() { return static_cast<Task*>(Fiber::current() ? Fiber::current()->owner() : nullptr); }

  int take_list() const {
    Task* task = current();
    if (!task) {
      const int list = free_lists_.back();
      free_lists_.pop_back();
      return list;
    }
    task->wants_list = true;
    task->fiber.yield();
    if (failure_ || error_) throw Abandoned();
    return task->list;
  }
  void give_back(int list) const {
    const std::lock_guard lock(mutex_);
    free_lists_.push_back(list);
  }
  void free_all_lists() {
    free_lists_.resize(settings_.n_lists);
    std::iota(free_lists_.begin(), free_lists_.end(), 0);
  }

  // Waits for the answers to arrive in the questions.
  void ask(const GpuQuestions& questions) const {
    Task* task = current();
    if (!task) return queue_.answer(questions);
    task->questions = &questions;
    wait(*task);
  }
  void wait(Task& task) const {
    task.fiber.yield();
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
    task->reason = parent ? kPartBegun : kBegun;
    task->fiber.start(task, [task, body = std::move(body)] { body(task->scratch); });
    return task;
  }

  // Who goes on after a turn without an answer, in the order of the tasks.
  std::vector<Task*> next_turn(const std::vector<Task*>& turn, std::vector<Task*>& asking) {
    std::vector<Task*> next;
    for (Task* task : turn) {
      if (task->fiber.is_done()) {
        if (task->fiber.error() && !error_) error_ = task->fiber.error();
        idle_.push_back(task);
        if (task->parent && --task->parent->n_parts_left == 0) {
          task->parent->reason = kPartsDone;
          next.push_back(task->parent);
        }
      } else if (!task->parts.empty()) {
        task->n_parts_left = int(task->parts.size());
        for (auto& part : std::exchange(task->parts, {})) unbegun_.emplace_back(task, std::move(part));
      } else {
        task->reason = task->wants_list ? kListed : kAnswered;
        task->wants_list ? wanting_.push_back(task) : asking.push_back(task);
      }
    }
    // Given back in any order: whose list is which must not depend on the threads.
    std::sort(free_lists_.begin(), free_lists_.end(), std::greater<>());
    while (!wanting_.empty() && (!free_lists_.empty() || failure_ || error_)) {
      Task* task = wanting_.front();
      wanting_.pop_front();
      task->wants_list = false;
      if (!failure_ && !error_) task->list = free_lists_.back(), free_lists_.pop_back();
      next.push_back(task);
    }
    begin_parts(next, asking);
    return next;
  }

  // No more at a time than the system gives stacks for; one if nobody else goes on.
  void begin_parts(std::vector<Task*>& next, const std::vector<Task*>& asking) {
    constexpr size_t kMostFibers = 512;
    while (!unbegun_.empty() && (tasks_.size() - idle_.size() < kMostFibers || (next.empty() && asking.empty()))) {
      auto [parent, part] = std::move(unbegun_.front());
      unbegun_.pop_front();
      next.push_back(begin(parent, std::move(part)));
    }
  }

  // Every task goes on until it asks again or ends. Threads that are awake take part unless there is next to no work; a
  // sleeping one is woken for what is expected to last, by what tasks have taken that went on for the same reason, and
  // for what turns out to.
  void take_turn(ThreadPool& pool, const std::vector<Task*>& turn) {
    constexpr double kShared = 10e-6, kWorthwhile = 30e-6;  // of work for others at all, and for one who sleeps
    const int n = int(turn.size());
    double expected = 0;
    for (const Task* task : turn) expected += seconds_of_[task->reason];
    TaskClock clock(seconds_of_);
    int next = 0;
    while (next < n && (expected < kShared || n - next < 2 || pool.n_threads() < 2)) {
      resume(*turn[next++], &clock);
      expected = std::max(expected, clock.mean() * (n - next));
    }
    if (next == n) return;
    double looked = 0;
    const auto go_on = [&](int i, int thread) {
      resume(*turn[next + i], thread == 0 ? &clock : nullptr);
      if (thread > 0 || clock.seconds() < looked + kWorthwhile) return;
      looked = 2 * clock.seconds();
      pool.wake(1 + int(clock.mean() * pool.n_left() / kWorthwhile));
    };
    pool.run(n - next, go_on, 1 + int(std::min(expected / kWorthwhile, 1e6)));
  }

  // Seconds of a turn by the tasks of the thread that takes it, one look at the clock each.
  class TaskClock {
   public:
    using Clock = std::chrono::steady_clock;
    explicit TaskClock(double* of_reason) : of_reason_(of_reason), began_(Clock::now()), last_(began_) {}
    void stop(Reason reason) {
      const Clock::time_point now = Clock::now();
      const double took = std::chrono::duration<double>(now - last_).count();
      last_ = now;
      ++n_tasks_;
      sums_[reason] += took;
      of_reason_[reason] = sums_[reason] / ++counts_[reason];
    }
    double seconds() const { return std::chrono::duration<double>(last_ - began_).count(); }
    double mean() const { return seconds() / n_tasks_; }

   private:
    double* of_reason_;
    Clock::time_point began_, last_;
    double sums_[kReasons] = {};
    int counts_[kReasons] = {}, n_tasks_ = 0;
  };

  static void resume(Task& task, TaskClock* clock) {
    const Reason reason = task.reason;
    task.fiber.resume();
    if (clock) clock->stop(reason);
  }

  void answer(const std::vector<Task*>& waiting) {
    GpuQuestions all;
    std::vector<const std::function<void()>*> works;
    for (Task* task : waiting) {
      if (task->questions) all.add(*std::exchange(task->questions, nullptr));
      if (task->work) works.push_back(std::exchange(task->work, nullptr));
    }
    const auto began = std::chrono::steady_clock::now();
    try {
      if (!failure_ && !error_) queue_.answer(all);
      for (const auto* work : works)
        if (!failure_ && !error_) (*work)();
      seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      if (between_rounds_) between_rounds_();
      n_rounds_ += !all.empty() + int64_t(works.size());
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  bool is_handed_over(int64_t n_rows) const {
    return 2 * n_rows * multiplications() < kSweepRounds * settings_.core_work;
  }

  int64_t multiplications() const { return int64_t(packed_size(data_.width)) + 20; }

  const GpuParts& parts() const { return queue_.parts(); }

  // All rows, or those of the box's narrowest interval where they are few.
  RowsByPart source_of(const Box& box, SourceUse use) const {
    const int by = narrowest(data_, box);
    const bool few = use == kVisited ? is_visited(data_, box, by)
                                     : by >= 0 && rows_of_interval(data_, box[by]) * settings_.sectors < data_.n_rows;
    return few ? source_of(box[by], box[by].missing) : parts().all_rows();
  }

  RowsByPart source_of(const Interval& interval, bool with_missing) const {
    return parts().in_order(interval.attribute, interval.low, interval.high, with_missing);
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

  ListQuestion list_question(const List& list, RowsByPart source, const Box& box, int skipped_attribute,
                             int attribute) const {
    ListQuestion question;
    question.source = std::move(source);
    if (parts().are_copies()) parts().give(question.source, parts().home(list.index()));
    question.intervals = intervals_of(box, skipped_attribute);
    question.list = list.index(), question.attribute = attribute;
    return question;
  }

  // Where a part holds all rows.
  int64_t sample_at_once(const RowsByPart& source, const Box& box, int32_t most, RowList& rows) const {
    ListQuestion question;
    question.source = source, question.intervals = intervals_of(box, -1), question.most = most;
    ask({{}, {&question}, {}, {}});
    rows = std::move(question.sample);
    return std::accumulate(question.totals.begin(), question.totals.end(), int64_t(0)) / most + 1;
  }

  // A sample of rows that several parts hold in the order of an attribute.
  int64_t sample_by_rank(const RowsByPart& source, const Box& box, int64_t most, RowList& rows) const;

  // Every stride-th row of a list over all parts, written over the list's ranks.
  ListQuestion every(int64_t stride, const List& list, const ListQuestion& all) const {
    ListQuestion some;
    some.list = list.index(), some.over_ranks = true;
    int64_t before = 0;
    for (int p = 0; p < parts().size(); ++p) {
      const int64_t skipped = (stride - before % stride) % stride;
      const int64_t count = std::max<int64_t>(0, (all.totals[p] - skipped + stride - 1) / stride);
      some.source.parts.push_back({parts()[p].list_rows(list.index()), 0, skipped, count, stride});
      some.source.count += count, before += all.totals[p];
    }
    ask({{}, {&some}, {}, {}});
    return some;
  }

  // Rows as the search numbers them.
  void read_rows(const std::vector<RowRange>& ranges, int list, bool over_ranks, int32_t* rows) const {
    std::vector<ReadQuestion> reads;
    int32_t* to = rows;
    for (const auto& [p, first, last] : ranges) {
      const int32_t* from = (over_ranks ? parts()[p].list_ranks(list) : parts()[p].list_rows(list)) + first;
      if (last > first) reads.push_back({p, to, from, size_t(last - first) * sizeof(int32_t)});
      to += last - first;
    }
    GpuQuestions all;
    for (ReadQuestion& read : reads) all.reads.push_back(&read);
    if (!reads.empty()) ask(all);
    for (const auto& [p, first, last] : ranges)
      for (int64_t i = first; i < last; ++i) *rows++ += int32_t(parts()[p].first);
  }

  const GrowData& data_;
  CoreReader cores_;
  const GpuSettings settings_;
  mutable GpuQueue queue_;
  std::unique_ptr<PaperEvaluation> paper_;
  std::function<void()> between_rounds_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::vector<Task*> idle_;
  std::deque<Task*> wanting_;                                            // lists
  std::deque<std::pair<Task*, std::function<void(Scratch&)>>> unbegun_;  // and whose parts they are
  mutable std::mutex mutex_;
  mutable std::vector<int> free_lists_;
  std::exception_ptr failure_, error_;  // of the GPU, and of a task
  int64_t n_rounds_ = 0;
  double seconds_ = 0;
  double seconds_of_[kReasons] = {};  // of the last turn with such tasks
};

}  // namespace silva
