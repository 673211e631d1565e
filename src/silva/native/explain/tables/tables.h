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
#include "explain/leaves.h"
#include "explain/tables/kernels.h"
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
  SubtreeTables(const ForestView& forest, int64_t table_bytes, bool forced, bool of_pairs, int n_threads)
      : n_outputs_(forest.n_outputs()), leaf_value_(WeightedLeaves(forest, sizeof(Real) == sizeof(float)).values) {
    ForestCodes codes(forest);
    const BorrowedTeam threads(n_threads);
    const CutCosts costs = of_pairs ? pair_costs() : cpu_costs(codes.columns.size() > 8);
    plan_ = TablePlanner(codes, {table_bytes, int32_t(sizeof(Real)), forced, costs}, threads.team()).take();
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
    task.n_totals = int64_t(plan_.pairs.size()) * plan_.width;
    task.tile = tile_of(task);
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
  bool row_is_double() const { return coding_->ranked; }
  bool of_pairs() const { return plan_.content == TableContent::kPairs; }

 private:
  template <class>
  friend class RowMemory;

  int32_t n_outputs_;
  std::vector<double> leaf_value_;
  TablePlan plan_;
  std::vector<CodeColumn> columns_;
  std::vector<float> thresholds_;
  std::unique_ptr<Coding> coding_;
  std::unique_ptr<TableMemory> table_;

  static constexpr int64_t kMostTile = 512, kLeastTile = 32;

  // Of a row, of one output.
  int64_t n_totals(const PassTask<Real>& task) const {
    if (of_pairs()) return task.n_totals / n_outputs_ + 1;
    return plan_.is_wide ? task.n_columns : plan_.lanes;
  }

  // Totals of a tile stay in the first-level cache.
  int32_t tile_of(const PassTask<Real>& task) const {
    constexpr int64_t kBytes = 64 << 10;
    const int64_t rows = kBytes / (n_totals(task) * int64_t(sizeof(double))) / kLeastTile * kLeastTile;
    return int32_t(std::clamp(rows, kLeastTile, kMostTile));
  }

  // Sums of a block of rows stay in the second-level cache beside a group's tables; every thread gets its share.
  int32_t rows_together(const PassTask<Real>& task, int n_threads) const {
    constexpr int64_t kBytes = 5 << 18;
    const int64_t least = of_pairs() ? kMostTile / 2 : kMostTile;
    const int64_t most = std::max(least, kBytes / int64_t(n_totals(task) * sizeof(double)) / kMostTile * kMostTile);
    const int64_t share = (task.rows.n_rows + n_threads - 1) / n_threads;
    const int64_t n_blocks = (share + most - 1) / most;
    const int64_t even = n_blocks ? (share + n_blocks - 1) / n_blocks : kLeastTile;
    return int32_t(std::max(kLeastTile, (even + kLeastTile - 1) / kLeastTile * kLeastTile));
  }

  TableArrays arrays() const {
    return {plan_.subtrees.data(),
            plan_.splits.data(),
            plan_.cells.data(),
            plan_.bits.data(),
            plan_.factors.data(),
            plan_.steps.data(),
            plan_.chunks.data(),
            plan_.slot_column.data(),
            plan_.slot_pair.data(),
            plan_.pairs.data(),
            plan_.first_pair.data(),
            plan_.n_vectors,
            plan_.content,
            int32_t(plan_.chunks.size()),
            plan_.lanes,
            plan_.is_wide,
            plan_.width,
            plan_.most_subtrees,
            plan_.most_x,
            plan_.most_shared,
            plan_.most_above};
  }
};

// The steps of all subtrees side by side, and what a row needs on its way. The tables outlive it.
template <class Real>
class RowMemory {
 public:
  explicit RowMemory(const SubtreeTables<Real>& tables) : tables_(tables) {
    const TablePlan& plan = tables.plan();
    const int64_t n = int64_t(plan.subtrees.size()), n_blocks = (n + kRowLanes - 1) / kRowLanes;
    base_.assign(n_blocks * kRowLanes, 0);
    vector_.assign(n_blocks * kRowLanes, 0);
    first_step_.assign(1, 0);
    for (int64_t block = 0; block < n_blocks; ++block) add_block(plan, block * kRowLanes);
    const int64_t n_columns = int64_t(tables.columns_.size());
    encoded_.resize(tables.n_features());
    codes_.resize((n_columns + kRowLanes) / kRowLanes * kRowLanes);
    keys_.resize(n_blocks * kRowLanes);
    total_.resize(n_columns);
    values_.resize(int64_t(tables.n_features()) * tables.n_outputs());
    task_ = {tables.arrays(),    tables.columns_.data(), tables.thresholds_.data(),
             int32_t(n_columns), tables.n_outputs(),     tables.coding_->view(),
             steps_.data(),      first_step_.data(),     base_.data(),
             vector_.data(),     int32_t(n_blocks),      reinterpret_cast<const Real*>(tables.table_->data()),
             encoded_.data(),    codes_.data(),          keys_.data(),
             total_.data(),      values_.data()};
  }
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;

  void run(const RowSource& row) { table_kernels<Real>().row(task_, row); }
  const std::vector<Real>& values() const { return values_; }  // [feature][output]
  int64_t n_features() const { return tables_.n_features(); }
  int64_t n_outputs() const { return tables_.n_outputs(); }
  bool row_is_double() const { return tables_.row_is_double(); }

 private:
  const SubtreeTables<Real>& tables_;
  std::vector<RowStep> steps_;
  std::vector<int32_t> first_step_;
  std::vector<uint16_t> base_, keys_;
  std::vector<int64_t> vector_;
  std::vector<float> encoded_;
  std::vector<int16_t> codes_;
  std::vector<double> total_;
  std::vector<Real> values_;
  RowTask<Real> task_;

  void add_block(const TablePlan& plan, int64_t first) {
    const int64_t end = std::min<int64_t>(first + kRowLanes, int64_t(plan.subtrees.size()));
    int32_t most = 0;
    for (int64_t s = first; s < end; ++s) most = std::max(most, plan.subtrees[s].n_steps);
    const size_t at = steps_.size();
    steps_.resize(at + most, RowStep{});
    first_step_.push_back(int32_t(steps_.size()));
    for (int64_t s = first; s < end; ++s) {
      const Subtree& subtree = plan.subtrees[s];
      base_[s] = subtree.base;
      vector_[s] = subtree.first_vector;
      for (int32_t i = 0; i < subtree.n_steps; ++i) {
        const KeyStep& step = plan.steps[subtree.first_step + i];
        RowStep& to = steps_[at + i];
        to.column[s - first] = step.column, to.bound[s - first] = step.bound, to.weight[s - first] = step.weight;
      }
    }
  }
};

}  // namespace silva
