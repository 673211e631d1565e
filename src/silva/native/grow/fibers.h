// Tasks that wait for one another's questions to be collected: each runs on a stack of its own and hands the thread on
// while it waits. A search waits tens of thousands of times a second, which threads would spend in the scheduler.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <new>
#include <utility>

namespace silva {

class Fiber {
 public:
  Fiber() {
    // The lowest page stays inaccessible: an overflow ends in a signal, not in other data.
    stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(stack_, size_t(sysconf(_SC_PAGESIZE)), PROT_NONE);
    getcontext(&own_);
    own_.uc_stack.ss_sp = stack_;
    own_.uc_stack.ss_size = kStackBytes;
    own_.uc_link = nullptr;
    makecontext(&own_, &Fiber::enter, 0);
  }
  Fiber(const Fiber&) = delete;
  ~Fiber() { munmap(stack_, kStackBytes); }

  // The fiber that runs on this thread, null outside of all. A fiber may go on on another thread: the compiler must not
  // keep the variable's address.
  [[gnu::noinline]] static Fiber*& current() {
    static thread_local Fiber* fiber = nullptr;
    asm volatile("");
    return fiber;
  }
  bool is_done() const { return done_; }
  std::exception_ptr error() const { return error_; }

  void* owner() const { return owner_; }

  // What resume() will run. The last body must have ended.
  void start(void* owner, std::function<void()> body) {
    owner_ = owner;
    body_ = std::move(body);
    done_ = false;
    error_ = nullptr;
  }
  // Runs until the fiber yields or ends, on any thread.
  void resume() {
    Fiber* outer = std::exchange(current(), this);
    swapcontext(&caller_, &own_);
    current() = outer;
  }
  void yield() { swapcontext(&own_, &caller_); }

 private:
  static constexpr size_t kStackBytes = size_t(1) << 20;

  static void enter() { current()->serve(); }
  void serve() {
    for (;;) {
      try {
        body_();
      } catch (...) {
        error_ = std::current_exception();
      }
      done_ = true;
      yield();
    }
  }

  std::function<void()> body_;
  std::exception_ptr error_;
  void* stack_;
  ucontext_t own_{}, caller_{};
  bool done_ = true;
  void* owner_ = nullptr;
};

}  // namespace silva
