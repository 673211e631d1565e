// The Python module of the compiled core.
#include "common/bindings.h"

NB_MODULE(_core, module) {
  // A forest in a global that outlives the module at exit is no defect that a user should read about.
  nanobind::set_leak_warnings(false);
  module.doc() = "Compiled core of silva.";
  silva::bind_forest(module);
  silva::bind_tape(module);
  silva::bind_paths(module);
  silva::bind_evaluate(module);
  silva::bind_nodes(module);
  silva::bind_predictor(module);
#ifdef __linux__
  silva::bind_gpu_calls(module);
  silva::bind_gpu_row(module);
#endif
  silva::bind_explain(module);
  silva::bind_grow(module);
}
