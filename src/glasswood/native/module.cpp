// The Python module of the compiled core: what each job binds.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#ifdef __linux__
#include <sched.h>
#endif

#include "common/instruction_set.h"

namespace glasswood {

void bind_forest(nanobind::module_&);
void bind_evaluate(nanobind::module_&);
void bind_neighbors(nanobind::module_&);
void bind_sparse(nanobind::module_&);
void bind_categories(nanobind::module_&);
void bind_statistics(nanobind::module_&);
void bind_nodes(nanobind::module_&);
void bind_predictor(nanobind::module_&);
void bind_gpu_calls(nanobind::module_&);
void bind_explain(nanobind::module_&);
void bind_patterns(nanobind::module_&);
void bind_coalitions(nanobind::module_&);
void bind_tables(nanobind::module_&);
void bind_row_explainer(nanobind::module_&);
void bind_strongest(nanobind::module_&);
void bind_summary(nanobind::module_&);
void bind_gpu_tables(nanobind::module_&);
void bind_tape(nanobind::module_&);
void bind_paths(nanobind::module_&);
void bind_grow(nanobind::module_&);
void bind_curves(nanobind::module_&);
void bind_inspection(nanobind::module_&);

static int usable_cores() {
#ifdef __linux__
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
#endif
  const unsigned n_cores = std::thread::hardware_concurrency();
  return n_cores == 0 ? 1 : int(n_cores);
}

// OMP_NUM_THREADS is what schedulers and pools of processes set for all libraries; no OpenMP is needed to follow it.
static int max_threads() {
  static const int n_threads = [] {
    const char* asked = std::getenv("OMP_NUM_THREADS");
    const long n_asked = asked ? std::strtol(asked, nullptr, 10) : 0;
    return n_asked > 0 ? int(std::min(n_asked, 4096L)) : usable_cores();
  }();
  return n_threads;
}

}  // namespace glasswood

NB_MODULE(_core, module) {
  using namespace glasswood;
  // A forest in a global that outlives the module at exit is not a defect that a user should read about.
  nanobind::set_leak_warnings(false);
  module.doc() = "Compiled core of glasswood.";
  module.def("instruction_set", &instruction_set_name, "Name of the instruction set whose kernels run.");
  module.def("instruction_sets", &instruction_set_names, "Names that GLASSWOOD_ISA may have here, the widest first.");
  module.def("max_threads", &max_threads,
             "Threads of a call that asks for none: OMP_NUM_THREADS, or the cores of the process.");
  for (const auto bind :
       {bind_forest,    bind_sparse,    bind_categories, bind_statistics, bind_evaluate, bind_nodes,
        bind_predictor, bind_explain,   bind_patterns,   bind_coalitions, bind_tables,   bind_row_explainer,
        bind_strongest, bind_summary,   bind_gpu_tables, bind_tape,       bind_paths,    bind_grow,
        bind_curves,    bind_neighbors, bind_inspection})
    bind(module);
#ifdef __linux__
  bind_gpu_calls(module);
#endif
}
