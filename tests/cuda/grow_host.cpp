// A GPU of plain loops for test_grow.py: the kernels of silva/native as they stand, their threads fibers of one thread
// that switch at barriers and warp operations, behind the functions of the driver that the search calls.
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace emulation {

struct Index {
  unsigned x = 0;
};
Index thread_index, block_index;

// Threads that meet: those that have arrived, those that still run, and how often all have met.
struct Meeting {
  unsigned arrived = 0, alive = 0;
  long times = 0;

  void release() {
    if (arrived < alive || alive == 0) return;
    arrived = 0;
    ++times;
  }
};

class Block {
 public:
  explicit Block(unsigned n_threads)
      : n_threads_(n_threads), contexts_(n_threads), jumps_(n_threads), lanes_(n_threads) {
    for (unsigned t = 0; t < n_threads; ++t) stacks_.push_back(std::make_unique_for_overwrite<char[]>(kStackBytes));
  }

  void run(const std::function<void()>& kernel) {
    kernel_ = &kernel;
    current = this;
    started_.assign(n_threads_, false);
    done_.assign(n_threads_, false);
    meetings_.assign(1 + n_threads_ / 32, {});
    meetings_[0].alive = n_threads_;
    for (unsigned warp = 0; warp < n_threads_ / 32; ++warp) meetings_[1 + warp].alive = 32;
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (unsigned t = 0; t < n_threads_; ++t) {
        if (done_[t]) continue;
        goes_on = true;
        thread_index.x = t;
        resume(t);
      }
    }
  }

  void meet_all() { meet(meetings_[0]); }
  void meet_warp() { meet(meetings_[1 + thread_index.x / 32]); }
  uint64_t& lane(unsigned thread) { return lanes_[thread]; }

  static Block* current;

 private:
  static constexpr size_t kStackBytes = 64 << 10;

  // Contexts start the threads; jumps, which need no system call, go on with them.
  void resume(unsigned t) {
    if (_setjmp(scheduler_)) return;
    if (started_[t]) _longjmp(jumps_[t], 1);
    started_[t] = true;
    getcontext(&contexts_[t]);
    contexts_[t].uc_stack.ss_sp = stacks_[t].get();
    contexts_[t].uc_stack.ss_size = kStackBytes;
    makecontext(&contexts_[t], &Block::enter, 0);
    setcontext(&contexts_[t]);
  }

  static void enter() {
    const unsigned self = thread_index.x;
    (*current->kernel_)();
    current->done_[self] = true;
    for (Meeting* meeting : {&current->meetings_[0], &current->meetings_[1 + self / 32]}) {
      --meeting->alive;
      meeting->release();
    }
    _longjmp(current->scheduler_, 1);
  }

  void meet(Meeting& meeting) {
    const unsigned self = thread_index.x;
    const long times = meeting.times;
    ++meeting.arrived;
    meeting.release();
    while (meeting.times == times) {
      if (!_setjmp(jumps_[self])) _longjmp(scheduler_, 1);
      thread_index.x = self;
    }
  }

  struct Jump {
    jmp_buf buffer;
    operator __jmp_buf_tag*() { return buffer; }
  };

  unsigned n_threads_;
  const std::function<void()>* kernel_ = nullptr;
  std::vector<std::unique_ptr<char[]>> stacks_;
  std::vector<ucontext_t> contexts_;
  std::vector<Jump> jumps_;
  jmp_buf scheduler_;
  std::vector<bool> started_, done_;
  std::vector<Meeting> meetings_;
  std::vector<uint64_t> lanes_;
};
Block* Block::current = nullptr;

inline void meet_warp() { Block::current->meet_warp(); }

// Shows a value to the warp; `look` reads those of all lanes before the next operation may change them.
template <class T, class Look>
auto exchange(T value, Look look) {
  const unsigned first = thread_index.x / 32 * 32;
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  Block::current->lane(thread_index.x) = bits;
  meet_warp();
  const auto result = look([first](unsigned lane) {
    T shown;
    std::memcpy(&shown, &Block::current->lane(first + lane), sizeof shown);
    return shown;
  });
  meet_warp();
  return result;
}

}  // namespace emulation

#define threadIdx emulation::thread_index
#define blockIdx emulation::block_index
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __restrict__ __restrict

inline void __syncthreads() { emulation::Block::current->meet_all(); }
inline void __syncwarp() { emulation::meet_warp(); }
template <class T>
T __shfl_sync(unsigned, T value, int from) {
  return emulation::exchange(value, [&](auto lane) { return lane(unsigned(from) % 32); });
}
template <class T>
unsigned __match_any_sync(unsigned, T value) {
  return emulation::exchange(value, [&](auto lane) {
    unsigned mask = 0;
    for (unsigned i = 0; i < 32; ++i) mask |= unsigned(lane(i) == value) << i;
    return mask;
  });
}
inline unsigned __ballot_sync(unsigned, bool value) {
  return emulation::exchange(value, [&](auto lane) {
    unsigned mask = 0;
    for (unsigned i = 0; i < 32; ++i) mask |= unsigned(lane(i)) << i;
    return mask;
  });
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(int(x)); }
inline int atomicAdd(int* at, int value) { return *at += value, *at - value; }

using std::fma, std::sqrt;

#include "grow/cuda/kernels/add_partials.cu"
#include "grow/cuda/kernels/advance_sums.cu"
#include "grow/cuda/kernels/count_ranks.cu"
#include "grow/cuda/kernels/count_rows.cu"
#include "grow/cuda/kernels/find_candidates.cu"
#include "grow/cuda/kernels/list_rows.cu"
#include "grow/cuda/kernels/solve_candidates.cu"
#include "grow/cuda/kernels/sum_rows.cu"
//
#include "grow/paper/kernels/average_columns.cu"
#include "grow/paper/kernels/calc_models.cu"
#include "grow/paper/kernels/count_keys.cu"
#include "grow/paper/kernels/estimate_errors.cu"
#include "grow/paper/kernels/factorise.cu"
#include "grow/paper/kernels/redistribute.cu"
#include "grow/paper/kernels/reduction.cu"
#include "grow/paper/kernels/reorganise.cu"
#include "grow/paper/kernels/scan_keys.cu"
#include "grow/paper/kernels/separate.cu"

namespace {

using namespace silva;

int n_launches = 0;
// Launches on each GPU before it fails, -1 for any number.
int n_launches_left[4] = {-1, -1, -1, -1};
// Streams are numbers: the GPU's, and behind it which of its streams. A launch needs the GPU's context to be current.
thread_local uintptr_t current_context = 0;
std::mutex launching;  // the emulated threads of one block at a time

uintptr_t gpu_of(void* stream) { return reinterpret_cast<uintptr_t>(stream) >> 8; }

template <class T>
T argument(void** arguments, int i) {
  return *static_cast<T*>(arguments[i]);
}

template <class... Types, size_t... I>
std::function<void()> bound(void (*kernel)(Types...), void** arguments, std::index_sequence<I...>) {
  return [=] { kernel(argument<Types>(arguments, int(I))...); };
}

template <class... Types>
void run_kernel(void (*kernel)(Types...), unsigned blocks, unsigned threads, void** arguments) {
  const std::function<void()> body = bound(kernel, arguments, std::index_sequence_for<Types...>());
  static std::map<unsigned, emulation::Block> blocks_of;  // by threads: their stacks are dear
  emulation::Block& block = blocks_of.try_emplace(threads, threads).first->second;
  for (unsigned b = 0; b < blocks; ++b) {
    emulation::block_index.x = b;
    block.run(body);
  }
}

// By the order of silva.grow.cuda.kernels, and from 101 on of silva.grow.cuda_qr.KERNELS, the paper's evaluation.
int run_numbered(uintptr_t kernel, unsigned blocks, unsigned threads, void** arguments) {
  const auto run = [&](auto* body) { run_kernel(body, blocks, threads, arguments); };
  switch (kernel) {
    case 1:
      return run(sum_rows_kernel), 0;
    case 2:
      return run(add_partials_kernel), 0;
    case 3:
      return run(count_rows_kernel), 0;
    case 4:
      return run(list_rows_kernel), 0;
    case 5:
      return run(count_ranks_kernel), 0;
    case 6:
      return run(find_candidates_kernel), 0;
    case 7:
      return run(advance_sums_kernel), 0;
    case 8:
      return run(solve_candidates_kernel), 0;
    case 101:
      return run(redistribute_kernel), 0;
    case 102:
      return run(count_keys_kernel), 0;
    case 103:
      return run(scan_keys_kernel), 0;
    case 104:
      return run(separate_kernel), 0;
    case 105:
      return run(average_columns_kernel), 0;
    case 106:
      return run(reorganise_kernel), 0;
    case 107:
      return run(factorise_kernel), 0;
    case 108:
      return run(calc_models_kernel), 0;
    case 109:
      return run(estimate_errors_kernel), 0;
    case 110:
      return run(reduction_kernel), 0;
  }
  return 400;
}

}  // namespace

extern "C" {

// Kernels are known by their numbers.
int launch(void* kernel, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
           void* stream, void** arguments, void**) {
  const std::lock_guard lock(launching);
  ++n_launches;
  if (gpu_of(stream) + 1 != current_context) return 400;
  int& left = n_launches_left[gpu_of(stream)];
  if (left == 0) return 999;
  if (left > 0) --left;
  return run_numbered(reinterpret_cast<uintptr_t>(kernel), blocks, threads, arguments);
}
// A microsecond a launch.
int record_event(void* event, void*) {
  *static_cast<double*>(event) = n_launches;
  return 0;
}
int elapsed_time(float* milliseconds, void* first, void* last) {
  *milliseconds = float(1e-3 * (*static_cast<double*>(last) - *static_cast<double*>(first)));
  return 0;
}
int copy_in(uint64_t to, const void* from, size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int copy_out(void* to, uint64_t from, size_t bytes, void*) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
int synchronize(void*) { return 0; }
int stream_context(void* stream, void** context) {
  *context = reinterpret_cast<void*>(gpu_of(stream) + 1);
  return 0;
}
int set_context(void* context) {
  current_context = reinterpret_cast<uintptr_t>(context);
  return 0;
}
int error_name(int, const char** name) {
  *name = "CUDA_ERROR_OF_THE_TEST";
  return 0;
}
void fail_after(int gpu, int n_launches) { n_launches_left[gpu] = n_launches; }
}
