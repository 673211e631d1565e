// Bindings of the explanations: glasswood.explain.cpu calls these.
#include "common/bindings.h"

#include <algorithm>

#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"
#include "common/workspace.h"
#include "explain/cpu/kernel_tables.h"
#include "explain/cpu/plan.h"
#include "explain/cpu/row_trees.h"

namespace glasswood {

using Result = nb::ndarray<nb::device::cpu>;

template <class Real>
static ExplainTask<Real> task_of(const ExplainPlan<Real>& plan, const RowMatrix& rows, int n_threads) {
  ExplainTask<Real> task{};
  task.nodes = plan.nodes.data();
  task.inverse = plan.inverse.data();
  task.deltas = plan.deltas.data();
  task.trees = plan.trees.data();
  task.slot_player = plan.slot_player.data();
  task.total_of = plan.total_of.data();
  task.n_totals = plan.n_totals;
  task.leaf_value = plan.leaf_value.data();
  task.sets = plan.sets.data();
  task.words = plan.words.data();
  task.points = plan.points.data();
  task.terms = plan.terms.data();
  task.entries = plan.entries.data();
  task.models = plan.models.empty() ? nullptr : plan.models.data();
  task.lone_leaves = plan.lone_leaves.data();
  task.n_lone_leaves = int32_t(plan.lone_leaves.size());
  task.max_terms = plan.max_terms;
  task.max_entries = plan.max_entries;
  task.n_trees = int32_t(plan.trees.size());
  task.n_outputs = plan.n_outputs;
  task.width = plan.width;
  task.coding = plan.coding.view();
  task.n_features = task.coding.n_features;
  task.n_players = plan.n_players;
  task.max_slots = plan.max_slots;
  task.max_depth = plan.max_depth;
  task.rows = rows_of(rows, task.n_features);
  task.n_threads = n_threads;
  return task;
}

// More than one block reads a large tree from memory once for all of them (depth 16: 1.2 times faster); few rows are
// better spread over the threads, and totals should stay in the cache.
template <class Real>
static int blocks_together(const ExplainTask<Real>& task, int lanes) {
  constexpr int64_t kMost = 4, kCache = 1 << 19, kMemory = 1 << 23;
  const int64_t n_blocks = task.rows.n_rows / lanes / (4 * task.n_threads);
  const int64_t totals = int64_t(task.n_totals) * lanes * int64_t(sizeof(double));
  // Trees come output by output, and so do their totals.
  const int64_t fit = std::min(kCache * task.n_outputs / (totals * task.width), kMemory / totals);
  return int(std::clamp(std::min(n_blocks, fit), int64_t(1), kMost));
}

template <class Real>
static ExplanationTarget<Real> target_of(const Result& out, bool interactions) {
  const size_t output_axis = interactions ? 3 : 2;
  return {static_cast<Real*>(out.data()), out.stride(0), out.stride(1), interactions ? out.stride(2) : 0,
          out.ndim() > output_axis ? out.stride(output_axis) : 0};
}

template <class Real>
static void check_result(const ExplainTask<Real>& task, const Result& out, bool interactions) {
  std::vector<int64_t> expected{task.rows.n_rows, interactions ? task.n_selected : task.n_players};
  if (interactions) expected.push_back(task.n_players);
  if (out.ndim() == expected.size() + 1) expected.push_back(task.n_outputs);
  bool fits = out.ndim() == expected.size() && (task.n_outputs == 1 || out.ndim() == (interactions ? 4u : 3u));
  for (size_t axis = 0; fits && axis < expected.size(); ++axis) fits = int64_t(out.shape(axis)) == expected[axis];
  if (!fits) throw nb::value_error("the result has the wrong shape");
}

template <class Real>
static void run(ExplainTask<Real>& task, const Result& out, bool interactions) {
  check_result(task, out, interactions);
  task.double_out = out.dtype() == nb::dtype<double>();
  if (task.double_out)
    task.out64 = target_of<double>(out, interactions);
  else if (out.dtype() == nb::dtype<float>())
    task.out32 = target_of<float>(out, interactions);
  else
    throw nb::type_error("the result must be float32 or float64");
  task.n_blocks = blocks_together(task, explain_kernels<Real>().lanes);
  const int64_t rows_together = (interactions ? 1 : task.n_blocks) * explain_kernels<Real>().lanes;
  const int64_t n_tasks = (task.rows.n_rows + rows_together - 1) / rows_together;
  task.n_threads = useful_threads(double(2 * n_tasks - 1), task.n_threads);
  task.workspace_size = explain_kernels<Real>().workspace(task, interactions);
  const Workspace workspace(task.workspace_size * task.n_threads);
  task.workspace = workspace.data();
  run_interruptibly([&] {
    const BorrowedTeam threads(task.n_threads);
    task.team = threads.team();
    (interactions ? explain_kernels<Real>().interactions : explain_kernels<Real>().values)(task);
  });
}

template <class Real>
static void bind_plan(nb::module_& module, const char* name) {
  using Plan = ExplainPlan<Real>;
  nb::class_<Plan>(module, name, "A forest's splits laid out for explanations.")
      .def(
          "__init__",
          [](Plan* self, nb::handle forest, const Vector<int32_t>& player_of, bool interactions) {
            const ForestView given = view_of(forest);
            new (self) Plan(plan_explanation<Real>(given, players_of(view(player_of), given.n_features), interactions));
          },
          nb::arg("forest"), nb::arg("player_of"), nb::arg("interactions"))
      .def_prop_ro(
          "expected_value", [](const Plan& plan) { return to_numpy(std::vector<double>(plan.expected_value)); },
          nb::rv_policy::move)
      .def(
          "values",
          [](const Plan& plan, const RowMatrix& rows, const Result& out, int n_threads) {
            ExplainTask<Real> task = task_of(plan, rows, n_threads);
            run(task, out, false);
          },
          nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"),
          "SHAP values, (n, P) or (n, P, n_outputs) of P players.")
      .def(
          "interactions",
          [](const Plan& plan, const RowMatrix& rows, Vector<int32_t> selected, const Result& out, int n_threads) {
            if (!plan.interactions) throw nb::value_error("the plan was built without interactions");
            ExplainTask<Real> task = task_of(plan, rows, n_threads);
            if (int64_t(selected.size()) != task.n_players) throw nb::value_error("selected has the wrong length");
            task.selected = selected.data();
            for (const int32_t rank : view(selected)) task.n_selected = std::max(task.n_selected, rank + 1);
            run(task, out, true);
          },
          nb::arg("rows"), nb::arg("selected"), nb::arg("out"), nb::arg("n_threads"),
          "Interactions, (n, m, P) or (n, m, P, n_outputs); selected[p] is player p's place among the m, or -1.");
}

template <class Real>
static void bind_row_trees(nb::module_& module, const char* name) {
  nb::class_<RowTrees<Real>>(module, name, "A forest's splits laid out for the explanation of one row.")
      .def(
          "__init__",
          [](RowTrees<Real>* self, nb::handle forest, const Vector<int32_t>& player_of, int n_threads) {
            const ForestView given = view_of(forest);
            new (self) RowTrees<Real>(given, players_of(view(player_of), given.n_features), n_threads);
          },
          nb::arg("forest"), nb::arg("player_of"), nb::arg("n_threads"));
}

void bind_explain(nb::module_& module) {
  bind_row_trees<float>(module, "RowTrees32");
  bind_row_trees<double>(module, "RowTrees64");
  bind_plan<float>(module, "ExplainPlan32");
  bind_plan<double>(module, "ExplainPlan64");
}

}  // namespace glasswood
