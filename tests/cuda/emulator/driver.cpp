// Functions of the CUDA driver that the core calls (native/common/cuda/driver.h), for emulated GPUs. A GPU's context is
// its number and 1, streams have it in their upper half; the null stream is that of the current GPU. A kernel is the
// address of an emulator::Kernel.
#include <cstring>
#include <mutex>

#include "machine.h"

namespace {

constexpr int kInvalidValue = 1, kInvalidContext = 201, kLaunchFailed = 719;
constexpr unsigned kMostBlocksAside = 65535;

std::mutex counting;
int n_launches = 0;
// Launches on each GPU before it fails, -1 for any number.
int n_launches_left[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
thread_local uintptr_t current_context = 0;
void* captured = nullptr;  // the stream that is

uintptr_t context_of(void* stream) {
  return stream ? (reinterpret_cast<uintptr_t>(stream) >> 32) + 1 : current_context;
}

bool is_possible(emulator::Index grid, emulator::Index block, unsigned shared_bytes) {
  return grid.x && grid.y && grid.z && grid.y <= kMostBlocksAside && grid.z <= kMostBlocksAside &&
         block.x * block.y * block.z - 1 < emulator::kMostThreads && shared_bytes <= emulator::kSharedBytes;
}

int count_launch(uintptr_t context) {
  const std::lock_guard lock(counting);
  ++n_launches;
  int& left = n_launches_left[context - 1];
  if (left == 0) return kLaunchFailed;
  if (left > 0) --left;
  return 0;
}

}  // namespace

extern "C" {

int emulated_launch(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                    unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void**) {
  const emulator::Index grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
  if (!current_context || context_of(stream) != current_context) return kInvalidContext;
  if (!is_possible(grid, block, shared_bytes)) return kInvalidValue;
  if (const int code = count_launch(current_context)) return code;
  emulator::run(grid, block, shared_bytes, reinterpret_cast<emulator::Kernel>(kernel), arguments);
  return 0;
}

// The kernel waits for the launch before it, which has ended here.
int emulated_launch_as(const unsigned* config, void* kernel, void** arguments, void** extra) {
  void* stream;
  std::memcpy(&stream, config + 8, sizeof stream);
  return emulated_launch(kernel, config[0], config[1], config[2], config[3], config[4], config[5], config[6], stream,
                         arguments, extra);
}

int emulated_copy_in(uint64_t to, const void* from, size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}

int emulated_copy_out(void* to, uint64_t from, size_t bytes, void*) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}

int emulated_synchronize(void*) { return 0; }

// A microsecond a launch.
int emulated_record_event(void* event, void*) {
  *static_cast<double*>(event) = n_launches;
  return 0;
}

int emulated_await_event(void*, void*, unsigned) { return 0; }

int emulated_is_capturing(void* stream, int* status) {
  *status = stream && stream == captured;
  return 0;
}

void capture(void* stream) { captured = stream; }

int emulated_elapsed_time(float* milliseconds, void* first, void* last) {
  *milliseconds = float(1e-3 * (*static_cast<double*>(last) - *static_cast<double*>(first)));
  return 0;
}

int emulated_stream_context(void* stream, void** context) {
  *context = reinterpret_cast<void*>(context_of(stream));
  return 0;
}

int emulated_set_context(void* context) {
  current_context = reinterpret_cast<uintptr_t>(context);
  return 0;
}

int emulated_get_context(void** context) {
  *context = reinterpret_cast<void*>(current_context);
  return 0;
}

int emulated_error_name(int, const char** name) {
  *name = "CUDA_ERROR_OF_THE_TEST";
  return 0;
}

void fail_after(int gpu, int n_launches) { n_launches_left[gpu] = n_launches; }
}
