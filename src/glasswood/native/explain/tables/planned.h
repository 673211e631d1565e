// A plan of subtree tables with its forest, and the kernels that fill and read the tables of some of its chunks.
#pragma once
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <memory>
#include <numeric>

#include "common/instruction_set.h"
#include "common/threads/borrowed_team.h"
#include "common/workspace.h"
#include "explain/cpu/quadrature.h"
#include "explain/leaves.h"
#include "explain/tables/kernels.h"
#include "explain/tables/planner.h"

namespace glasswood {

GLASSWOOD_KERNEL_TABLES(TableKernels, tables)

template <class Real>
const TypedTableKernels<Real>& table_kernels() {
  const TableKernels& table = kernels_of(tables_tables);
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

// What tables of a forest share, whichever of its trees they hold.
template <class Real>
struct TableForest {
  int32_t n_outputs;
  std::vector<double> leaf_value;
  std::vector<CodeColumn> columns;
  std::vector<float> thresholds;
  std::vector<uint16_t> category_codes;
  Coding coding;
  int32_t n_players;             // of a result
  std::vector<int32_t> players;  // as ForestCodes::players

  TableForest(const ForestView& forest, int32_t n_players, bool has_background, ForestCodes&& codes)
      : n_outputs(forest.n_outputs()),
        leaf_value(WeightedLeaves(forest, sizeof(Real) == sizeof(float), has_background).values),
        columns(std::move(codes.columns)),
        thresholds(std::move(codes.thresholds)),
        category_codes(std::move(codes.category_codes)),
        coding(std::move(codes.coding)),
        n_players(n_players),
        players(std::move(codes.players)) {}
};

// Consecutive chunks and their vectors.
struct ChunkRange {
  int32_t first_chunk, n_chunks;
  int64_t first_vector, n_vectors;
};

// Background rows, whose codes are kept from one range of chunks to the next if they are few enough, and how often they
// are in each state of the latest range: fresh memory costs more than the counts.
struct CountedRows {
  RowSource rows;
  std::span<const int64_t> weight;
  bool is_few;  // whether counts have 16 bits
  std::vector<int16_t> codes = {};
  UnsetVector<uint16_t> few = {};
  UnsetVector<int64_t> many = {};

  CountedRows(const RowSource& rows, std::span<const int64_t> weight) : rows(rows), weight(weight) {
    constexpr uint64_t kMost = std::numeric_limits<uint16_t>::max();
    uint64_t sum = 0;
    for (size_t i = 0; i < weight.size() && sum <= kMost; ++i)
      sum += weight[i] < 0 ? kMost + 1 : std::min<uint64_t>(weight[i], kMost + 1);
    is_few = sum <= kMost;
  }

  // Numbers of n states that are in no order.
  StateCounts make_room(int64_t n) {
    if (is_few)
      few.resize(n);
    else
      many.resize(n);
    return counts();
  }
  StateCounts counts() { return {is_few ? few.data() : nullptr, is_few ? nullptr : many.data()}; }
};

// A plan with its forest, which copies share: runs the kernels on some of its chunks.
template <class Real>
class PlannedTables {
 public:
  PlannedTables(std::shared_ptr<const TableForest<Real>> forest, TablePlan plan)
      : forest_(std::move(forest)), plan_(std::make_shared<const TablePlan>(std::move(plan))) {}

  const TablePlan& plan() const { return *plan_; }
  const TableForest<Real>& forest() const { return *forest_; }
  int64_t vector_bytes() const { return int64_t(plan_->width) * plan_->lanes * int64_t(sizeof(Real)); }
  ChunkRange all() const { return {0, int32_t(plan_->chunks.size()), 0, plan_->n_vectors}; }

  // Ranges of at most `most_vectors` vectors, a chunk at least.
  std::vector<ChunkRange> ranges(int64_t most_vectors) const {
    std::vector<ChunkRange> result;
    for (int32_t c = 0; c < int32_t(plan_->chunks.size()); ++c) {
      const TableChunk& chunk = plan_->chunks[c];
      if (result.empty() || result.back().n_vectors + chunk.n_vectors > most_vectors)
        result.push_back({c, 0, chunk.first_vector, 0});
      ++result.back().n_chunks;
      result.back().n_vectors += chunk.n_vectors;
    }
    return result;
  }

  // Path-dependent tables of a range of chunks. `keys` are those of `n_rows` rows, [subtree of the range][row]: states
  // that none of them is in are left out; null: all states.
  void fill_by_covers(const ChunkRange& range, Real* table, int n_threads, const uint16_t* keys = nullptr,
                      int64_t n_rows = 0) const {
    BuildTask<Real> task{};
    task.keys = keys;
    task.n_rows = int32_t(keys ? n_rows : 0);
    fill(task, range, range, table, table_kernels<Real>().build_workspace, table_kernels<Real>().build, n_threads);
  }

  // The same of games by leaves.
  void fill_by_shares(const ChunkRange& range, Real* table, int n_threads) const {
    LeafGameTask<Real> task{};
    fill(task, range, range, table, table_kernels<Real>().leaf_game_workspace, table_kernels<Real>().build_leaf_game,
         n_threads);
  }

  // Tables of a range of chunks; `table` holds those of `held`. Keys as of covers.
  void fill_by_counts(const ChunkRange& range, const StateCounts& count, double total, const ChunkRange& held,
                      Real* table, int n_threads, const uint16_t* keys = nullptr, int64_t n_rows = 0) const {
    LeafGameTask<Real> task{};
    task.keys = keys;
    task.n_rows = int32_t(keys ? n_rows : 0);
    task.count = count;
    task.first_count = range.first_vector;
    task.total = total;
    fill(task, range, held, table, table_kernels<Real>().leaf_game_workspace, table_kernels<Real>().build_leaf_game,
         n_threads);
  }

  // The same of states that background rows are in, which those of the range's subtrees are.
  void fill_by_seen(const ChunkRange& range, const SeenCounts& seen, double total, Real* table, int n_threads,
                    const uint16_t* keys = nullptr, int64_t n_rows = 0) const {
    LeafGameTask<Real> task{};
    task.keys = keys;
    task.n_rows = int32_t(keys ? n_rows : 0);
    task.seen = seen;
    task.total = total;
    fill(task, range, range, table, table_kernels<Real>().leaf_game_workspace, table_kernels<Real>().build_leaf_game,
         n_threads);
  }

  // How often background rows, at least one, are in each state of the range's subtrees, each row by its weight.
  StateCounts count(const ChunkRange& range, CountedRows& of, int n_threads) const {
    const StateCounts counts = of.make_room(range.n_vectors);
    constexpr int64_t kRowsTogether = 1 << 15;
    const bool is_encoded = of.rows.n_rows <= kRowsTogether && !of.codes.empty();
    for (int64_t first = 0; first < of.rows.n_rows; first += kRowsTogether) {
      CountTask<Real> task{};
      RowSource& some = task.pass.rows = of.rows;
      some.n_rows = std::min(kRowsTogether, of.rows.n_rows - first);
      const int64_t real_bytes = of.rows.is_double ? sizeof(double) : sizeof(float);
      some.data = static_cast<const char*>(of.rows.data) + first * of.rows.row_stride * real_bytes;
      task.weight = of.weight.data() + first;
      task.count = counts;
      task.is_encoded = is_encoded;
      task.begins = first == 0;
      count_some(range, task, of.codes, n_threads);
    }
    return counts;
  }

  // `task` has the rows, the target and whether to add; `table` holds the tables of all chunks.
  void pass(PassTask<Real>& task, const Real* table, int n_threads) const {
    begin_pass(task, n_threads);
    set_range(task, all());
    task.table = table;
    task.begins = task.ends = true;
    n_threads = useful_threads(double(2 * task.n_tasks - 1), n_threads);
    task.workspace_size = table_kernels<Real>().pass_workspace(task);
    const Workspace workspace(task.workspace_size * n_threads);
    task.workspace = workspace.data();
    const BorrowedTeam threads(n_threads);
    task.team = threads.team();
    table_kernels<Real>().pass(task);
  }

  // The same where `table` holds one of the ranges at a time: `fill(range)` builds it. Meanwhile rows keep their codes
  // and totals, as many rows at a time as there is room for.
  template <class Fill>
  void pass_ranges(PassTask<Real>& task, std::span<const ChunkRange> ranges, const Real* table, int n_threads,
                   const Fill& fill) const {
    constexpr int64_t kBlockBytes = 64 << 20;
    begin_pass(task, n_threads);
    task.table = table;
    task.block_size = table_kernels<Real>().block_size(task);
    const int64_t n_tasks = task.n_tasks, together = std::max<int64_t>(kBlockBytes / task.block_size, n_threads);
    const Workspace blocks(task.block_size * std::min(together, n_tasks));
    task.blocks = blocks.data();
    task.workspace_size = table_kernels<Real>().pass_workspace(task);
    const Workspace workspace(task.workspace_size * n_threads);
    task.workspace = workspace.data();
    for (task.first_task = 0; task.first_task < n_tasks; task.first_task += together) {
      task.n_tasks = std::min(together, n_tasks - task.first_task);
      run(task, table_kernels<Real>().begin, n_threads);
      for (const ChunkRange& range : ranges) {
        set_range(task, range);
        fill(range);
        task.begins = false, task.ends = &range == &ranges.back();
        if (run(task, table_kernels<Real>().pass, n_threads)) return;
      }
    }
  }

  // Keys of the rows of a pass in a range's subtrees, [subtree][row].
  std::vector<uint16_t> keys(PassTask<Real>& task, const ChunkRange& range, int n_threads) const {
    std::vector<uint16_t> keys(n_subtrees(range) * task.rows.n_rows);
    const BorrowedTeam threads(n_threads);
    task.team = threads.team();
    table_kernels<Real>().find_keys(task, keys.data());
    return keys;
  }

  bool of_pairs() const { return plan_->content == TableContent::kPairs; }

  TableArrays arrays() const {
    return {
        .subtrees = plan_->subtrees.data(),
        .splits = plan_->splits.data(),
        .cells = plan_->cells.data(),
        .bits = plan_->bits.data(),
        .factors = plan_->factors.data(),
        .steps = plan_->steps.data(),
        .chunks = plan_->chunks.data(),
        .slot_player = plan_->slot_player.data(),
        .sum_total = plan_->sum_total.data(),
        .totals = plan_->totals.data(),
        .first_total = plan_->first_total.data(),
        .leaves = plan_->leaves.data(),
        .leaf_lanes = plan_->leaf_lanes.data(),
        .leaf_shares = plan_->leaf_shares.data(),
        .axis_states = plan_->axis_states.data(),
        .unmet = plan_->unmet.data(),
        .n_vectors = plan_->n_vectors,
        .most_patterns = plan_->most_patterns,
        .most_unmet = plan_->most_unmet,
        .content = plan_->content,
        .n_chunks = int32_t(plan_->chunks.size()),
        .lanes = plan_->lanes,
        .is_wide = plan_->is_wide,
        .width = plan_->width,
        .most_subtrees = plan_->most_subtrees,
        .most_x = plan_->most_x,
        .most_shared = plan_->most_shared,
        .most_above = plan_->most_above,
        .most_leaves = plan_->most_leaves,
        .most_states = plan_->most_states,
    };
  }

 private:
  static constexpr int64_t kFewestRows = 32, kBlockRows = 512, kLeastTile = 256, kMostTile = 1024;

  std::shared_ptr<const TableForest<Real>> forest_;
  std::shared_ptr<const TablePlan> plan_;

  template <class Task>
  void fill(Task& task, const ChunkRange& range, const ChunkRange& held, Real* table,
            int64_t (*workspace_of)(const Task&), void (*run)(const Task&), int n_threads) const {
    static const std::vector<double> points = points_of_subtrees();
    task.plan = arrays();
    task.leaf_value = forest_->leaf_value.data();
    task.points = points.data();
    task.first_chunk = range.first_chunk;
    task.n_chunks = range.n_chunks;
    task.table = table;
    task.first_vector = held.first_vector;
    task.n_vectors = held.n_vectors;
    task.workspace_size = workspace_of(task);
    const Workspace workspace(task.workspace_size * n_threads);
    task.workspace = workspace.data();
    const BorrowedTeam threads(n_threads);
    task.team = threads.team();
    run(task);
  }

  void count_some(const ChunkRange& range, CountTask<Real>& task, std::vector<int16_t>& codes, int n_threads) const {
    PassTask<Real>& pass = task.pass;
    describe(pass, range);
    pass.tile = kBlockRows;
    task.first_count = range.first_vector;
    codes.resize(forest_->columns.size() * ((pass.rows.n_rows + kBlockRows - 1) / kBlockRows * kBlockRows));
    task.codes = codes.data();
    pass.workspace_size = table_kernels<Real>().count_workspace(task);
    const Workspace workspace(pass.workspace_size * n_threads);
    pass.workspace = workspace.data();
    const BorrowedTeam threads(n_threads);
    pass.team = threads.team();
    table_kernels<Real>().count(task);
  }

  // What any pass of rows needs to know.
  void describe(PassTask<Real>& task, const ChunkRange& range) const {
    task.plan = arrays();
    task.columns = forest_->columns.data();
    task.thresholds = forest_->thresholds.data();
    task.category_codes = forest_->category_codes.data();
    task.n_columns = int32_t(forest_->columns.size());
    task.players = forest_->players.data();
    task.n_players = int32_t(forest_->players.size());
    task.n_result_players = forest_->n_players;
    task.n_outputs = forest_->n_outputs;
    task.coding = forest_->coding.view();
    task.first_chunk = range.first_chunk;
    task.n_chunks = range.n_chunks;
  }

  void begin_pass(PassTask<Real>& task, int n_threads) const {
    describe(task, all());
    const int64_t n_outputs = forest_->n_outputs;
    task.n_totals =
        plan_->is_wide ? int64_t(plan_->totals.size()) * plan_->width : lanes_of_totals(task.n_players) * n_outputs;
    task.rows_together = rows_together(task, n_threads);
    task.tile = tile_of(task);
    task.n_tasks = (task.rows.n_rows + task.rows_together - 1) / task.rows_together;
  }

  static void set_range(PassTask<Real>& task, const ChunkRange& range) {
    task.first_chunk = range.first_chunk, task.n_chunks = range.n_chunks;
    task.first_vector = range.first_vector, task.n_vectors = range.n_vectors;
  }

  // Whether the call is to end early.
  static bool run(PassTask<Real>& task, void (*kernel)(const PassTask<Real>&), int n_threads) {
    const BorrowedTeam threads(n_threads);
    task.team = threads.team();
    kernel(task);
    return has_ended(task.team, 0);
  }

  int64_t n_subtrees(const ChunkRange& range) const {
    const TableChunk *first = plan_->chunks.data() + range.first_chunk, *last = first + range.n_chunks - 1;
    return last->first_subtree + last->n_subtrees - first->first_subtree;
  }

  // Bytes of a row's totals, of one output.
  int64_t total_bytes(const PassTask<Real>& task) const {
    return (task.n_totals / forest_->n_outputs + 1) * int64_t(sizeof(double));
  }

  // Totals of a tile stay in a part of the second-level cache. Smaller tiles read each table more often.
  int32_t tile_of(const PassTask<Real>& task) const {
    constexpr int64_t kBytes = 160 << 10;
    const int64_t fitting = kBytes / total_bytes(task) / kLeastTile * kLeastTile;
    const int64_t all = (task.rows_together + kLeastTile - 1) / kLeastTile * kLeastTile;
    return int32_t(std::min(std::clamp(fitting, kLeastTile, kMostTile), all));
  }

  // Sums of a block of rows stay in the second-level cache beside a group's tables; every thread gets its share.
  int32_t rows_together(const PassTask<Real>& task, int n_threads) const {
    constexpr int64_t kBytes = 5 << 18;
    const int64_t least = of_pairs() ? kBlockRows / 2 : kBlockRows;
    const int64_t most = std::max(least, kBytes / total_bytes(task) / kBlockRows * kBlockRows);
    const int64_t share = (task.rows.n_rows + n_threads - 1) / n_threads;
    const int64_t n_blocks = (share + most - 1) / most;
    const int64_t even = n_blocks ? (share + n_blocks - 1) / n_blocks : kFewestRows;
    return int32_t(std::max(kFewestRows, (even + kFewestRows - 1) / kFewestRows * kFewestRows));
  }
};

}  // namespace glasswood
