// Launches that silva/cuda/prepared.py has laid out, started without Python.
#pragma once
#include <nanobind/stl/map.h>
#include <nanobind/stl/tuple.h>

#include <tuple>
#include <vector>

#include "common/bindings.h"
#include "common/cuda_driver.h"

namespace silva {

// Releases the interpreter for the duration of a block. The driver may wait in a launch, for callbacks that need it.
using Released = nb::gil_scoped_release;

// Function, grid, threads of a block, bytes of shared memory, address of the arguments' addresses.
using LaunchRecipe = std::tuple<uint64_t, unsigned, unsigned, unsigned, unsigned, uint64_t>;

class GpuLaunch {
 public:
  explicit GpuLaunch(const LaunchRecipe& recipe)
      : function_(reinterpret_cast<void*>(std::get<0>(recipe))),
        grid_{std::get<1>(recipe), std::get<2>(recipe)},
        threads_(std::get<3>(recipe)),
        shared_(std::get<4>(recipe)),
        arguments_(reinterpret_cast<void**>(std::get<5>(recipe))) {}

  int start(const CudaDriver& driver, void* stream) const {
    return driver.launch(function_, grid_[0], grid_[1], 1, threads_, 1, 1, shared_, stream, arguments_, nullptr);
  }

 private:
  void* function_;
  unsigned grid_[2], threads_, shared_;
  void** arguments_;
};

inline std::vector<GpuLaunch> launches_of(const std::vector<LaunchRecipe>& recipes) {
  return {recipes.begin(), recipes.end()};
}

// Raises silva.DeviceError for a failure of the driver.
[[noreturn]] inline void raise_device_error(const CudaDriver& driver, int code, int gpu) {
  std::string what;
  try {
    driver.check(code, gpu);
  } catch (const CudaError& error) {
    what = error.what();
  }
  const nb::object type = nb::module_::import_("silva.device").attr("DeviceError");
  PyErr_SetString(type.ptr(), ("the driver refuses a launch: " + what).c_str());
  throw nb::python_error();
}

}  // namespace silva
