// Threads that share out many short phases of tasks. A phase ends when its tasks are done, not when every thread has
// woken up: on a busy machine OpenMP's barriers made growing on two threads ten times slower than on one.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace silva {

class ThreadPool {
 public:
  // With fewer threads where the system refuses to start more.
  explicit ThreadPool(int n_threads) : asked_(n_threads) {
    try {
      for (int thread = 1; thread < n_threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
    } catch (const std::system_error&) {
    }
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() {
    publish(kStop);
    for (std::thread& worker : workers_) worker.join();
  }

  int n_threads() const { return int(workers_.size()) + 1; }
  int asked() const { return asked_; }

  // Calls task(index, thread) for every index below n_tasks; the caller is thread 0. Not reentrant. What a task throws
  // is thrown again when all have ended.
  template <class Task>
  void run(int n_tasks, Task&& task) {
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
    publish(uint32_t(n_tasks));
    while (take_one(0)) {
    }
    for (int done = n_done_.load(std::memory_order_acquire); done < n_tasks;) {
      wait_for_change(n_done_, done);
      done = n_done_.load(std::memory_order_acquire);
    }
    if (failed_.test(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  static constexpr uint32_t kStop = ~uint32_t(0);
  static constexpr int kSpins = 500;  // about 10 microseconds

  // The ticket holds the number of the phase and how many of its tasks are left: who lowers it owns a task of that
  // phase, which cannot end before the task is done.
  void publish(uint32_t left) {
    phase_ += uint64_t(1) << 32;
    ticket_.store(phase_ | left, std::memory_order_release);
    ticket_.notify_all();
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

  void work(int thread) {
    for (;;) {
      while (take_one(thread)) {
      }
      const uint64_t ticket = ticket_.load(std::memory_order_acquire);
      if (uint32_t(ticket) == kStop) return;
      if (uint32_t(ticket) == 0) wait_for_change(ticket_, ticket);
    }
  }

  template <class T>
  static void wait_for_change(const std::atomic<T>& value, T old) {
    for (int i = 0; i < kSpins; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
#ifdef __x86_64__
      __builtin_ia32_pause();
#endif
    }
    value.wait(old, std::memory_order_acquire);
  }

  int asked_;
  std::vector<std::thread> workers_;
  std::atomic<uint64_t> ticket_ = 0;
  std::atomic<int> n_done_ = 0;
  std::atomic_flag failed_;
  std::exception_ptr error_;  // the first
  uint64_t phase_ = 0;
  void (*call_)(void*, int, int) = nullptr;
  void* context_ = nullptr;
  int n_tasks_ = 0;
};

}  // namespace silva
