// A forest's subtree tables: what is kept, what is built anew for each call, and what single rows need.
#pragma once
#include "explain/tables/rebuilt.h"

namespace silva {

struct TableOptions {
  int64_t table_bytes;
  bool forced, of_pairs;
  TableGame game;
};

template <class Real>
class SubtreeTables {
 public:
  SubtreeTables(const ForestView& forest, const TableOptions& options, int n_threads)
      : SubtreeTables(forest, options, ForestCodes(forest), n_threads) {}

  const TablePlan& plan() const { return kept_->plan(); }
  int64_t n_subtrees() const { return int64_t(plan().subtrees.size()) + (rebuilt_ ? rebuilt_->n_subtrees() : 0); }
  int64_t n_bytes() const { return table_size() + (rebuilt_ ? rebuilt_->n_bytes() : 0); }
  // Whether all of its trees have tables that are kept.
  bool is_whole() const { return !rebuilt_; }

  // From the covers.
  void build(int n_threads) {
    allocate();
    kept_->fill_by_covers(table(), n_threads);
  }

  // From background rows: each has the share weight / total, which may be negative.
  void build_background(const RowSource& rows, std::span<const int64_t> weight, int64_t total, int n_threads) {
    constexpr int64_t kStatesTogether = 1 << 22;
    allocate();
    for (const ChunkRange& range : kept_->ranges(kStatesTogether))
      kept_->fill_by_counts(range, kept_->count(range, rows, weight, n_threads), double(total), kept_->all(), table(),
                            n_threads);
    if (rebuilt_) rebuilt_->count(rows, weight, total, n_threads);
  }

  // `task` has the rows, the target and whether to add.
  void pass(PassTask<Real>& task, int n_threads) const {
    kept_->pass(task, kept_->all(), table(), n_threads);
    if (rebuilt_) rebuilt_->pass(task, n_threads);
  }

  int32_t n_features() const { return int32_t(kept_->forest().coding.flags.size()); }
  int32_t n_outputs() const { return kept_->forest().n_outputs; }
  bool row_is_double() const { return kept_->forest().coding.ranked; }
  bool of_pairs() const { return kept_->of_pairs(); }

 private:
  template <class>
  friend class RowMemory;

  std::unique_ptr<PlannedTables<Real>> kept_;
  std::unique_ptr<RebuiltTables<Real>> rebuilt_;
  std::unique_ptr<TableMemory> table_;

  SubtreeTables(const ForestView& forest, const TableOptions& options, ForestCodes codes, int n_threads) {
    const BorrowedTeam threads(n_threads);
    const CutCosts costs = options.of_pairs ? pair_costs() : cpu_costs(codes.columns.size() > 8);
    PlanOptions planned{options.table_bytes, int32_t(sizeof(Real)), options.forced, costs};
    planned.game = options.game;
    TablePlanner planner(codes, planned, threads.team());
    const auto shared =
        std::make_shared<const TableForest<Real>>(forest, options.game == TableGame::kBackground, std::move(codes));
    kept_ = std::make_unique<PlannedTables<Real>>(shared, planner.take());
    TablePlan rebuilt = planner.take_rebuilt();
    if (rebuilt.subtrees.empty()) return;
    rebuilt_ = std::make_unique<RebuiltTables<Real>>(PlannedTables<Real>(shared, std::move(rebuilt)),
                                                     TablePlanner::batch_bytes(options.table_bytes));
  }

  int64_t table_size() const { return plan().n_vectors * kept_->vector_bytes(); }
  void allocate() { table_ = std::make_unique<TableMemory>(table_size()); }
  Real* table() const { return reinterpret_cast<Real*>(table_->data()); }
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
    const TableForest<Real>& forest = tables.kept_->forest();
    const int64_t n_columns = int64_t(forest.columns.size());
    encoded_.resize(tables.n_features());
    codes_.resize((n_columns + kRowLanes) / kRowLanes * kRowLanes);
    keys_.resize(n_blocks * kRowLanes);
    total_.resize(n_columns);
    values_.resize(int64_t(tables.n_features()) * tables.n_outputs());
    task_ = {
        tables.kept_->arrays(), forest.columns.data(), forest.thresholds.data(), int32_t(n_columns), tables.n_outputs(),
        forest.coding.view(),   steps_.data(),         first_step_.data(),       base_.data(),       vector_.data(),
        int32_t(n_blocks),      tables.table(),        encoded_.data(),          codes_.data(),      keys_.data(),
        total_.data(),          values_.data()};
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
