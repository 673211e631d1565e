// From a plan and rows to the task that the kernels take, all but its result and its workspace.
#pragma once
#include <algorithm>

#include "common/tasks.h"
#include "evaluate/node_plan.h"
#include "evaluate/plan.h"

namespace silva {

// A thread that has less to do than this costs more than it saves.
inline int useful_threads(double nanoseconds, int n_threads) {
  constexpr double kWorthwhile = 5e4;
  return int(std::clamp(nanoseconds / kWorthwhile, 1.0, double(n_threads)));
}

inline EvaluateTask task_of(const EvaluatePlan& plan, const RowSource& rows, int n_threads) {
  constexpr int64_t kCache = 1 << 18;
  EvaluateTask task{};
  task.forest = plan.view();
  task.coding = plan.coding.view();
  task.rows = rows;
  constexpr double kTree = 7, kColumn = 2;  // nanoseconds of a row
  n_threads =
      useful_threads(double(rows.n_rows) * (kTree * task.forest.n_trees + kColumn * task.coding.n_used), n_threads);
  task.n_threads = n_threads;
  task.any_categorical = !plan.sets.empty();
  // As many tiles as keep all threads busy and their rows in the cache.
  const int64_t n_tiles = rows.n_rows / kernels().row_tile / (4 * n_threads);
  const int64_t bytes = int64_t(kernels().row_tile) * (task.coding.n_features + 1) * int64_t(sizeof(float));
  task.tiles_together =
      int32_t(std::clamp(std::min(n_tiles, kCache / bytes), int64_t(1), int64_t(kernels().max_tiles)));
  task.workspace_size = kernels().evaluate_workspace(task);
  return task;
}

inline NodeTask task_of(const NodePlan& plan, const RowSource& rows, int n_threads) {
  constexpr int64_t kFewestRows = 8, kMostRows = 256;
  NodeTask task{};
  task.forest = plan.view();
  task.coding = plan.coding.view();
  task.rows = rows;
  constexpr double kTree = 4, kColumn = 2;  // nanoseconds of a row
  n_threads =
      useful_threads(double(rows.n_rows) * (kTree * task.forest.n_trees + kColumn * task.forest.n_columns), n_threads);
  task.n_threads = n_threads;
  task.in_place = plan.columns.as_they_lie && !rows.is_double && rows.column_stride == 1;
  task.tile_rows =
      int32_t(std::clamp(rows.n_rows / (4 * n_threads), std::clamp(rows.n_rows, int64_t(1), kFewestRows), kMostRows));
  task.workspace_size = node_kernels().workspace(task);
  return task;
}

}  // namespace silva
