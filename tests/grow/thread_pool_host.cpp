// Phases of which some tasks throw: every task of a phase is done before the error arrives, and the next phase runs.
// Threads that are patient, that sleep, and of which only some are woken.
#include <cstdio>
#include <stdexcept>

#include "common/threads/thread_pool.h"

int main() {
  for (const int n_threads : {1, 2, 5}) {
    glasswood::ThreadPool pool(n_threads);
    for (int phase = 0; phase < 400; ++phase) {
      if (phase % 50 == 0) pool.set_patience(std::chrono::microseconds(phase % 100));
      if (phase % 40 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const int thrower = phase % 3 ? phase % 32 : -1;
      std::atomic<int> n_done = 0;
      bool caught = false;
      try {
        const auto task = [&](int i, int thread) {
          if (thread == 0 && i % 8 == 3) pool.wake(1 + pool.n_left());
          if (i == thrower || (thrower >= 0 && i == 31)) throw std::runtime_error("from a task");
          ++n_done;
        };
        phase % 2 ? pool.run(32, task) : pool.run(32, task, 1 + phase % 4);
      } catch (const std::runtime_error&) {
        caught = true;
      }
      const bool ended = n_threads == 1 || n_done >= 30;
      if (caught != (thrower >= 0) || !ended || (!caught && n_done != 32)) {
        std::printf("phase %d of %d threads: caught %d, %d tasks done\n", phase, n_threads, caught, n_done.load());
        return 1;
      }
    }
  }
  return 0;
}
