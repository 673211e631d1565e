#include "grow/tasks/fiber_scheduler.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace glasswood {

using Clock = std::chrono::steady_clock;

// Longer than most rounds, so that threads are awake when the answers come.
constexpr std::chrono::microseconds kPatience{1000};

static double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// Seconds of a turn by the tasks of the thread that takes it, one look at the clock each.
class FiberScheduler::TaskClock {
 public:
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

FiberScheduler::FiberScheduler(int n_lists, Answer answer, std::function<void()> between_rounds)
    : n_lists_(n_lists), answer_(std::move(answer)), between_rounds_(std::move(between_rounds)) {
  free_all_lists();
}

void FiberScheduler::run(ThreadPool& pool, int n_tasks, const std::function<void(int, int)>& run_task) {
  failure_ = error_ = nullptr;
  pool.set_patience(kPatience);
  free_all_lists();  // a phase that failed may not have given all of them back
  std::vector<Task*> ready, asking;
  for (int i = 0; i < n_tasks; ++i) unbegun_.emplace_back(nullptr, [i, &run_task](Scratch&) { run_task(i, i); });
  begin_subtasks(ready, asking);
  while (!ready.empty()) {
    take_turn(pool, ready);
    ready = next_turn(ready, asking);
    if (!ready.empty()) continue;
    if (!asking.empty()) answer(asking, pool);
    ready = std::exchange(asking, {});
  }
  if (has_failed()) std::rethrow_exception(failure_ ? failure_ : error_);
}

void FiberScheduler::fork(int n, Scratch& s, const std::function<void(int, Scratch&)>& run_subtask) {
  Task* task = current();
  if (!task || n < 2) {
    for (int i = 0; i < n; ++i) run_subtask(i, s);
    return;
  }
  std::mutex adding;
  for (int i = 0; i < n; ++i)
    task->subtasks.push_back([i, &run_subtask, &s, &adding](Scratch& own) {
      static_cast<Tally&>(own) = {};
      run_subtask(i, own);
      const std::lock_guard lock(adding);
      s.add(own);
    });
  wait(*task);
}

void FiberScheduler::ask(const GpuRequests& requests) {
  Task* task = current();
  if (!task) return answer_({&requests}, nullptr);
  task->requests = &requests;
  wait(*task);
}

void FiberScheduler::run_alone(const std::function<void()>& work) {
  Task* task = current();
  if (!task) return work();
  task->work = &work;
  wait(*task);
}

void FiberScheduler::wait(Task& task) const {
  task.fiber.yield();
  if (has_failed()) throw Abandoned();
}

int FiberScheduler::take_list() {
  Task* task = current();
  if (!task) {
    const int list = free_lists_.back();
    free_lists_.pop_back();
    return list;
  }
  task->wants_list = true;
  wait(*task);
  return task->list;
}

void FiberScheduler::give_back(int list) {
  const std::lock_guard lock(mutex_);
  free_lists_.push_back(list);
}

void FiberScheduler::free_all_lists() {
  free_lists_.resize(n_lists_);
  std::iota(free_lists_.begin(), free_lists_.end(), 0);
}

FiberScheduler::Task* FiberScheduler::begin(Task* parent, std::function<void(Scratch&)> body) {
  if (idle_.empty()) {
    tasks_.push_back(std::make_unique<Task>());
    idle_.push_back(tasks_.back().get());
  }
  Task* task = idle_.back();
  idle_.pop_back();
  task->parent = parent;
  task->reason = parent ? kSubtaskBegun : kBegun;
  task->fiber.start(task, [task, body = std::move(body)] { body(task->scratch); });
  return task;
}

// Who goes on after a turn without an answer, in the order of the tasks.
std::vector<FiberScheduler::Task*> FiberScheduler::next_turn(const std::vector<Task*>& turn,
                                                             std::vector<Task*>& asking) {
  std::vector<Task*> next;
  for (Task* task : turn) end_turn(task, next, asking);
  // Given back in any order: whose list is which must not depend on the threads.
  std::sort(free_lists_.begin(), free_lists_.end(), std::greater<>());
  while (!wanting_.empty() && (!free_lists_.empty() || has_failed())) {
    Task* task = wanting_.front();
    wanting_.pop_front();
    task->wants_list = false;
    if (!has_failed()) task->list = free_lists_.back(), free_lists_.pop_back();
    next.push_back(task);
  }
  begin_subtasks(next, asking);
  return next;
}

void FiberScheduler::end_turn(Task* task, std::vector<Task*>& next, std::vector<Task*>& asking) {
  if (task->fiber.is_done()) {
    if (task->fiber.error() && !error_) error_ = task->fiber.error();
    idle_.push_back(task);
    if (task->parent && --task->parent->n_subtasks_left == 0) {
      task->parent->reason = kSubtasksDone;
      next.push_back(task->parent);
    }
  } else if (!task->subtasks.empty()) {
    task->n_subtasks_left = int(task->subtasks.size());
    for (auto& subtask : std::exchange(task->subtasks, {})) unbegun_.emplace_back(task, std::move(subtask));
  } else {
    task->reason = task->wants_list ? kListed : kAnswered;
    task->wants_list ? wanting_.push_back(task) : asking.push_back(task);
  }
}

// No more at a time than the system gives stacks for; one if nobody else goes on.
void FiberScheduler::begin_subtasks(std::vector<Task*>& next, const std::vector<Task*>& asking) {
  while (!unbegun_.empty() &&
         (tasks_.size() - idle_.size() < size_t(kMostFibers) || (next.empty() && asking.empty()))) {
    auto [parent, subtask] = std::move(unbegun_.front());
    unbegun_.pop_front();
    next.push_back(begin(parent, std::move(subtask)));
  }
}

// Every task goes on until it asks again or ends. Threads that are awake take part unless there is next to no work; a
// sleeping one is woken for what is expected to last, by what tasks have taken that went on for the same reason, and
// for what turns out to.
void FiberScheduler::take_turn(ThreadPool& pool, const std::vector<Task*>& turn) {
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

void FiberScheduler::resume(Task& task, TaskClock* clock) {
  const Reason reason = task.reason;
  task.fiber.resume();
  if (clock) clock->stop(reason);
}

void FiberScheduler::answer(const std::vector<Task*>& waiting, ThreadPool& pool) {
  std::vector<const GpuRequests*> requests;
  std::vector<const std::function<void()>*> works;
  for (Task* task : waiting) {
    if (task->requests) requests.push_back(std::exchange(task->requests, nullptr));
    if (task->work) works.push_back(std::exchange(task->work, nullptr));
  }
  const Clock::time_point began = Clock::now();
  try {
    if (!has_failed() && !requests.empty()) answer_(requests, &pool);
    for (const auto* work : works)
      if (!has_failed()) (*work)();
    rounds_.seconds += seconds_since(began);
    if (between_rounds_) between_rounds_();
    rounds_.count += !requests.empty() + int64_t(works.size());
  } catch (...) {
    failure_ = std::current_exception();
  }
}

}  // namespace glasswood
