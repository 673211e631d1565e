// The few functions of the CUDA driver that the core calls by itself. They are found at run time: the module links to
// no CUDA library. Tests put functions of their own in their place.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace glasswood {

struct CudaError : std::runtime_error {
  CudaError(const std::string& what, int code) : std::runtime_error(what), code(code) {}
  int code;
};

// CUlaunchAttribute and CUlaunchConfig of the driver.
struct LaunchAttribute {
  int kind;
  alignas(8) int value;
  char rest[60];
};

struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned n_attributes;
};

static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

struct CudaDriver {
  using Pointer = uint64_t;
  using Addresses = std::map<std::string, uint64_t>;
  int (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                void* stream, void** arguments, void** extra) = nullptr;
  int (*launch_as)(const LaunchConfig* config, void* function, void** arguments, void** extra) = nullptr;
  int (*copy_in)(Pointer to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*copy_out)(void* to, Pointer from, size_t bytes, void* stream) = nullptr;
  int (*synchronize)(void* stream) = nullptr;
  int (*record_event)(void* event, void* stream) = nullptr;
  int (*await_event)(void* stream, void* event, unsigned flags) = nullptr;
  int (*is_capturing)(void* stream, int* status) = nullptr;
  int (*elapsed_time)(float* milliseconds, void* first, void* last) = nullptr;
  int (*stream_context)(void* stream, void** context) = nullptr;
  int (*set_context)(void* context) = nullptr;
  int (*get_context)(void** context) = nullptr;
  int (*error_name)(int code, const char** name) = nullptr;

  static CudaDriver load() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) throw std::runtime_error("libcuda.so.1 cannot be loaded; install the NVIDIA driver");
    CudaDriver driver;
    driver.each([&](auto& function, const char*, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name + "; update the driver");
    });
    return driver;
  }

  // The installed driver; with an address of `launch`, the functions at these addresses instead.
  static CudaDriver at(const Addresses& addresses) {
    if (!addresses.contains("launch")) return load();
    CudaDriver driver;
    driver.each([&](auto& function, const char* name, const char*) {
      const auto found = addresses.find(name);
      if (found == addresses.end()) return;
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found->second);
    });
    return driver;
  }

  // The message begins with the driver's name of the error, then names the GPU.
  void check(int code, int gpu) const {
    if (code == 0) return;
    const char* name = nullptr;
    error_name(code, &name);
    throw CudaError((name ? name : "CUDA_ERROR_UNKNOWN") + std::string(" on cuda:") + std::to_string(gpu), code);
  }

  template <class... Arguments>
  int launch_blocks(uint64_t kernel, unsigned blocks, unsigned threads, void* stream, Arguments... arguments) const {
    void* pointers[] = {&arguments...};
    return launch(reinterpret_cast<void*>(kernel), blocks, 1, 1, threads, 1, 1, 0, stream, pointers, nullptr);
  }

 private:
  // Calls take(function, our name, the driver's name).
  template <class Take>
  void each(Take take) {
    take(launch, "launch", "cuLaunchKernel");
    take(launch_as, "launch_as", "cuLaunchKernelEx");
    take(copy_in, "copy_in", "cuMemcpyHtoDAsync_v2");
    take(copy_out, "copy_out", "cuMemcpyDtoHAsync_v2");
    take(synchronize, "synchronize", "cuStreamSynchronize");
    take(record_event, "record_event", "cuEventRecord");
    take(await_event, "await_event", "cuStreamWaitEvent");
    take(is_capturing, "is_capturing", "cuStreamIsCapturing");
    take(elapsed_time, "elapsed_time", "cuEventElapsedTime");
    take(stream_context, "stream_context", "cuStreamGetCtx");
    take(set_context, "set_context", "cuCtxSetCurrent");
    take(get_context, "get_context", "cuCtxGetCurrent");
    take(error_name, "error_name", "cuGetErrorName");
  }
};

}  // namespace glasswood
