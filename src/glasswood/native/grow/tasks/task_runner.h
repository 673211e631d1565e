// Who runs the tasks of a phase, and the subtasks that a task has; what a task works in. The search does not know where
// it waits: threads run a task from end to end and its subtasks in turn; fibers (grow/tasks/fiber_scheduler.h) hand
// their thread on while a GPU answers, so that many wait for one round of launches.
#pragma once
#include <functional>
#include <vector>

#include "common/threads/thread_pool.h"
#include "grow/data/box.h"
#include "grow/data/buffers.h"
#include "reference/grow/evaluation.h"

namespace glasswood {

struct LeafStats;

// Rows and sums of one leaf; no sums where a request allowed to leave them out.
struct LeafSums {
  int64_t n_rows = 0;
  std::vector<double> gram;  // packed
};

struct Tally {
  int64_t rows_read = 0, n_evaluations = 0;
  ProcedureSeconds procedures{};  // of the paper's evaluation

  void add(const Tally& other) {
    rows_read += other.rows_read, n_evaluations += other.n_evaluations;
    for (int p = 0; p < kProcedures; ++p) procedures[p] += other.procedures[p];
  }
};

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

struct Rounds {
  int64_t count = 0;
  double seconds = 0;
};

class TaskRunner {
 public:
  virtual ~TaskRunner() = default;
  // Runs the tasks 0 .. n_tasks - 1 of a phase; each is told which scratch buffers are its own.
  virtual void run(ThreadPool& pool, int n_tasks, const std::function<void(int task, int scratch)>& run_task) = 0;
  // Within a task: subtasks that know nothing of each other, with buffers of their own.
  virtual void fork(int n, Scratch& s, const std::function<void(int i, Scratch&)>& run_subtask) = 0;
  // Subtasks that wait hardly longer beside each other than one alone; 1 where they run in turn.
  virtual int n_together() const = 0;
  // Whether the caller runs on the stack of its thread, as Python code must.
  virtual bool is_on_thread() const { return true; }
  // Rounds of launches, and the seconds from their requests to the answers.
  virtual Rounds rounds() const { return {}; }

  // How many of n items of this `work` each, in multiplications, make a subtask.
  int items_of_subtask(int n, double work) const { return n_together() > 1 ? int(1 + kSubtaskWork / work) : n; }
  // Within a task: run(i, scratch) for every i below n, in subtasks of about equal `work`.
  template <class Work, class Run>
  void fork_by_work(int n, Scratch& s, Work work, Run run) {
    std::vector<int> firsts = {0};
    double sum = 0;
    for (int i = 0; n_together() > 1 && i < n; ++i) {
      if (sum >= kSubtaskWork) firsts.push_back(i), sum = 0;
      sum += work(i);
    }
    firsts.push_back(n);
    fork(int(firsts.size()) - 1, s, [&](int subtask, Scratch& own) {
      for (int i = firsts[subtask]; i < firsts[subtask + 1]; ++i) run(i, own);
    });
  }

  // For what is too large to be a task's own.
  Buffers& buffers() { return buffers_; }

 private:
  static constexpr double kSubtaskWork = 300'000;  // some 20 microseconds

  Buffers buffers_;
};

class ThreadRunner : public TaskRunner {
 public:
  void run(ThreadPool& pool, int n_tasks, const std::function<void(int, int)>& run_task) override {
    pool.run(n_tasks, run_task);
  }
  void fork(int n, Scratch& s, const std::function<void(int, Scratch&)>& run_subtask) override {
    for (int i = 0; i < n; ++i) run_subtask(i, s);
  }
  int n_together() const override { return 1; }
};

}  // namespace glasswood
