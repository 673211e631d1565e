// Long calls without Python's lock that end soon after Ctrl-C.
#pragma once
#include <atomic>
#include <chrono>

#include "common/bindings.h"
#include "common/threads/watch.h"

namespace glasswood {

class InterruptWatch : public Watch {
 public:
  bool ended(int32_t thread) override {
    if (interrupted()) return true;
    if (thread != 0) return false;
    const auto now = Clock::now();
    if (now < next_) return false;
    const Acquired acquired;
    outlive_interpreter([&] {
      next_ = has_signals() ? now + kPause : Clock::time_point::max();
      if (PyErr_Occurred() || PyErr_CheckSignals() != 0) interrupted_.store(true, std::memory_order_relaxed);
    });
    return interrupted();
  }
  bool interrupted() const { return interrupted_.load(std::memory_order_relaxed); }

 private:
  // Whether this is the main thread: others never see a signal, and would wait for the lock in vain. Leaves what a
  // handler raises on the way.
  static bool has_signals() {
    try {
      const nb::object main = nb::module_::import_("threading").attr("main_thread")().attr("ident");
      return nb::cast<unsigned long>(main) == PyThread_get_thread_ident();
    } catch (nb::python_error& error) {
      error.restore();
      return true;
    }
  }

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPause{50};
  std::atomic<bool> interrupted_ = false;
  Clock::time_point next_ = Clock::now() + kPause;
};

// Runs `work` without Python's lock; throws what the handler of a signal has raised. Tasks that had not begun by then
// are left out, so the results are incomplete.
template <class Work>
void run_interruptibly(const Work& work) {
  InterruptWatch watch;
  {
    const Released released;
    work();
  }
  if (watch.interrupted()) throw nb::python_error();
}

}  // namespace glasswood
