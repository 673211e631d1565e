// The Python module of the compiled core: what each job binds.
#include <nanobind/nanobind.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/instruction_set.h"

namespace silva {

void bind_forest(nanobind::module_&);
void bind_evaluate(nanobind::module_&);
void bind_linear(nanobind::module_&);
void bind_nodes(nanobind::module_&);
void bind_predictor(nanobind::module_&);
void bind_gpu_calls(nanobind::module_&);
void bind_gpu_row(nanobind::module_&);
void bind_explain(nanobind::module_&);
void bind_patterns(nanobind::module_&);
void bind_tables(nanobind::module_&);
void bind_row_explainer(nanobind::module_&);
void bind_gpu_tables(nanobind::module_&);
void bind_tape(nanobind::module_&);
void bind_paths(nanobind::module_&);
void bind_grow(nanobind::module_&);

static int max_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

}  // namespace silva

NB_MODULE(_core, module) {
  using namespace silva;
  // A forest in a global that outlives the module at exit is no defect that a user should read about.
  nanobind::set_leak_warnings(false);
  module.doc() = "Compiled core of silva.";
  module.def("instruction_set", &instruction_set_name, "Name of the instruction set whose kernels run.");
  module.def("max_threads", &max_threads, "Threads that OpenMP would take.");
  for (const auto bind : {bind_forest, bind_evaluate, bind_linear, bind_nodes, bind_predictor, bind_explain, bind_patterns,
                          bind_tables, bind_row_explainer, bind_gpu_tables, bind_tape, bind_paths, bind_grow})
    bind(module);
#ifdef __linux__
  bind_gpu_calls(module);
  bind_gpu_row(module);
#endif
}
