// Launches that silva/cuda/launches.py has laid out, started by the core without Python.
#pragma once
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>

#include <array>
#include <vector>

#include "common/bindings.h"
#include "common/cuda/driver.h"

namespace silva {

// Releases the interpreter for the duration of a block. The driver may wait in a launch, for callbacks that need it.
using Released = nb::gil_scoped_release;

// Addresses are numbers, as Python and the driver pass them.
struct GpuLaunch {
  uint64_t function;
  std::array<unsigned, 3> grid, block;
  unsigned shared;     // bytes
  uint64_t arguments;  // address of the arguments' addresses

  int start(const CudaDriver& driver, void* stream) const {
    return driver.launch(reinterpret_cast<void*>(function), grid[0], grid[1], grid[2], block[0], block[1], block[2],
                         shared, stream, reinterpret_cast<void**>(arguments), nullptr);
  }
};

// Launches from rows to results.
struct GpuPlan {
  nb::object owner;  // of the arguments
  std::vector<GpuLaunch> launches;
  uint64_t rows, result;    // addresses of the arguments that hold theirs
  nb::object make_buffers;  // makes memory that is not kept and names it to the launches, or None
  size_t n_bytes;           // of the buffers that are kept
};

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
