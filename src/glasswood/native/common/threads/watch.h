// Whether a call is to end before its tasks are done. The teams of a thread take the watch that the thread has set up;
// common/interrupts.h has one for Python's signals.
#pragma once
#include <cstdint>

namespace glasswood {

class Watch {
 public:
  Watch() : before_(current()) { current() = this; }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() { current() = before_; }

  static Watch*& current() {
    static thread_local Watch* watch = nullptr;
    return watch;
  }

  // Asked before each task but the first; thread 0 is the one that set the watch up.
  virtual bool ended(int32_t thread) = 0;

 private:
  Watch* before_;  // handlers of signals may call the library again
};

}  // namespace glasswood
