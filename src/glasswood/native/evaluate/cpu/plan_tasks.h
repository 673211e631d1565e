// From a plan and rows to the task that the kernels take, all but its result, and its run on threads.
#pragma once
#include <algorithm>

#include "common/bindings.h"
#include "common/instruction_set.h"
#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"
#include "common/workspace.h"
#include "evaluate/cpu/nodes/plan.h"
#include "evaluate/cpu/plan.h"

namespace glasswood {

// Nanoseconds: a thread that has less to do than this costs more than it saves.
constexpr double kWorthwhile = 5e4;

// Parts of the rows that keep all threads busy to the end. A thread alone reads the forest once for all of them.
inline int64_t shares_of(int32_t n_threads) { return n_threads > 1 ? 4 * n_threads : 1; }

// tree_cost, column_cost: nanoseconds of a row.
template <class Task, class Plan>
Task begin_task(const Plan& plan, const RowSource& rows, int n_threads, double tree_cost, double column_cost,
                int64_t n_columns) {
  Task task{};
  task.forest = plan.view();
  task.coding = plan.coding.view();
  task.classes = plan.classes.view();
  task.rows = rows;
  task.linear = plan.linear.view();
  const double row_cost = tree_cost * task.forest.n_trees + column_cost * double(n_columns);
  task.n_threads = useful_threads(double(rows.n_rows) * row_cost / kWorthwhile, n_threads);
  return task;
}

inline EvaluateTask task_of(const EvaluatePlan& plan, const RowSource& rows, int n_threads) {
  constexpr int64_t kCache = 1 << 19;
  EvaluateTask task = begin_task<EvaluateTask>(plan, rows, n_threads, 7, 2, plan.coding.view().n_used);
  task.any_categorical = !plan.classes.empty();
  // As many tiles as keep all threads busy and their rows in the cache.
  const int64_t n_tiles = rows.n_rows / evaluate_kernels().row_tile / shares_of(task.n_threads);
  const int64_t bytes = int64_t(evaluate_kernels().row_tile) * (task.coding.n_features + 1) * int64_t(sizeof(float));
  task.tiles_together =
      int32_t(std::clamp(std::min(n_tiles, kCache / bytes), int64_t(1), int64_t(evaluate_kernels().max_tiles)));
  task.workspace_size = evaluate_kernels().workspace(task);
  return task;
}

inline NodeTask task_of(const NodePlan& plan, const RowSource& rows, int n_threads) {
  // More rows a leaf are faster for linear leaves (evaluate/cpu/linear), more rows a tree for its sets of
  // categories.
  const int64_t kFewestRows = plan.lane_splits.empty() ? 8 : 64, kMostRows = !plan.classes.empty() ? 1024
                                                                             : plan.linear.empty() ? 256
                                                                                                   : 512;
  NodeTask task = begin_task<NodeTask>(plan, rows, n_threads, 4, 2, plan.view().n_columns);
  task.in_place = plan.columns.as_they_lie && !rows.is_double && rows.feature_stride == 1;
  task.tile_rows = int32_t(
      std::clamp(rows.n_rows / shares_of(task.n_threads), std::clamp(rows.n_rows, int64_t(1), kFewestRows), kMostRows));
  if (linear_size(task.linear, task.tile_rows) > 0) task.tile_rows = int32_t(in_groups(task.tile_rows));
  task.workspace_size = node_kernels().workspace(task);
  return task;
}

inline void evaluate(const EvaluateTask& task) { evaluate_kernels().evaluate(task); }
inline void evaluate(const NodeTask& task) { node_kernels().evaluate(task); }

template <class T>
using ResultMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Fills `out`, the member `result` of the task, of `n_columns` columns.
template <class Task, class T>
void run(Task&& task, const ResultMatrix<T>& out, T* RowsTask::* result, int64_t n_columns) {
  if (int64_t(out.shape(0)) != task.rows.n_rows || int64_t(out.shape(1)) != n_columns)
    throw nb::value_error("the result has the wrong shape");
  task.*result = out.data();
  const Workspace workspace(task.workspace_size * task.n_threads);
  task.workspace = workspace.data();
  run_interruptibly([&] {
    const BorrowedTeam threads(task.n_threads);
    task.team = threads.team();
    evaluate(task);
  });
}

}  // namespace glasswood
