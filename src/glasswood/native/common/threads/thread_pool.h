// Threads that share out many short phases of tasks. A phase ends when its tasks are done, not when every thread has
// woken up: on a busy machine OpenMP's barriers made growing on two threads ten times slower than on one. Waking a
// thread takes tens of microseconds, and as long again to ask for it on a virtual machine: a phase wakes no more than
// it has work for, and where phases follow one another closely the threads stay awake between them.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <limits>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

namespace glasswood {

class ThreadPool {
 public:
  // With fewer threads where the system refuses to start more.
  explicit ThreadPool(int n_threads) : asked_(n_threads) {
    for (int thread = 1; thread < n_threads; ++thread) {
      Worker& worker = workers_.emplace_back();
      try {
        worker.thread = std::thread([this, thread, &worker] { work(thread, worker); });
      } catch (const std::system_error&) {
        workers_.pop_back();
        return;
      }
    }
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() {
    publish(kStop, n_threads());
    for (Worker& worker : workers_) worker.thread.join();
  }

  int n_threads() const { return int(workers_.size()) + 1; }
  int asked() const { return asked_; }
  // How long threads look for the next phase before they sleep.
  void set_patience(std::chrono::nanoseconds patience) { patience_.store(patience.count(), std::memory_order_relaxed); }

  // Calls task(index, thread) for every index below n_tasks; the caller is thread 0. Not reentrant. What a task throws
  // is thrown again when all have ended. Sleeping threads are woken until `n_wanted` are awake, the caller among them;
  // whoever is awake takes part.
  template <class Task>
  void run(int n_tasks, Task&& task, int n_wanted = std::numeric_limits<int>::max()) {
    call_ = [](void* context, int index, int thread) {
      (*static_cast<std::remove_reference_t<Task>*>(context))(index, thread);
    };
    context_ = const_cast<void*>(static_cast<const void*>(&task));
    n_tasks_ = n_tasks;
    n_done_.store(0, std::memory_order_relaxed);
    failed_.clear(std::memory_order_relaxed);
    if (workers_.empty() || n_tasks == 1) {
      for (int i = 0; i < n_tasks; ++i) call_(context_, i, 0);
      return;
    }
    publish(uint32_t(n_tasks), std::min(n_wanted, n_tasks));
    while (take_one(0)) {
    }
    for (int done = n_done_.load(std::memory_order_acquire); done < n_tasks;) {
      wait_for_change(n_done_, done);
      done = n_done_.load(std::memory_order_acquire);
    }
    if (failed_.test(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  // Within a phase, by thread 0: how many of its tasks nobody has begun.
  int n_left() const { return int(uint32_t(ticket_.load(std::memory_order_relaxed))); }
  // Wakes sleeping threads until `n_wanted` are awake, the caller, who is thread 0, among them.
  void wake(int n_wanted) {
    int n_awake = 1;
    for (const Worker& worker : workers_) n_awake += !worker.asleep.load(std::memory_order_seq_cst);
    for (Worker& worker : workers_) {
      if (n_awake >= n_wanted) return;
      if (worker.asleep.exchange(0, std::memory_order_seq_cst)) worker.asleep.notify_one(), ++n_awake;
    }
  }

 private:
  static constexpr uint32_t kStop = ~uint32_t(0);

  struct alignas(64) Worker {
    std::thread thread;
    std::atomic<int> asleep = 0;
  };

  // The ticket holds the number of the phase and how many of its tasks are left: who lowers it owns a task of that
  // phase, which cannot end before the task is done. Either a worker on its way to sleep sees the new ticket or it is
  // seen here to sleep: both write before they read, in one order for all.
  void publish(uint32_t left, int n_wanted) {
    phase_ += uint64_t(1) << 32;
    ticket_.store(phase_ | left, std::memory_order_seq_cst);
    wake(n_wanted);
  }

  bool take_one(int thread) {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    do {
      if (uint32_t(ticket) == 0 || uint32_t(ticket) == kStop) return false;
    } while (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel));
    try {
      call_(context_, n_tasks_ - int(uint32_t(ticket)), thread);
    } catch (...) {
      if (!failed_.test_and_set(std::memory_order_relaxed)) error_ = std::current_exception();
    }
    const int n_tasks = n_tasks_;
    if (n_done_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_tasks) n_done_.notify_one();
    return true;
  }

  void work(int thread, Worker& self) {
    for (;;) {
      while (take_one(thread)) {
      }
      const uint64_t ticket = ticket_.load(std::memory_order_acquire);
      if (uint32_t(ticket) == kStop) return;
      if (uint32_t(ticket) == 0) sleep_until_change(ticket, self);
    }
  }

  void sleep_until_change(uint64_t ticket, Worker& self) {
    if (changes(ticket_, ticket)) return;
    self.asleep.store(1, std::memory_order_seq_cst);
    if (ticket_.load(std::memory_order_seq_cst) == ticket) self.asleep.wait(1, std::memory_order_acquire);
    self.asleep.store(0, std::memory_order_seq_cst);
  }

  void wait_for_change(const std::atomic<int>& value, int old) const {
    if (!changes(value, old)) value.wait(old, std::memory_order_acquire);
  }

  // Whether the value changes while this thread is patient.
  template <class T>
  bool changes(const std::atomic<T>& value, T old) const {
    constexpr int kSpins = 500;  // about 10 microseconds
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(patience_.load(std::memory_order_relaxed));
    do {
      for (int i = 0; i < kSpins; ++i) {
        if (value.load(std::memory_order_acquire) != old) return true;
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
      }
    } while (Clock::now() < end);
    return false;
  }

  int asked_;
  std::deque<Worker> workers_;
  std::atomic<int64_t> patience_ = 0;  // ns
  std::atomic<uint64_t> ticket_ = 0;
  std::atomic<int> n_done_ = 0;
  std::atomic_flag failed_;
  std::exception_ptr error_;  // the first
  uint64_t phase_ = 0;
  void (*call_)(void*, int, int) = nullptr;
  void* context_ = nullptr;
  int n_tasks_ = 0;
};

}  // namespace glasswood
