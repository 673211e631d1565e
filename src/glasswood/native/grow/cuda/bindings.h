// What Python tells the engine of the GPUs that read the rows.
#pragma once
#include <functional>

#include "common/bindings.h"
#include "grow/search/engine.h"

#if defined(__linux__) && __has_include(<ucontext.h>)
#define GLASSWOOD_GROW_GPU
#include "grow/cuda/host/row_source.h"
#endif

namespace glasswood {

#ifdef GLASSWOOD_GROW_GPU
struct GpuSearch {
  GpuSettings settings;
  std::vector<StreamHandles> streams;
  std::vector<GpuPart> parts;
  std::optional<QrHandles> qr;   // of algorithm="qr"
  CudaDriver::Addresses driver;  // functions in place of the installed driver's
};
#else
struct GpuSearch {};
#endif

SearchMachine make_machine(const GpuSearch& gpu, const GrowData& data, const GrowLimits& limits,
                           std::function<void()> between_rounds);

void bind_grow_gpu(nb::module_& module);

}  // namespace glasswood
