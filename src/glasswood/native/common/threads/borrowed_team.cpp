// Pools of sleeping threads that calls borrow.
#include "common/threads/borrowed_team.h"

#ifndef _WIN32
#include <pthread.h>
#endif

#include <memory>
#include <mutex>
#include <vector>

#include "common/threads/thread_pool.h"
#include "common/threads/watch.h"

namespace glasswood {
namespace {

struct Idle {
  std::mutex mutex;
  std::vector<std::unique_ptr<ThreadPool>> pools;  // the last used at the end
};

// Never destroyed: when the process ends, or in a forked one, its threads may be gone, and nobody could join them.
Idle* idle = [] {
#ifndef _WIN32
  pthread_atfork(nullptr, nullptr, [] { idle = new Idle; });
#endif
  return new Idle;
}();

std::unique_ptr<ThreadPool> take_idle(int n_threads) {
  const std::scoped_lock lock(idle->mutex);
  for (auto pool = idle->pools.rbegin(); pool != idle->pools.rend(); ++pool) {
    if ((*pool)->asked() != n_threads) continue;
    std::unique_ptr<ThreadPool> found = std::move(*pool);
    idle->pools.erase(std::next(pool).base());
    return found;
  }
  return nullptr;
}

// Returns what gives way: sizes are powers of two up to the most that callers ask for, so few are in use.
std::vector<std::unique_ptr<ThreadPool>> keep(std::unique_ptr<ThreadPool> pool) {
  constexpr int kKept = 8;
  std::vector<std::unique_ptr<ThreadPool>> dropped;
  const std::scoped_lock lock(idle->mutex);
  idle->pools.push_back(std::move(pool));
  while (idle->pools.size() > kKept) {
    dropped.push_back(std::move(idle->pools.front()));
    idle->pools.erase(idle->pools.begin());
  }
  return dropped;
}

}  // namespace

BorrowedTeam::BorrowedTeam(int n_threads) {
  if (n_threads <= 1) return;
  // Calls that follow each other closely find the threads awake.
  constexpr std::chrono::microseconds kPatience(50);
  std::unique_ptr<ThreadPool> pool = take_idle(n_threads);
  if (!pool) {
    pool = std::make_unique<ThreadPool>(n_threads);
    pool->set_patience(kPatience);
  }
  pool_ = pool.release();
}

BorrowedTeam::~BorrowedTeam() {
  if (pool_) keep(std::unique_ptr<ThreadPool>(pool_));
}

Team BorrowedTeam::team() const {
  return {pool_,
          [](void* pool, int32_t n_tasks, void* context, void (*task)(void*, int32_t, int32_t)) {
            static_cast<ThreadPool*>(pool)->run(n_tasks, [&](int index, int thread) { task(context, index, thread); });
          },
          Watch::current(), [](void* watch, int32_t thread) { return static_cast<Watch*>(watch)->ended(thread); }};
}

}  // namespace glasswood
