// Launches that glasswood/cuda/launches.py has laid out, started by the core without Python.
#pragma once
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>

#include <array>
#include <vector>

#include "common/bindings.h"
#include "common/cuda/driver.h"
#include "common/interpreter.h"

namespace glasswood {

// Addresses are numbers, as Python and the driver pass them.
struct GpuLaunch {
  uint64_t function;
  std::array<unsigned, 3> grid, block;
  unsigned shared;     // bytes
  uint64_t arguments;  // address of the arguments' addresses
  bool overlaps;       // begins before what precedes it in its stream has ended: the kernel waits for that itself

  int start(const CudaDriver& driver, void* stream) const {
    if (overlaps) {
      const LaunchAttribute attribute{6, 1, {}};  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
      const LaunchConfig config{
          {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, stream, &attribute, 1};
      return driver.launch_as(&config, reinterpret_cast<void*>(function), reinterpret_cast<void**>(arguments), nullptr);
    }
    return driver.launch(reinterpret_cast<void*>(function), grid[0], grid[1], grid[2], block[0], block[1], block[2],
                         shared, stream, reinterpret_cast<void**>(arguments), nullptr);
  }
};

// Launches from rows to results. Those from first_beside on, one more than there are sides, run beside each other: the
// first of them in the plan's own stream.
struct GpuPlan {
  using Side = std::array<uint64_t, 2>;  // a stream, and the event that its launch is done
  nb::object owner;                      // of the arguments
  std::vector<GpuLaunch> launches;
  uint64_t rows, result;    // addresses of the arguments that hold theirs
  nb::object make_buffers;  // makes memory that is not kept and names it to the launches, or None
  size_t n_bytes;           // of the buffers that are kept
  size_t first_beside;
  uint64_t begin;  // event that what comes before the launches beside each other is done
  std::vector<Side> sides;

  int start(const CudaDriver& driver, void* stream) const {
    int code = 0;
    for (size_t i = 0; i < launches.size() && code == 0; ++i) {
      if (i == first_beside && code == 0) code = fork(driver, stream);
      const size_t side = i - first_beside - 1;
      const bool is_aside = i > first_beside && side < sides.size();
      if (code == 0) code = launches[i].start(driver, is_aside ? stream_of(sides[side]) : stream);
      if (is_aside && side + 1 == sides.size() && code == 0) code = join(driver, stream);
    }
    return code;
  }

 private:
  static void* stream_of(const Side& side) { return reinterpret_cast<void*>(side[0]); }

  int fork(const CudaDriver& driver, void* stream) const {
    int code = sides.empty() ? 0 : driver.record_event(reinterpret_cast<void*>(begin), stream);
    for (const Side& side : sides)
      if (code == 0) code = driver.await_event(stream_of(side), reinterpret_cast<void*>(begin), 0);
    return code;
  }

  int join(const CudaDriver& driver, void* stream) const {
    int code = 0;
    for (const Side& side : sides) {
      void* end = reinterpret_cast<void*>(side[1]);
      if (code == 0) code = driver.record_event(end, stream_of(side));
      if (code == 0) code = driver.await_event(stream, end, 0);
    }
    return code;
  }
};

// Raises glasswood.DeviceError for a failure of the driver.
[[noreturn]] inline void raise_device_error(const CudaDriver& driver, int code, int gpu) {
  std::string what;
  try {
    driver.check(code, gpu);
  } catch (const CudaError& error) {
    what = error.what();
  }
  const nb::object type = nb::module_::import_("glasswood.base.device").attr("DeviceError");
  PyErr_SetString(type.ptr(),
                  ("the driver refuses a launch: " + what + "; if it does so again, start the process anew").c_str());
  throw nb::python_error();
}

}  // namespace glasswood
