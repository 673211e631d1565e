// Launches that silva/cuda/prepared.py has laid out, started without Python.
#pragma once
#include <nanobind/stl/map.h>
#include <nanobind/stl/tuple.h>

#include <tuple>
#include <vector>

#include "common/bindings.h"
#include "common/cuda/driver.h"

namespace silva {

// Releases the interpreter for the duration of a block. The driver may wait in a launch, for callbacks that need it.
using Released = nb::gil_scoped_release;

// Function, grid and block (x, y, z), bytes of shared memory, address of the arguments' addresses.
using LaunchRecipe =
    std::tuple<uint64_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uint64_t>;

class GpuLaunch {
 public:
  explicit GpuLaunch(const LaunchRecipe& recipe) : recipe_(recipe) {}

  int start(const CudaDriver& driver, void* stream) const {
    const auto& [function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, arguments] = recipe_;
    return driver.launch(reinterpret_cast<void*>(function), grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                         stream, reinterpret_cast<void**>(arguments), nullptr);
  }

 private:
  LaunchRecipe recipe_;
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
  PyErr_SetString(type.ptr(),
                  ("the driver refuses a launch: " + what + "; if it does so again, start the process anew").c_str());
  throw nb::python_error();
}

}  // namespace silva
