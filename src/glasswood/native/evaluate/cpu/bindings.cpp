// Bindings of the evaluation: glasswood.evaluate.cpu calls these.
#include <nanobind/stl/optional.h>

#include <utility>

#include "evaluate/cpu/grid.h"
#include "evaluate/cpu/plan_tasks.h"

namespace glasswood {

GLASSWOOD_KERNEL_TABLES(EvaluateKernels, evaluate)
GLASSWOOD_VECTOR_KERNEL_TABLES(LinearKernels, linear)

const EvaluateKernels& evaluate_kernels() { return kernels_of(evaluate_tables); }
const LinearKernels& linear_kernels() { return kernels_of(linear_tables); }

static EvaluateTask begin(const EvaluatePlan& plan, const RowMatrix& rows, int n_threads, bool serial) {
  EvaluateTask task = task_of(plan, rows_of(rows, int32_t(plan.coding.flags.size())), n_threads);
  task.serial = serial;
  if (serial) task.n_threads = 1;
  return task;
}

// Rows, and the points of a grid as rows of which only some columns count.
static std::pair<RowSource, RowSource> checked_grid(const EvaluatePlan& plan, const RowMatrix& rows,
                                                    const RowMatrix& grid, const std::vector<int32_t>& columns) {
  const int32_t n_features = int32_t(plan.coding.flags.size());
  for (const int32_t column : columns)
    if (column < 0 || column >= n_features) throw nb::value_error("no such column");
  return {rows_of(rows, n_features), rows_of(grid, n_features)};
}

using GridMargins = nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

static void on_grid(const EvaluatePlan& plan, const RowMatrix& matrix, const RowMatrix& grid,
                    const std::vector<int32_t>& columns, const GridMargins& out, int n_threads) {
  const auto [rows, points] = checked_grid(plan, matrix, grid, columns);
  if (int64_t(out.shape(0)) != rows.n_rows || out.shape(1) != plan.base_score.size() ||
      int64_t(out.shape(2)) != points.n_rows)
    throw nb::value_error("the result has the wrong shape");
  const RowSource all = rows, each = points;
  run_interruptibly([&] {
    (plan.packed ? margins_on_grid<true> : margins_on_grid<false>)(plan, all, columns, each, out.data(), n_threads);
  });
}

using GridSums = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

static void sums(const EvaluatePlan& plan, const RowMatrix& matrix, const RowMatrix& grid,
                 const std::vector<int32_t>& columns, const std::optional<Vector<double>>& weights, const GridSums& out,
                 int n_threads) {
  const auto [rows, points] = checked_grid(plan, matrix, grid, columns);
  if (out.shape(0) != plan.base_score.size() || int64_t(out.shape(1)) != points.n_rows)
    throw nb::value_error("the result has the wrong shape");
  if (weights && int64_t(weights->shape(0)) != rows.n_rows) throw nb::value_error("weights are not one a row");
  const double* weight = weights ? weights->data() : nullptr;
  const RowSource all = rows, each = points;
  run_interruptibly([&] {
    (plan.packed ? sums_on_grid<true> : sums_on_grid<false>)(plan, all, columns, each, weight, out.data(), n_threads);
  });
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
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), nb::arg("serial"), "Leaf ids, (n, n_trees).")
      .def("margins_on_grid", on_grid, nb::arg("rows"), nb::arg("grid"), nb::arg("columns"), nb::arg("out"),
           nb::arg("n_threads"), "Margins, (n, n_outputs, points), with each point's values in these columns.")
      .def("sums_on_grid", sums, nb::arg("rows"), nb::arg("grid"), nb::arg("columns"), nb::arg("weights"),
           nb::arg("out"), nb::arg("n_threads"), "Sums of these margins over the rows, (n_outputs, points).");
}

}  // namespace glasswood
