// A forest's subtree tables: the plan, the tables once they are built, and what rows need to pass.
#pragma once
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <memory>

#include "common/instruction_set.h"
#include "common/threads/borrowed_team.h"
#include "common/workspace.h"
#include "explain/cpu/quadrature.h"
#include "explain/tables/kernels.h"
#include "explain/tables/leaves.h"
#include "explain/tables/planner.h"

namespace silva {

SILVA_KERNEL_TABLES(TableKernels, tables)

template <class Real>
const TypedTableKernels<Real>& table_kernels() {
  const TableKernels& table = *tables_tables[int(instruction_set())];
  if constexpr (sizeof(Real) == sizeof(float))
    return table.single;
  else
    return table.twice;
}

// Gauss-Legendre points for each number of them, as BuildTask has them.
inline std::vector<double> points_of_subtrees() {
  std::vector<double> result(kMostPoints * 2 * kMostPoints, 0.0);
  for (int n = 1; n <= kMostPoints; ++n) {
    const std::vector<double> points = gauss_legendre(n);
    double* to = result.data() + (n - 1) * 2 * kMostPoints;
    std::copy(points.begin(), points.begin() + n, to);
    std::copy(points.begin() + n, points.end(), to + kMostPoints);
  }
  return result;
}

// Memory of the tables in large pages where the system has them: rows look them up in any order.
class TableMemory {
 public:
  explicit TableMemory(int64_t size) : memory_(::operator new(size, std::align_val_t(kPage))) {
#ifdef __linux__
    madvise(memory_, size, MADV_HUGEPAGE);
#endif
  }
  ~TableMemory() { ::operator delete(memory_, std::align_val_t(kPage)); }
  TableMemory(const TableMemory&) = delete;
  TableMemory& operator=(const TableMemory&) = delete;
  void* data() const { return memory_; }

 private:
  static constexpr size_t kPage = 2 << 20;
  void* memory_;
};

template <class Real>
class SubtreeTables {
 public:
  SubtreeTables(const ForestView& forest, int64_t table_bytes, bool forced, int n_threads)
      : n_outputs_(forest.n_outputs()), leaf_value_(weighted_leaves(forest, sizeof(Real) == sizeof(float))) {
    ForestCodes codes(forest);
    const BorrowedTeam threads(n_threads);
    plan_ = TablePlanner(codes, {table_bytes, int32_t(sizeof(Real)), forced, {}}, threads.team()).take();
    columns_ = std::move(codes.columns);
    thresholds_ = std::move(codes.thresholds);
    coding_ = std::make_unique<Coding>(std::move(codes.coding));
  }

  const TablePlan& plan() const { return plan_; }
  int64_t n_bytes() const { return plan_.n_vectors * plan_.width * plan_.lanes * int64_t(sizeof(Real)); }

  void build(int n_threads) {
    static const std::vector<double> points = points_of_subtrees();
    table_ = std::make_unique<TableMemory>(n_bytes());
    BuildTask<Real> task{};
    task.plan = arrays();
    task.leaf_value = leaf_value_.data();
    task.points = points.data();
    task.n_chunks = task.plan.n_chunks;
    task.table = reinterpret_cast<Real*>(table_->data());
    task.n_vectors = plan_.n_vectors;
    task.workspace_size = table_kernels<Real>().build_workspace(task);
    const Workspace workspace(task.workspace_size * n_threads);
    task.workspace = workspace.data();
    const BorrowedTeam threads(n_threads);
    task.team = threads.team();
    table_kernels<Real>().build(task);
  }

  // `task` has the rows, the target and whether to add.
  void pass(PassTask<Real>& task, int n_threads) const {
    task.plan = arrays();
    task.columns = columns_.data();
    task.thresholds = thresholds_.data();
    task.n_columns = int32_t(columns_.size());
    task.n_outputs = n_outputs_;
    task.coding = coding_->view();
    task.table = reinterpret_cast<const Real*>(table_->data());
    task.n_vectors = plan_.n_vectors;
    task.n_chunks = task.plan.n_chunks;
    task.rows_together = rows_together(task, n_threads);
    const int64_t n_tasks = (task.rows.n_rows + task.rows_together - 1) / task.rows_together;
    n_threads = useful_threads(double(2 * n_tasks - 1), n_threads);
    task.workspace_size = table_kernels<Real>().pass_workspace(task);
    const Workspace workspace(task.workspace_size * n_threads);
    task.workspace = workspace.data();
    const BorrowedTeam threads(n_threads);
    task.team = threads.team();
    table_kernels<Real>().pass(task);
  }

  int32_t n_features() const { return int32_t(coding_->flags.size()); }
  int32_t n_outputs() const { return n_outputs_; }

 private:
  int32_t n_outputs_;
  std::vector<double> leaf_value_;
  TablePlan plan_;
  std::vector<CodeColumn> columns_;
  std::vector<float> thresholds_;
  std::unique_ptr<Coding> coding_;
  std::unique_ptr<TableMemory> table_;

  // Sums of a block of rows stay in the second-level cache beside a chunk's tables; every thread gets its share.
  int32_t rows_together(const PassTask<Real>& task, int n_threads) const {
    constexpr int64_t kBytes = 5 << 18, kTile = 512, kLeast = 32;
    const int64_t n_slots = plan_.is_wide ? task.n_columns : plan_.lanes;
    const int64_t most = std::max(kTile, kBytes / int64_t(n_slots * sizeof(double)) / kTile * kTile);
    const int64_t share = (task.rows.n_rows + n_threads - 1) / n_threads;
    const int64_t n_blocks = (share + most - 1) / most;
    const int64_t even = n_blocks ? (share + n_blocks - 1) / n_blocks : kLeast;
    return int32_t(std::max(kLeast, (even + kLeast - 1) / kLeast * kLeast));
  }

  TableArrays arrays() const {
    return {plan_.subtrees.data(), plan_.splits.data(),          plan_.cells.data(),  plan_.bits.data(),
            plan_.factors.data(),  plan_.steps.data(),           plan_.chunks.data(), plan_.slot_column.data(),
            plan_.n_vectors,       int32_t(plan_.chunks.size()), plan_.lanes,         plan_.is_wide,
            plan_.width,           plan_.most_subtrees,          plan_.most_x,        plan_.most_shared,
            plan_.most_above};
  }
};

}  // namespace silva
