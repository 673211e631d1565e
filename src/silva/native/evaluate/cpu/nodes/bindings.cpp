// Bindings of the evaluation with splits in lanes: silva.evaluate.cpu calls these.
#include "evaluate/cpu/plan_tasks.h"

namespace silva {

SILVA_VECTOR_KERNEL_TABLES(NodeKernels, nodes)

static const NodeKernels& choose() {
#ifdef SILVA_VBMI
  // The permutation of bytes is no part of x86-64-v4: the first processors of that level lack it.
  extern const NodeKernels nodes_vbmi;
  if (instruction_set() == InstructionSet::kV4 && !is_instruction_set_asked() && __builtin_cpu_supports("avx512vbmi"))
    return nodes_vbmi;
#endif
  return kernels_of(nodes_tables);
}

const NodeKernels& node_kernels() {
  static const NodeKernels& chosen = choose();
  return chosen;
}

static NodeTask begin(const NodePlan& plan, const RowMatrix& rows, int n_threads) {
  return task_of(plan, rows_of(rows, int32_t(plan.coding.flags.size())), n_threads);
}

void bind_nodes(nb::module_& module) {
  nb::class_<NodePlan>(module, "NodePlan", "A forest's nodes laid out for by_node or windowed.")
      .def(
          "__init__",
          [](NodePlan* self, nb::handle forest, int window_levels, int reductions, bool ranks) {
            new (self) NodePlan(view_of(forest), window_levels, reductions, ranks, node_kernels());
          },
          nb::arg("forest"), nb::arg("window_levels"), nb::arg("reductions"), nb::arg("ranks"))
      .def_prop_ro("code_bits",
                   [](const NodePlan& plan) {
                     return plan.code_type == CodeType::kByte ? 8 : plan.code_type == CodeType::kShort ? 16 : 32;
                   })
      .def_prop_ro("lane_cost",
                   [](const NodePlan& plan) { return plan.lane_splits.empty() ? 0 : plan.lane_cost(node_kernels()); })
      .def_prop_ro("class_cost", &NodePlan::class_cost)
      .def_prop_ro("in_registers", [](const NodePlan& plan) { return node_kernels().in_registers(plan.view()) != 0; })
      .def(
          "margins",
          [](const NodePlan& plan, const RowMatrix& rows, const ResultMatrix<double>& out, int n_threads) {
            run(begin(plan, rows, n_threads), out, &RowsTask::margin, int64_t(plan.base_score.size()));
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), "Margins, (n, n_outputs).")
      .def(
          "leaves",
          [](const NodePlan& plan, const RowMatrix& rows, const ResultMatrix<int32_t>& out, int n_threads) {
            run(begin(plan, rows, n_threads), out, &RowsTask::leaf, int64_t(plan.trees.size()));
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), "Leaf ids, (n, n_trees).");
}

}  // namespace silva
