// Threads as fibers that switch where they wait for others. Contexts, which need system calls, begin them; the
// compiler's own jumps, which take a few instructions, go on with them.
#include "machine.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace emulator {

constexpr unsigned kStackBytes = 64 << 10, kGuardBytes = 1 << 10;

Index thread_index, block_index, grid_size, block_size;
alignas(1024) unsigned char shared[kSharedBytes + kGuardBytes];

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s, block (%u, %u, %u)\n", what, block_index.x, block_index.y, block_index.z);
  std::abort();
}

// Threads that meet: those that still run, those that have arrived, and how often all have met.
struct Barrier {
  unsigned n_running = 0, n_arrived = 0, sum = 0, last_sum = 0;
  unsigned long times = 0;

  void release() {
    if (n_arrived < n_running || n_running == 0) return;
    last_sum = sum;
    n_arrived = sum = 0;
    ++times;
  }
  void leave() {
    --n_running;
    release();
  }
};

struct Warp {
  Barrier barrier;
  uint64_t shown[2][kWarp];  // a lane may show its next bits while others look at those before
};

struct Place {
  void* words[5];
};

struct Stack {
  ucontext_t context;
  char bytes[kStackBytes];
};

struct Fiber {
  Place next;
  Index index;
  unsigned number = 0;
  Warp* warp = nullptr;
  const Barrier* awaited = nullptr;
  unsigned long times = 0;  // of the awaited barrier, before it is released
  bool is_done = true;
  std::unique_ptr<Stack> stack;

  bool is_ready() const { return !is_done && (!awaited || awaited->times != times); }
};

std::vector<Fiber> fibers(kMostThreads);
std::vector<Warp> warps;
Barrier block;
Fiber* current;
Place scheduler;
Kernel kernel;
void** arguments;
unsigned n_threads;

void make_current(Fiber& fiber) {
  current = &fiber;
  thread_index = fiber.index;
}

// A function of its own, as the compiler asks for.
[[noreturn, gnu::noipa]] void jump(Place& to) { __builtin_longjmp(to.words, 1); }

// The same jump without a call. A processor predicts the returns that follow it, as many as calls came before the place
// to go to; the call of `jump` would be one more, and each return would be predicted wrongly.
#ifdef __x86_64__
#define JUMP(to)                                                                                     \
  asm volatile("movq (%0), %%rbp\n movq 16(%0), %%rsp\n jmp *8(%0)" : : "c"((to).words) : "memory"); \
  __builtin_unreachable()
#else
#define JUMP(to) jump(to)
#endif

// The next thread goes on at once if it can.
[[gnu::noipa]] void leave_fiber() {
  if (__builtin_setjmp(current->next.words)) return;
  const unsigned next = current->number + 1;
  if (next == n_threads || !fibers[next].stack || !fibers[next].is_ready()) jump(scheduler);
  make_current(fibers[next]);
  JUMP(current->next);
}

// A fiber takes one thread after the other, of this grid and of later ones.
void run_threads() {
  for (;;) {
    kernel(arguments);
    current->is_done = true;
    block.leave();
    current->warp->barrier.leave();
    leave_fiber();
  }
}

[[noreturn, gnu::noipa]] void begin(Fiber& fiber) {
  fiber.stack = std::make_unique_for_overwrite<Stack>();
  ucontext_t& context = fiber.stack->context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack->bytes;
  context.uc_stack.ss_size = kStackBytes;
  makecontext(&context, run_threads, 0);
  setcontext(&context);
  fail("a thread cannot begin");
}

[[gnu::noipa]] void resume(Fiber& fiber) {
  make_current(fiber);
  if (__builtin_setjmp(scheduler.words)) return;
  if (!current->stack) begin(*current);
  jump(current->next);
}

unsigned meet(Barrier& barrier, unsigned given) {
  const unsigned long times = barrier.times;
  barrier.sum += given;
  ++barrier.n_arrived;
  barrier.release();
  if (barrier.times == times) {
    current->awaited = &barrier, current->times = times;
    leave_fiber();
    current->awaited = nullptr;
  }
  return barrier.last_sum;
}

unsigned char garbage(unsigned i) { return static_cast<unsigned char>(i * 37 + block_index.x * 11 + 5); }

void begin_block(unsigned shared_bytes) {
  for (unsigned i = 0; i < shared_bytes + kGuardBytes; ++i) shared[i] = garbage(i);
  block = {n_threads};
  warps.assign((n_threads + kWarp - 1) / kWarp, Warp{});
  for (unsigned i = 0; i < n_threads; ++i) {
    Fiber& fiber = fibers[i];
    fiber.number = i, fiber.is_done = false, fiber.awaited = nullptr, fiber.warp = &warps[i / kWarp];
    fiber.index = {i % block_size.x, i / block_size.x % block_size.y, i / (block_size.x * block_size.y)};
    ++fiber.warp->barrier.n_running;
  }
}

void run_block(unsigned shared_bytes) {
  begin_block(shared_bytes);
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (unsigned i = 0; i < n_threads; ++i) {
      if (!fibers[i].is_ready()) continue;
      resume(fibers[i]);
      i = current->number;  // which others may have gone on to
      goes_on = true;
    }
  }
  if (block.n_running > 0) fail("threads wait for each other at different barriers");
  for (unsigned i = shared_bytes; i < shared_bytes + kGuardBytes; ++i)
    if (shared[i] != garbage(i)) fail("a thread wrote beyond the shared memory that the launch asked for");
}

}  // namespace

void run(Index grid, Index block_of, unsigned shared_bytes, Kernel body, void** values) {
  static std::mutex running;
  const std::lock_guard lock(running);
  grid_size = grid, block_size = block_of, kernel = body, arguments = values;
  n_threads = block_of.x * block_of.y * block_of.z;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index = {x, y, z};
        run_block(shared_bytes);
      }
}

unsigned meet_block(unsigned given) { return meet(block, given); }
unsigned meet_warp(unsigned given) { return meet(current->warp->barrier, given); }
unsigned lane() { return current->number % kWarp; }

const uint64_t* show(uint64_t bits) {
  Warp& warp = *current->warp;
  uint64_t* shown = warp.shown[warp.barrier.times % 2];
  shown[lane()] = bits;
  meet(warp.barrier, 0);
  return shown;
}

}  // namespace emulator
