// Bindings of the evaluation: silva.evaluate.cpu calls these.
#include "evaluate/cpu/plan_tasks.h"

namespace silva {

SILVA_KERNEL_TABLES(EvaluateKernels, evaluate)

const EvaluateKernels& evaluate_kernels() { return *evaluate_tables[int(instruction_set())]; }

static EvaluateTask begin(const EvaluatePlan& plan, const RowMatrix& rows, int n_threads, bool serial) {
  EvaluateTask task = task_of(plan, rows_of(rows, int32_t(plan.coding.flags.size())), n_threads);
  task.serial = serial;
  if (serial) task.n_threads = 1;
  return task;
}

void bind_evaluate(nb::module_& module) {
  nb::class_<EvaluatePlan>(module, "EvaluatePlan", "A forest's nodes laid out for evaluation.")
      .def(
          "__init__", [](EvaluatePlan* self, nb::handle forest) { new (self) EvaluatePlan(view_of(forest)); },
          nb::arg("forest"))
      .def(
          "margins",
          [](const EvaluatePlan& plan, const RowMatrix& rows, const ResultMatrix<double>& out, int n_threads,
             bool serial) {
            run(begin(plan, rows, n_threads, serial), out, &RowsTask::margin, int64_t(plan.base_score.size()));
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), nb::arg("serial"), "Margins, (n, n_outputs).")
      .def(
          "leaves",
          [](const EvaluatePlan& plan, const RowMatrix& rows, const ResultMatrix<int32_t>& out, int n_threads,
             bool serial) {
            run(begin(plan, rows, n_threads, serial), out, &RowsTask::leaf, int64_t(plan.tree_depth.size()));
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), nb::arg("serial"), "Leaf ids, (n, n_trees).");
}

}  // namespace silva
