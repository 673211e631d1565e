// Tasks that wait for one another's requests to be collected: each runs on a stack of its own and hands the thread on
// while it waits. A search waits tens of thousands of times a second, which threads would spend in the scheduler.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <new>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GLASSWOOD_SANITIZES_STACKS
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GLASSWOOD_SANITIZES_STACKS
#endif
#if !defined(__x86_64__) || defined(GLASSWOOD_SANITIZES_STACKS)
#include <ucontext.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace glasswood {

#if defined(__x86_64__) && !defined(GLASSWOOD_SANITIZES_STACKS)
// Where a computation goes on, on a stack of its own. Only what a call preserves is kept (System V ABI): ucontext also
// keeps the signal mask, by two system calls a switch.
class StackContext {
 public:
  // Will begin with `enter`, which must not return.
  void prepare(void* stack, size_t n_bytes, void (*enter)()) {
    constexpr int kRegisters = 6;
    void** top = reinterpret_cast<void**>(static_cast<char*>(stack) + n_bytes);
    *--top = nullptr;  // where unwinding ends
    *--top = reinterpret_cast<void*>(enter);
    for (int i = 0; i < kRegisters; ++i) *--top = nullptr;
    --top;
    asm volatile("stmxcsr %0\n\tfnstcw %1"
                 : "=m"(reinterpret_cast<int*>(top)[0]), "=m"(reinterpret_cast<int*>(top)[1]));
    at_ = top;
  }
  // Goes on with `to`; returns when somebody goes on with `from`.
  static void change(StackContext& from, const StackContext& to) { change(&from.at_, to.at_); }

 private:
  [[gnu::naked, gnu::noinline]] static void change(void**, void*) {
    asm("pushq %rbp\n\t"
        "pushq %rbx\n\t"
        "pushq %r12\n\t"
        "pushq %r13\n\t"
        "pushq %r14\n\t"
        "pushq %r15\n\t"
        "subq $8, %rsp\n\t"
        "stmxcsr (%rsp)\n\t"
        "fnstcw 4(%rsp)\n\t"
        "movq %rsp, (%rdi)\n\t"
        "movq %rsi, %rsp\n\t"
        "ldmxcsr (%rsp)\n\t"
        "fldcw 4(%rsp)\n\t"
        "addq $8, %rsp\n\t"
        "popq %r15\n\t"
        "popq %r14\n\t"
        "popq %r13\n\t"
        "popq %r12\n\t"
        "popq %rbx\n\t"
        "popq %rbp\n\t"
        "ret");
  }

  void* at_ = nullptr;
};
#else
class StackContext {
 public:
#ifdef __SANITIZE_THREAD__
  StackContext() = default;
  StackContext(const StackContext&) = delete;
  ~StackContext() {
    if (is_own_) __tsan_destroy_fiber(fiber_);
  }
#endif
  void prepare(void* stack, size_t n_bytes, void (*enter)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = n_bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, enter, 0);
#ifdef __SANITIZE_THREAD__
    fiber_ = __tsan_create_fiber(0);
    is_own_ = true;
#endif
  }
  static void change(StackContext& from, const StackContext& to) {
#ifdef __SANITIZE_THREAD__
    if (!from.is_own_) from.fiber_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.fiber_, 0);
#endif
    swapcontext(&from.context_, &to.context_);
  }

 private:
  ucontext_t context_{};
#ifdef __SANITIZE_THREAD__
  void* fiber_ = nullptr;  // the sanitizer's: without it, all stacks of a thread seem to be one
  bool is_own_ = false;
#endif
};
#endif
#undef GLASSWOOD_SANITIZES_STACKS

class Fiber {
 public:
  Fiber() {
    // The lowest page stays inaccessible: an overflow ends in a signal, not in other data.
    stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(stack_, size_t(sysconf(_SC_PAGESIZE)), PROT_NONE);
    own_.prepare(stack_, kStackBytes, &Fiber::enter);
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
    StackContext::change(caller_, own_);
    current() = outer;
  }
  void yield() { StackContext::change(own_, caller_); }

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
  StackContext own_, caller_;
  bool done_ = true;
  void* owner_ = nullptr;
};

}  // namespace glasswood
