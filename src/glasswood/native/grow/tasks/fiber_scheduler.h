// Tasks as fibers: what they ask within a phase is collected and answered together. Every task goes on until it asks,
// has subtasks or wants a list; lists are handed out and subtasks begun between the turns, and requests are answered
// when all that are left wait for an answer. So neither the order of requests nor that of sums depends on the number of
// threads.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "grow/tasks/fibers.h"
#include "grow/tasks/task_runner.h"

namespace glasswood {

struct GpuRequests;

class FiberScheduler : public TaskRunner {
 public:
  // Answers all requests of a round; threads of the pool may help, which is null outside of a phase.
  using Answer = std::function<void(const std::vector<const GpuRequests*>&, ThreadPool*)>;

  FiberScheduler(int n_lists, Answer answer, std::function<void()> between_rounds);

  void run(ThreadPool& pool, int n_tasks, const std::function<void(int, int)>& run_task) override;
  void fork(int n, Scratch& s, const std::function<void(int, Scratch&)>& run_subtask) override;
  int n_together() const override { return kMostFibers; }
  bool is_on_thread() const override { return Fiber::current() == nullptr; }
  Rounds rounds() const override { return rounds_; }

  // Waits for the answers to arrive in the requests.
  void ask(const GpuRequests& requests);
  // Waits for a turn of its own between the rounds, which tasks take one after the other.
  void run_alone(const std::function<void()>& work);

  // One of the lists of rows that the GPUs have room for, waited for if all are taken.
  class List {
   public:
    explicit List(FiberScheduler& scheduler) : scheduler_(scheduler), index_(scheduler.take_list()) {}
    List(const List&) = delete;
    ~List() { scheduler_.give_back(index_); }
    int index() const { return index_; }

   private:
    FiberScheduler& scheduler_;
    int index_;
  };

 private:
  static constexpr int kMostFibers = 512;
  // Why a task goes on: those of a kind take about as long.
  enum Reason { kBegun, kSubtaskBegun, kSubtasksDone, kListed, kAnswered, kReasons };
  // A task of the phase or a subtask of one.
  struct Task {
    Fiber fiber;
    Reason reason = kBegun;
    Scratch scratch;  // of a subtask
    Task* parent = nullptr;
    std::vector<std::function<void(Scratch&)>> subtasks;  // waits to begin
    int n_subtasks_left = 0;
    const GpuRequests* requests = nullptr;        // waits for answers
    const std::function<void()>* work = nullptr;  // waits for a turn of its own
    bool wants_list = false;
    int list = 0;
  };
  class TaskClock;
  struct Abandoned : std::runtime_error {
    Abandoned() : std::runtime_error("the search was abandoned") {}
  };

  static Task* current() { return static_cast<Task*>(Fiber::current() ? Fiber::current()->owner() : nullptr); }
  bool has_failed() const { return failure_ || error_; }
  void wait(Task& task) const;

  int take_list();
  void give_back(int list);
  void free_all_lists();

  Task* begin(Task* parent, std::function<void(Scratch&)> body);
  std::vector<Task*> next_turn(const std::vector<Task*>& turn, std::vector<Task*>& asking);
  void end_turn(Task* task, std::vector<Task*>& next, std::vector<Task*>& asking);
  void begin_subtasks(std::vector<Task*>& next, const std::vector<Task*>& asking);
  void take_turn(ThreadPool& pool, const std::vector<Task*>& turn);
  static void resume(Task& task, TaskClock* clock);
  void answer(const std::vector<Task*>& waiting, ThreadPool& pool);

  const int n_lists_;
  const Answer answer_;
  const std::function<void()> between_rounds_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::vector<Task*> idle_;
  std::deque<Task*> wanting_;                                            // lists
  std::deque<std::pair<Task*, std::function<void(Scratch&)>>> unbegun_;  // and whose subtasks they are
  std::mutex mutex_;
  std::vector<int> free_lists_;
  std::exception_ptr failure_, error_;  // of the GPU, and of a task
  Rounds rounds_;
  double seconds_of_[kReasons] = {};  // of the last turn with such tasks
};

}  // namespace glasswood
