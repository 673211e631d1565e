// Giving Python's lock away and taking it back, also while the interpreter ends.
//
// A process may end while a daemon thread computes. Up to Python 3.13 the interpreter then ends that thread where it
// asks for the lock: by pthread_exit, which glibc carries out as an exception that nobody may keep. It meets
// destructors and functions of C++ that let none pass, and the process aborts. Here such a thread sleeps until the
// process is gone, as it does from Python 3.14 on. It holds no lock of the library's: what a call borrows is returned
// before.
#pragma once
#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>
#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

namespace glasswood {
namespace nb = nanobind;

// Calls what may end the thread with the interpreter.
template <class Call>
void outlive_interpreter(const Call& call) {
#if defined(__GLIBCXX__)
  try {
    call();
  } catch (const abi::__forced_unwind&) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
#else
  call();  // other systems' threads end without an exception
#endif
}

// An attribute, which may be a property: Python's own code.
inline nb::object attribute(nb::handle object, const char* name) {
  nb::object found;
  outlive_interpreter([&] { found = nb::getattr(object, name); });
  return found;
}

// Gives the lock away for the duration of a block.
class Released {
 public:
  Released() noexcept : state_(PyEval_SaveThread()) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() {
    outlive_interpreter([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

// Takes the lock back for the duration of a block. By Python's own function: nanobind's lets no exception pass.
class Acquired {
 public:
  Acquired() {
    outlive_interpreter([this] { state_ = PyGILState_Ensure(); });
  }
  Acquired(const Acquired&) = delete;
  Acquired& operator=(const Acquired&) = delete;
  ~Acquired() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

}  // namespace glasswood
