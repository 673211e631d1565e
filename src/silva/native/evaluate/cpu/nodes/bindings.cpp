// Bindings of the evaluation with splits in lanes: silva.evaluate.cpu calls these.
#include "common/bindings.h"

#include "common/threads/borrowed_team.h"
#include "common/workspace.h"
#include "evaluate/cpu/plan_tasks.h"

namespace silva {

using Matrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Result = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
static void run(const NodePlan& plan, const Matrix& rows, const Result<T>& out, int n_threads, T* NodeTask::* target,
                int64_t columns) {
  NodeTask task = task_of(plan, rows_of(rows, int32_t(plan.coding.flags.size())), n_threads);
  if (int64_t(out.shape(0)) != task.rows.n_rows || int64_t(out.shape(1)) != columns)
    throw nb::value_error("the result has the wrong shape");
  task.*target = out.data();
  const Workspace workspace(task.workspace_size * task.n_threads);
  task.workspace = workspace.data();
  const nb::gil_scoped_release release;
  const BorrowedTeam threads(task.n_threads);
  task.team = threads.team();
  node_kernels().evaluate(task);
}

void bind_nodes(nb::module_& module) {
  nb::class_<NodePlan>(module, "NodePlan", "A forest's nodes laid out for by_node or windowed.")
      .def(
          "__init__",
          [](NodePlan* self, nb::handle forest, int window_levels, int reductions, bool ranks) {
            new (self) NodePlan(view_of(forest), window_levels, reductions, ranks, node_kernels().has_bytes);
          },
          nb::arg("forest"), nb::arg("window_levels"), nb::arg("reductions"), nb::arg("ranks"))
      .def_prop_ro("code_bits",
                   [](const NodePlan& plan) {
                     return plan.code_type == CodeType::kByte ? 8 : plan.code_type == CodeType::kShort ? 16 : 32;
                   })
      .def_prop_ro("in_registers", [](const NodePlan& plan) { return node_kernels().in_registers(plan.view()) != 0; })
      .def(
          "margins",
          [](const NodePlan& plan, const Matrix& rows, const Result<double>& out, int n_threads) {
            run(plan, rows, out, n_threads, &NodeTask::margin, int64_t(plan.base_score.size()));
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), "Margins, (n, n_outputs).")
      .def(
          "leaves",
          [](const NodePlan& plan, const Matrix& rows, const Result<int32_t>& out, int n_threads) {
            run(plan, rows, out, n_threads, &NodeTask::leaf, int64_t(plan.trees.size()));
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), "Leaf ids, (n, n_trees).");
}

}  // namespace silva
