// Bindings of the evaluation: silva.evaluate.cpu calls these.
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/bindings.h"
#include "common/threads/borrowed_team.h"
#include "common/workspace.h"
#include "evaluate/cpu/plan_tasks.h"

namespace silva {

using Matrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;

static void run(EvaluateTask& task) {
  const Workspace workspace(task.workspace_size * task.n_threads);
  task.workspace = workspace.data();
  const nb::gil_scoped_release release;
  const BorrowedTeam threads(task.serial ? 1 : task.n_threads);
  task.team = threads.team();
  kernels().evaluate(task);
}

static int max_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

using Margins = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Leaves = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Result>
static void check_result(const Result& result, const EvaluateTask& task, int64_t columns) {
  if (int64_t(result.shape(0)) != task.rows.n_rows || int64_t(result.shape(1)) != columns)
    throw nb::value_error("the result has the wrong shape");
}

void bind_evaluate(nb::module_& module) {
  nb::class_<EvaluatePlan>(module, "EvaluatePlan", "A forest's nodes laid out for evaluation.")
      .def(
          "__init__", [](EvaluatePlan* self, nb::handle forest) { new (self) EvaluatePlan(view_of(forest)); },
          nb::arg("forest"))
      .def(
          "margins",
          [](const EvaluatePlan& plan, const Matrix& rows, const Margins& out, int n_threads, bool serial) {
            EvaluateTask task = task_of(plan, rows_of(rows, int32_t(plan.coding.flags.size())), n_threads);
            check_result(out, task, task.forest.n_outputs);
            task.margin = out.data();
            task.serial = serial;
            run(task);
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), nb::arg("serial"), "Margins, (n, n_outputs).")
      .def(
          "leaves",
          [](const EvaluatePlan& plan, const Matrix& rows, const Leaves& out, int n_threads, bool serial) {
            EvaluateTask task = task_of(plan, rows_of(rows, int32_t(plan.coding.flags.size())), n_threads);
            check_result(out, task, task.forest.n_trees);
            task.leaf = out.data();
            task.serial = serial;
            run(task);
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), nb::arg("serial"), "Leaf ids, (n, n_trees).");
  module.def("max_threads", &max_threads, "Threads that OpenMP would take.");
  module.def("instruction_set", [] { return kernels().name; }, "Name of the instruction set whose kernels run.");
}

}  // namespace silva
