// A forest's subtree tables: what is kept, what is built anew for each call, and what single rows need.
#pragma once
#include "explain/tables/rebuilt.h"

namespace glasswood {

struct TableOptions {
  int64_t table_bytes;
  bool forced, of_pairs, for_row;
  TableGame game;
};

template <class Real>
class SubtreeTables {
 public:
  SubtreeTables(const ForestView& forest, const Players& players, const TableOptions& options, int n_threads)
      : SubtreeTables(forest, players.n, options, ForestCodes(forest, players, true), n_threads) {}

  // Tables of the same plan, to be filled anew.
  explicit SubtreeTables(const SubtreeTables& other)
      : game_(other.game_),
        kept_(std::make_unique<PlannedTables<Real>>(*other.kept_)),
        rebuilt_(other.rebuilt_ ? std::make_unique<RebuiltTables<Real>>(*other.rebuilt_) : nullptr) {}

  const TablePlan& plan() const { return kept_->plan(); }
  int64_t plan_bytes() const { return plan().n_bytes() + (rebuilt_ ? rebuilt_->plan_bytes() : 0); }
  int64_t n_subtrees() const { return int64_t(plan().subtrees.size()) + n_rebuilt(); }
  int64_t n_rebuilt() const { return rebuilt_ ? rebuilt_->n_subtrees() : 0; }
  int64_t n_bytes() const { return table_size() + (rebuilt_ ? rebuilt_->n_bytes() : 0); }
  // Whether all of its trees have tables that are kept.
  bool is_whole() const { return !rebuilt_; }

  // From the covers.
  void build(int n_threads) {
    allocate();
    if (game_ == TableGame::kLeafCovers)
      kept_->fill_by_shares(kept_->all(), table(), n_threads);
    else
      kept_->fill_by_covers(kept_->all(), table(), n_threads);
  }

  // From background rows: each has the share weight / total, which may be negative.
  void build_background(const RowSource& rows, std::span<const int64_t> weight, int64_t total, int n_threads) {
    constexpr int64_t kStatesTogether = 1 << 22;
    allocate();
    CountedRows counted(rows, weight);
    for (const ChunkRange& range : kept_->ranges(kStatesTogether)) {
      const StateCounts count = kept_->count(range, counted, n_threads);
      kept_->fill_by_counts(range, count, double(total), kept_->all(), table(), n_threads);
    }
    if (rebuilt_) rebuilt_->count(counted, total, n_threads);
  }

  // Whether tables against a background have as many entries as so few rows look up.
  bool has_few(int64_t n_rows) const {
    const int64_t n_entries = plan().n_vectors + (rebuilt_ ? rebuilt_->planned().plan().n_vectors : 0);
    return game_ == TableGame::kBackground && n_rows > 0 && n_rows * n_subtrees() <= n_entries;
  }

  // As `pass` after `build_background`, of tables that hold the entries alone that the rows look up and that are not
  // kept.
  void pass_against(PassTask<Real>& task, const RowSource& rows, std::span<const int64_t> weight, int64_t total,
                    int n_threads) const {
    CountedRows counted(rows, weight);
    pass_counted(*kept_, task, counted, total, n_threads);
    if (!rebuilt_) return;
    task.adds = true;
    pass_counted(rebuilt_->planned(), task, counted, total, n_threads);
  }

  // `task` has the rows, the target and whether to add.
  void pass(PassTask<Real>& task, int n_threads) const {
    kept_->pass(task, table(), n_threads);
    if (rebuilt_) rebuilt_->pass(task, n_threads);
  }

  int32_t n_players() const { return kept_->forest().n_players; }
  int32_t n_features() const { return int32_t(kept_->forest().coding.flags.size()); }
  int32_t n_outputs() const { return kept_->forest().n_outputs; }
  bool row_is_double() const { return kept_->forest().coding.ranked; }
  bool of_pairs() const { return kept_->of_pairs(); }

 private:
  template <class>
  friend class RowMemory;
  static constexpr int64_t kBatchBytes = 1 << 20;  // of a thread, which stay in the second-level cache

  TableGame game_;
  std::unique_ptr<PlannedTables<Real>> kept_;
  std::unique_ptr<RebuiltTables<Real>> rebuilt_;
  std::unique_ptr<TableMemory> table_;

  SubtreeTables(const ForestView& forest, int32_t n_players, const TableOptions& options, ForestCodes codes,
                int n_threads)
      : game_(options.game) {
    const BorrowedTeam threads(n_threads);
    CutCosts costs = options.of_pairs ? pair_costs() : cpu_costs();
    if (game_ == TableGame::kCovers && (codes.has_groups || options.of_pairs)) game_ = TableGame::kLeafCovers;
    if (game_ == TableGame::kLeafCovers && codes.has_groups) costs = group_costs(costs);
    PlanOptions planned{options.table_bytes, int32_t(sizeof(Real)), options.forced, costs};
    planned.game = game_, planned.for_row = options.for_row;
    TablePlanner planner(codes, planned, threads.team());
    const auto shared =
        std::make_shared<const TableForest<Real>>(forest, n_players, game_ == TableGame::kBackground, std::move(codes));
    kept_ = std::make_unique<PlannedTables<Real>>(shared, planner.take());
    TablePlan rebuilt = planner.take_rebuilt();
    if (rebuilt.subtrees.empty()) return;
    rebuilt_ = std::make_unique<RebuiltTables<Real>>(PlannedTables<Real>(shared, std::move(rebuilt)),
                                                     TablePlanner::batch_bytes(options.table_bytes));
  }

  static void pass_counted(const PlannedTables<Real>& planned, PassTask<Real>& task, CountedRows& rows, int64_t total,
                           int n_threads) {
    const std::vector<ChunkRange> ranges = planned.ranges(kBatchBytes * n_threads / planned.vector_bytes());
    if (ranges.empty()) return planned.pass(task, nullptr, n_threads);
    int64_t most = 0;
    for (const ChunkRange& range : ranges) most = std::max(most, range.n_vectors);
    const Workspace memory(most * planned.vector_bytes());
    Real* table = reinterpret_cast<Real*>(memory.data());
    planned.pass_ranges(task, ranges, table, n_threads, [&](const ChunkRange& range) {
      const StateCounts count = planned.count(range, rows, n_threads);
      const std::vector<uint16_t> keys = planned.keys(task, range, n_threads);
      planned.fill_by_counts(range, count, double(total), range, table, n_threads, keys.data(), task.rows.n_rows);
    });
  }

  int64_t table_size() const { return plan().n_vectors * kept_->vector_bytes(); }
  void allocate() { table_ = std::make_unique<TableMemory>(table_size()); }
  Real* table() const { return reinterpret_cast<Real*>(table_->data()); }
};

}  // namespace glasswood
