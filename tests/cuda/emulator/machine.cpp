// Threads as fibers that switch where they wait for others. Contexts, which need system calls, begin them; jumps go on.
#include "machine.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
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
  long times = 0;

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

struct Fiber {
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  ucontext_t first;
  jmp_buf next;
  bool has_begun = false, is_done = true;
  unsigned number = 0;
  Index index;
  const Barrier* awaited = nullptr;
  long times = 0;  // of the awaited barrier, before it is released

  bool is_ready() const { return !is_done && (!awaited || awaited->times != times); }
};

struct Warp {
  Barrier barrier;
  uint64_t shown[2][kWarp];  // a lane may show its next bits while others look at those before
};

std::deque<Fiber> fibers;  // stay where they are
std::vector<Warp> warps;
Barrier block;
Fiber* current;
jmp_buf scheduler;
Kernel kernel;
void** arguments;

Warp& warp() { return warps[current->number / kWarp]; }

void leave_fiber() {
  if (!_setjmp(current->next)) _longjmp(scheduler, 1);
}

// A fiber takes one thread after the other, of this grid and of later ones.
void run_threads() {
  for (;;) {
    kernel(arguments);
    current->is_done = true;
    block.leave();
    warp().barrier.leave();
    leave_fiber();
  }
}

void resume(Fiber& fiber) {
  current = &fiber;
  thread_index = fiber.index;
  if (_setjmp(scheduler)) return;
  if (fiber.has_begun) _longjmp(fiber.next, 1);
  fiber.has_begun = true;
  getcontext(&fiber.first);
  fiber.first.uc_stack.ss_sp = fiber.stack.get();
  fiber.first.uc_stack.ss_size = kStackBytes;
  makecontext(&fiber.first, run_threads, 0);
  setcontext(&fiber.first);
}

unsigned meet(Barrier& barrier, unsigned given) {
  const long times = barrier.times;
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

void begin_block(unsigned n_threads, unsigned shared_bytes) {
  for (unsigned i = 0; i < shared_bytes + kGuardBytes; ++i) shared[i] = garbage(i);
  block = {n_threads};
  warps.assign((n_threads + kWarp - 1) / kWarp, Warp{});
  while (fibers.size() < n_threads) fibers.emplace_back();
  for (unsigned i = 0; i < n_threads; ++i) {
    Fiber& fiber = fibers[i];
    fiber.number = i, fiber.is_done = false, fiber.awaited = nullptr;
    fiber.index = {i % block_size.x, i / block_size.x % block_size.y, i / (block_size.x * block_size.y)};
    ++warps[i / kWarp].barrier.n_running;
  }
}

void run_block(unsigned n_threads, unsigned shared_bytes) {
  begin_block(n_threads, shared_bytes);
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (unsigned i = 0; i < n_threads; ++i) {
      if (!fibers[i].is_ready()) continue;
      resume(fibers[i]);
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
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index = {x, y, z};
        run_block(block_of.x * block_of.y * block_of.z, shared_bytes);
      }
}

unsigned meet_block(unsigned given) { return meet(block, given); }
unsigned meet_warp(unsigned given) { return meet(warp().barrier, given); }
unsigned lane() { return current->number % kWarp; }

const uint64_t* show(uint64_t bits) {
  uint64_t* shown = warp().shown[warp().barrier.times % 2];
  shown[lane()] = bits;
  meet_warp();
  return shown;
}

}  // namespace emulator
