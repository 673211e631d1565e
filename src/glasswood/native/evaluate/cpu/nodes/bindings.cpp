// Bindings of the evaluation with splits in lanes: glasswood.evaluate.cpu calls these.
#include "evaluate/cpu/plan_tasks.h"

namespace glasswood {

// The permutation of bytes is not part of x86-64-v4: the first processors of that level lack it. A build for a machine
// that has it does not contain kernels of v4 without it.
#ifdef GLASSWOOD_NODES_BY_VBMI
extern const NodeKernels nodes_v2, nodes_vbmi;

static const NodeKernels& choose() {
  return instruction_set() == InstructionSet::kV4 && __builtin_cpu_supports("avx512vbmi") ? nodes_vbmi : nodes_v2;
}
#else
GLASSWOOD_VECTOR_KERNEL_TABLES(NodeKernels, nodes)

static const NodeKernels& choose() {
#ifdef GLASSWOOD_VBMI
  extern const NodeKernels nodes_vbmi;
  if (instruction_set() == InstructionSet::kV4 && !is_instruction_set_asked() && __builtin_cpu_supports("avx512vbmi"))
    return nodes_vbmi;
#endif
  return kernels_of(nodes_tables);
}
#endif

const NodeKernels& node_kernels() {
  static const NodeKernels& chosen = choose();
  return chosen;
}

static NodeTask begin(const NodePlan& plan, const RowMatrix& rows, int n_threads) {
  return task_of(plan, rows_of(rows, int32_t(plan.coding.flags.size())), n_threads);
}

using Sources = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using MovedMargins = nb::ndarray<double, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

static void moved(const NodePlan& plan, const RowMatrix& matrix, const std::vector<int32_t>& features,
                  const Sources& sources, const MovedMargins& out, int n_threads) {
  if (plan.lane_splits.empty() || !plan.linear.empty()) throw nb::value_error("the plan has no rows in lanes");
  MovedTask task{begin(plan, matrix, n_threads)};
  const int64_t n = task.rows.n_rows, n_outputs = int64_t(plan.base_score.size());
  if (out.shape(0) != features.size() || out.shape(1) != sources.shape(0) || int64_t(out.shape(2)) != n ||
      int64_t(out.shape(3)) != n_outputs || int64_t(sources.shape(1)) != n)
    throw nb::value_error("the result has the wrong shape");
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources.data()[i] < 0 || sources.data()[i] >= n) throw nb::value_error("no such row");
  std::vector<int32_t> columns;
  for (const int32_t feature : features) {
    const auto of_feature = [&](const NodeColumn& column) { return column.feature == feature; };
    const auto found = std::find_if(plan.columns.columns.begin(), plan.columns.columns.end(), of_feature);
    if (found == plan.columns.columns.end()) throw nb::value_error("no tree splits the feature");
    columns.push_back(int32_t(found - plan.columns.columns.begin()));
  }
  task.moved = columns.data(), task.n_moved = int32_t(columns.size());
  task.sources = sources.data(), task.n_sources = int32_t(sources.shape(0));
  task.out = out.data();
  task.n_threads = std::max(1, n_threads);
  task.workspace_size = node_kernels().moved_workspace(task);
  const Workspace workspace(task.workspace_size * task.n_threads);
  task.workspace = workspace.data();
  const Workspace codes(2 * n * task.n_moved * (plan.code_type == CodeType::kByte ? 1 : 2));
  task.moved_codes = codes.data();
  run_interruptibly([&] {
    const BorrowedTeam threads(task.n_threads);
    task.team = threads.team();
    node_kernels().evaluate_moved(task);
  });
}

using Ranks = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

static void margins_of_ranks(const NodePlan& plan, const RowMatrix& matrix, const Ranks& ranks,
                             const ResultMatrix<double>& out, int n_threads) {
  const int32_t n_features = int32_t(plan.coding.flags.size()), first = n_features - int32_t(ranks.shape(0));
  const RowSource rows = rows_of(matrix, first);
  if (plan.code_type == CodeType::kFloat || !plan.linear.empty()) throw nb::value_error("the plan has no ranks");
  if (int64_t(ranks.shape(1)) != rows.n_rows) throw nb::value_error("ranks have another number of rows");
  NodeTask task = task_of(plan, rows, n_threads);
  task.in_place = false;
  task.given = {ranks.data(), first, rows.n_rows};
  run(std::move(task), out, &RowsTask::margin, int64_t(plan.base_score.size()));
}

using RankedValues = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// None where bytes do not hold them.
static nb::object ranks_of(const NodePlan& plan, int32_t feature, const RankedValues& values) {
  const RowCoding coding = plan.coding.view();
  if (feature < 0 || feature >= coding.n_features) throw nb::value_error("no such feature");
  if (plan.code_type == CodeType::kFloat || !plan.linear.empty() || coding.zero_threshold > 0 || coding.flags[feature])
    return nb::none();
  std::vector<uint8_t> ranks;
  for (size_t i = 0; i < values.size(); ++i) {
    const int32_t rank = plan.columns.rank_of(feature, values.data()[i]);
    if (rank < 0 || rank > 255) return nb::none();
    ranks.push_back(uint8_t(rank));
  }
  return nb::cast(to_numpy(std::move(ranks)));
}

void bind_nodes(nb::module_& module) {
  nb::class_<NodePlan>(module, "NodePlan", nb::is_weak_referenceable(),
                       "A forest's nodes laid out for by_node or windowed.")
      .def(
          "__init__",
          [](NodePlan* self, nb::handle forest, int window_levels, int reductions, bool ranks, bool lanes) {
            new (self) NodePlan(view_of(forest), window_levels, reductions, ranks, lanes, node_kernels());
          },
          nb::arg("forest"), nb::arg("window_levels"), nb::arg("reductions"), nb::arg("ranks"),
          nb::arg("lanes") = false)
      .def_prop_ro("code_bits",
                   [](const NodePlan& plan) {
                     return plan.code_type == CodeType::kByte ? 8 : plan.code_type == CodeType::kShort ? 16 : 32;
                   })
      .def_prop_ro("lane_cost",
                   [](const NodePlan& plan) { return plan.lane_splits.empty() ? 0 : plan.lane_cost(node_kernels()); })
      .def_prop_ro("trees_in_lanes", [](const NodePlan& plan) { return plan.view().tree_lanes.upper != nullptr; })
      .def_prop_ro("class_cost", &NodePlan::class_cost)
      .def_prop_ro("in_registers", [](const NodePlan& plan) { return node_kernels().in_registers(plan.view()) != 0; })
      .def(
          "margins",
          [](const NodePlan& plan, const RowMatrix& rows, const ResultMatrix<double>& out, int n_threads) {
            run(begin(plan, rows, n_threads), out, &RowsTask::margin, int64_t(plan.base_score.size()));
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), "Margins, (n, n_outputs).")
      .def("margins_of_ranks", margins_of_ranks, nb::arg("rows"), nb::arg("ranks"), nb::arg("out"),
           nb::arg("n_threads"), "Margins of rows whose last features are ranks, (n_features, n) of bytes.")
      .def("ranks", ranks_of, nb::arg("feature"), nb::arg("values"),
           "Ranks of float32 values among the feature's thresholds, None where bytes do not hold them.")
      .def(
          "leaves",
          [](const NodePlan& plan, const RowMatrix& rows, const ResultMatrix<int32_t>& out, int n_threads) {
            run(begin(plan, rows, n_threads), out, &RowsTask::leaf, int64_t(plan.trees.size()));
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"), "Leaf ids, (n, n_trees).")
      .def("moved_margins", moved, nb::arg("rows"), nb::arg("features"), nb::arg("sources"), nb::arg("out"),
           nb::arg("n_threads"),
           "Margins, (n_features, n_sources, n, n_outputs), with the values of each feature from the rows of each "
           "source.");
}

}  // namespace glasswood
