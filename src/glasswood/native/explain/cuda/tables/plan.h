// The plan of subtree tables (explain/tables/plan.h) as the kernels of a GPU read it.
#pragma once
#include <limits>

#include "explain/cuda/tables/keys.h"
#include "explain/cuda/tables/ordered.h"
#include "explain/leaves.h"
#include "explain/tables/leaf_games/cell_conditions.h"

namespace glasswood {

// How a forest is cut for GPUs: figures of an H200, whose rows cost least, with tables that are kept.
inline CutCosts gpu_costs(int32_t real_bytes) {
  CutCosts costs;
  costs.n_rows = 4000;
  costs.add = 0.8;
  costs.step = 0.02;
  costs.state = 3;
  costs.cell = 5;
  costs.walk = 0.26;
  costs.most_states = 1024;
  costs.most_numbers = real_bytes == 4 ? 8192 : 4096;
  costs.most_cells = real_bytes == 4 ? 440 : 220;
  costs.narrow = kNarrowSlots;
  return costs;
}

// Each thread of a multiprocessor has two rows and their sums; two blocks of these tables fit there.
inline PointCosts gpu_point_costs(int32_t real_bytes) {
  return {0.95, 0.27, 0.1, 0.5, real_bytes == 4 ? 6144.0 : 3072.0};
}

// The same of interactions: a vector is what eight threads read at once, an entry of up to 7 features. Tables
// whose place nothing takes may exceed shared memory.
inline CutCosts gpu_pair_costs(int32_t real_bytes, bool is_whole) {
  CutCosts costs = gpu_costs(real_bytes);
  costs.pair_lanes = 32;
  costs.most_lanes = 10;
  costs.add = 0.4, costs.vector = 1.8;
  costs.state = 40, costs.cell = 20;
  costs.walk = 1.4;
  costs.total = 0.8;
  costs.most_numbers = is_whole ? 65536 : 16384;
  return costs;
}

// Subtrees whose keys are found before any of their tables is read, and chunks that one launch adds up. Tables that
// exceed the budget are built anew for each batch of rows.
struct TableBatch {
  int64_t first_subtree, n_subtrees, first_chunk = 0, n_chunks = 0;
  bool is_kept;
  bool is_narrow;    // of values: entries have a number for each slot of their chunk
  int64_t n_quads;   // of 16 bytes that a thread of explain/cuda/tables/add_pairs.cu has of each entry
  int64_t n_points;  // of tables by points, else 0
  int64_t most_stage_numbers = 0, most_stage_subtrees = 0, most_slots = 0;
};

struct GpuTableArrays {
  // Columns of codes, for glasswood/cuda/encoder.py.
  std::vector<int32_t> column_feature;
  std::vector<int64_t> column_offsets;
  std::vector<double> column_thresholds;
  int32_t missing_code = 0;
  bool is_packed = false;
  // The build.
  std::vector<TableSubtree> subtrees;
  UnsetVector<SubtreeSplit> splits;
  UnsetVector<Cell> cells;
  UnsetVector<PathFactor> factors;
  UnsetVector<uint16_t> bits;
  std::vector<double> leaves;
  std::vector<int32_t> n_points;
  std::vector<int64_t> build_units;  // numbers of a subtree's workspace, by quadrature point
  // The build by leaves.
  UnsetVector<SubtreeLeaf> leaves_of_subtrees;
  UnsetVector<uint8_t> leaf_lanes;
  UnsetVector<double> leaf_shares;
  UnsetVector<uint16_t> unmet;           // [cell of a leaf's subtree]
  std::vector<int64_t> leaf_game_bytes;  // of a subtree's workspace
  int64_t n_states = 0;                  // of all subtrees
  int32_t most_states = 0;               // of one
  std::vector<TableBatch> batches;
  int64_t kept_size = 0,
          built_size = 0;  // numbers of one component: of all kept tables, of the largest batch of others
  // Rows.
  std::vector<KeyHead> heads;
  std::vector<KeyEntry> entries;
  std::vector<TableRecord> records;
  std::vector<TableStage> stages;
  std::vector<StageChunk> chunks;
  std::vector<int64_t> slot_keys;     // (output * n_players + p) * n_players + p
  std::vector<int32_t> walked_trees;  // as in explain/tables/plan.h
  std::vector<int64_t> cut_nodes;
};

struct GpuTableOptions {
  int64_t table_bytes;
  int32_t real_bytes;
  bool forced, of_pairs;
  bool is_whole;  // no walk can take the place of a table
  bool is_roomy;  // tables as large as keys have numbers, which rows read where they lie
  TableGame game;

  // Interactions are asked for few rows, for which nothing is built if a walk can take its place. Patterns take the
  // place of roomy tables: those of a full-depth forest take a hundred times as long to build as a hundred rows of
  // them.
  bool rebuilds() const { return !is_roomy && (!of_pairs || is_whole); }
};

class GpuTableWriter {
 public:
  GpuTableWriter(const ForestView& forest, const Players& players, const GpuTableOptions& options, const Team& team)
      : forest_(forest),
        n_players_(players.n),
        codes_(forest, players),
        costs_(costs_of(options)),
        per_quad_(16 / options.real_bytes),
        ordered_(order(options, costs_, team)),
        plan_(ordered_.plan) {
    if (ordered_.has_few_wide() || ordered_.has_few_by_points()) avoid_few(options, team);
    out_.leaves = WeightedLeaves(forest, options.real_bytes == 4, options.game == TableGame::kBackground).values;
    out_.walked_trees = plan_.walked_trees, out_.cut_nodes = plan_.cut_nodes;
    write_columns();
    write_keys();
    for (int32_t s = 0; s < ordered_.size(); ++s) write_subtree(s);
    out_.splits = std::move(plan_.splits), out_.cells = std::move(plan_.cells);
    out_.factors = std::move(plan_.factors), out_.bits = std::move(plan_.bits);
    write_unmet();
    out_.leaves_of_subtrees = std::move(plan_.leaves);
    out_.leaf_lanes = std::move(plan_.leaf_lanes), out_.leaf_shares = std::move(plan_.leaf_shares);
    fill_batches(options.is_roomy ? kAllNumbers : options.table_bytes / (options.real_bytes * plan_.width));
    for (TableBatch& batch : out_.batches) add_chunks(batch);
  }

  GpuTableArrays take() { return std::move(out_); }

 private:
  // Largest size of tables that are built anew, in budgets, or batches would not be worth their launches.
  static constexpr int64_t kBudgets = 128;
  static constexpr int64_t kAllNumbers = std::numeric_limits<int64_t>::max();
  static constexpr double kFewestSaved = 0.05;  // of the walk: less is not worth launches and memory
  static constexpr int32_t kBatchSubtrees = 1 << 16;
  static constexpr int64_t kNarrowStageBytes = 32 << 10, kWideStageBytes = 48 << 10, kPointStageBytes = 24 << 10;
  static constexpr int32_t kStageSubtrees = 4;
  static constexpr int32_t kGroup = 8;  // threads that share an entry of pairs

  const ForestView& forest_;
  int32_t n_players_;
  ForestCodes codes_;
  CutCosts costs_;
  int32_t per_quad_;  // numbers of 16 bytes
  OrderedPlan ordered_;
  TablePlan& plan_;
  GpuTableArrays out_;

  bool of_pairs() const { return costs_.of_pairs(); }

  CutCosts costs_of(const GpuTableOptions& options) const {
    CutCosts costs =
        options.of_pairs ? gpu_pair_costs(options.real_bytes, options.is_whole) : gpu_costs(options.real_bytes);
    if (options.is_roomy) {
      costs.most_states = kMostStates, costs.most_cells = 1e18;
      costs.most_numbers = double(options.table_bytes) / (double(options.real_bytes) * forest_.width);
    }
    if (options.of_pairs) return costs;
    if (OrderedPlan::may_have_sets(codes_)) costs.wide = 3;
    if (options.game == TableGame::kCovers) costs.points = gpu_point_costs(options.real_bytes);
    return costs;
  }

  OrderedPlan order(const GpuTableOptions& options, const CutCosts& costs, const Team& team) const {
    const int64_t budgets = options.rebuilds() ? kBudgets : 1;
    const int64_t most_bytes = std::min(options.table_bytes, INT64_MAX / budgets) * budgets;
    TablePlanner planner(codes_, {most_bytes, options.real_bytes, options.forced, costs, true, options.game}, team);
    OrderedPlan result(codes_, costs, planner.take());
    const bool pays = planner.pays(result.n_sums()) && planner.share_saved() > kFewestSaved;
    if (of_pairs() && !options.forced && !pays) result.walk_all();
    return result;
  }

  // Their launches cost more than the subtrees that take their place, if all trees keep tables.
  void avoid_few(const GpuTableOptions& options, const Team& team) {
    CutCosts costs = costs_;
    if (ordered_.has_few_wide()) costs.most_lanes = kNarrowSlots;
    if (ordered_.has_few_by_points()) costs.points = {};
    OrderedPlan other = order(options, costs, team);
    if (other.plan.walked_trees.size() > plan_.walked_trees.size()) return;
    ordered_ = std::move(other);
  }

  void write_keys() {
    KeyWriter keys(codes_, plan_);
    for (const Subtree& subtree : plan_.subtrees) keys.add(subtree);
    out_.is_packed = keys.is_packed, out_.missing_code = keys.missing_code;
    out_.heads = std::move(keys.heads), out_.entries = std::move(keys.entries);
  }

  void write_unmet() {
    int64_t n_unmet = 0;
    for (const Subtree& subtree : plan_.subtrees) n_unmet += int64_t(subtree.n_leaves) * subtree.n_cells;
    out_.unmet.resize(n_unmet);
    int64_t at = 0;
    for (const Subtree& subtree : plan_.subtrees)
      for (int32_t i = 0; i < subtree.n_leaves; ++i, at += subtree.n_cells) {
        SubtreeLeaf& leaf = plan_.leaves[subtree.first_leaf + i];
        multiply_out(plan_.unmet.data() + leaf.first_unmet, plan_.axis_states.data() + subtree.first_axis,
                     subtree.n_axes, out_.unmet.data() + at);
        leaf.first_unmet = at;
      }
    plan_.unmet = {};
  }

  // A category is a rank too: below are others and fractions that some sources truncate to 0, above others again.
  void write_columns() {
    out_.column_offsets.push_back(0);
    for (const CodeColumn& column : codes_.columns) {
      out_.column_feature.push_back(column.feature);
      auto& to = out_.column_thresholds;
      if (column.categories) {
        to.push_back(forest_.row_is_double ? std::nextafter(-1.0, 0.0) : double(std::nextafter(-1.0f, 0.0f)));
        for (int32_t category = 0; category <= column.categories; ++category) to.push_back(category);
      } else if (codes_.coding.ranked) {
        const auto& all = codes_.coding.thresholds;
        to.insert(to.end(), all.begin() + codes_.coding.first[column.feature],
                  all.begin() + codes_.coding.first[column.feature + 1]);
      } else {
        to.insert(to.end(), codes_.thresholds.begin() + column.first,
                  codes_.thresholds.begin() + column.first + column.n_codes - 1);
      }
      out_.column_offsets.push_back(int64_t(to.size()));
    }
  }

  void write_subtree(int32_t s) {
    const Subtree& subtree = plan_.subtrees[s];
    TableSubtree to{};
    to.first_split = subtree.first_split;
    to.first_factor = subtree.first_factor;
    to.first_bits = subtree.first_bits;
    to.n_cells = subtree.n_cells;
    to.n_above = subtree.n_above;
    to.n_shared = subtree.n_shared;
    to.n_splits = subtree.n_splits;
    to.leaf = subtree.leaf;
    to.n_lanes = subtree.n_lanes;
    to.n_built = subtree.by_points ? subtree.n_lanes - subtree.n_above : subtree.n_lanes;
    place_lanes(s, to);
    write_leaves(subtree, to);
    out_.subtrees.push_back(to);
    out_.n_points.push_back(std::max(subtree.n_points, subtree.by_points));
    out_.build_units.push_back(12 * subtree.n_splits + int64_t(std::max(subtree.n_x, 1)) * (to.n_built + 1));
  }

  // Where the numbers of a subtree's lanes stand: by slot of its chunk, or of wide ones in its own order.
  void place_lanes(int32_t s, TableSubtree& to) const {
    const bool is_wide = !of_pairs() && !ordered_.is_narrow(s);
    to.n_slots = of_pairs() ? int32_t(ordered_.chunk_of(s).players.size()) : is_wide ? to.n_lanes : kNarrowSlots;
    to.width = ((of_pairs() ? n_pairs(to.n_slots) : to.n_slots) + 3) / 4 * 4;
    if (plan_.subtrees[s].by_points) to.width = int32_t(point_entry(plan_.subtrees[s].by_points, to.n_built));
    std::fill(to.lane_of, to.lane_of + MOST_TABLE_LANES, static_cast<signed char>(-1));
    for (int32_t lane = 0; lane < to.n_lanes; ++lane)
      to.lane_of[is_wide ? lane : ordered_.slot_of(s, lane)] = static_cast<signed char>(lane);
  }

  void write_leaves(const Subtree& subtree, TableSubtree& to) {
    to.first_leaf = subtree.first_leaf;
    to.n_leaves = subtree.n_leaves;
    for (int32_t i = 0; i < subtree.n_leaves; ++i)
      to.most_positions = std::max(to.most_positions, plan_.leaves[subtree.first_leaf + i].n_positions);
    to.first_state = out_.n_states;
    out_.n_states += subtree.n_states;
    out_.most_states = std::max(out_.most_states, subtree.n_states);
    constexpr int64_t kNumber = sizeof(double);  // LeafSpace of build_background.cu
    const int64_t numbers = of_pairs() ? n_pairs(subtree.n_lanes) : subtree.n_lanes;
    const int64_t numbers_of_set = of_pairs() ? 6 : 4;
    out_.leaf_game_bytes.push_back(kNumber *
                                   (int64_t(subtree.n_states) * numbers + (numbers_of_set << to.most_positions)));
  }

  int64_t size_of(int32_t s) const {
    const Subtree& subtree = plan_.subtrees[s];
    const TableSubtree& to = out_.subtrees[s];
    if (subtree.by_points) return point_numbers(subtree.by_points, to.n_built, to.n_above, to.n_cells);
    return int64_t(subtree.n_states) * to.width;
  }
  int64_t n_quads(int32_t s) const { return ordered_.kind_of(s) * costs_.pair_lanes / (kGroup * per_quad_); }

  // Places all tables; `room` numbers for those of one component, half of it for batches if they exceed it.
  void fill_batches(int64_t room) {
    const int32_t n = ordered_.size();
    int64_t total = 0;
    for (int32_t s = 0; s < n; ++s) total += size_of(s);
    int64_t kept = total <= room ? total : room / 2, at = 0;
    bool is_kept = true;
    int32_t first = 0;
    const auto close = [&](int32_t end) {
      (is_kept ? out_.kept_size : out_.built_size) = std::max(is_kept ? out_.kept_size : out_.built_size, at);
      if (end > first)
        out_.batches.push_back({.first_subtree = first,
                                .n_subtrees = end - first,
                                .is_kept = is_kept,
                                .is_narrow = ordered_.is_narrow(first),
                                .n_quads = n_quads(first),
                                .n_points = plan_.subtrees[first].by_points});
      first = end;
    };
    for (int32_t s = 0; s < n; ++s) {
      const bool is_full = at + size_of(s) > (is_kept ? kept : room - kept);
      if (is_full || s - first == kBatchSubtrees || ordered_.kind_of(s) != ordered_.kind_of(first)) {
        close(s);
        is_kept &= !is_full;
        if (!is_kept) at = 0;
      }
      out_.subtrees[s].table = at;
      at += size_of(s);
    }
    close(n);
  }

  // A batch may end within a chunk.
  void add_chunks(TableBatch& batch) {
    const int32_t end = int32_t(batch.first_subtree + batch.n_subtrees);
    batch.first_chunk = int64_t(out_.chunks.size());
    for (int32_t first = int32_t(batch.first_subtree); first < end;) {
      const OrderedPlan::Chunk& chunk = ordered_.chunk_of(first);
      const int32_t stop = std::min(end, chunk.end);
      add_chunk(batch, chunk, first, stop);
      first = stop;
    }
    batch.n_chunks = int64_t(out_.chunks.size()) - batch.first_chunk;
  }

  void add_chunk(TableBatch& batch, const OrderedPlan::Chunk& chunk, int32_t first, int32_t end) {
    const int32_t first_stage = int32_t(out_.stages.size());
    for (int32_t s = first; s < end; ++s) {
      out_.records.push_back(record_of(s, int32_t(chunk.players.size())));
      add_to_stage(batch, s, s == first);
    }
    const int32_t n_stages = int32_t(out_.stages.size()) - first_stage;
    for (int32_t component = 0; component < plan_.width; ++component) {
      out_.chunks.push_back(
          {first_stage, n_stages, component, ordered_.n_sums(chunk), int64_t(out_.slot_keys.size()), 0});
      add_slot_keys(plan_.width > 1 ? component : plan_.subtrees[first].output, chunk.players);
    }
    batch.most_slots = std::max<int64_t>(batch.most_slots, ordered_.n_sums(chunk));
  }

  TableRecord record_of(int32_t s, int32_t n_slots) const {
    const TableSubtree& subtree = out_.subtrees[s];
    TableRecord record{subtree.table, subtree.width, subtree.n_lanes, {}, subtree.n_built, subtree.n_cells, 0, 0};
    record.per_cell = uint32_t(((int64_t(1) << 32) + subtree.n_cells - 1) / subtree.n_cells);
    std::fill(record.slot, record.slot + MOST_TABLE_LANES, n_slots);
    for (int32_t lane = 0; lane < subtree.n_lanes; ++lane) record.slot[lane] = int32_t(ordered_.slot_of(s, lane));
    return record;
  }

  // In the order of the chunk's sums.
  void add_slot_keys(int64_t output, const std::vector<int32_t>& players) {
    const int64_t n = n_players_;
    for (size_t i = 0; i < players.size(); ++i)
      for (size_t j = i; j < (of_pairs() ? players.size() : i + 1); ++j) {
        const int64_t a = codes_.players[players[i]], b = codes_.players[players[j]];
        out_.slot_keys.push_back((output * n + std::min(a, b)) * n + std::max(a, b));
      }
  }

  void add_to_stage(TableBatch& batch, int32_t s, bool is_first) {
    const int32_t n_numbers = int32_t(size_of(s));
    const int64_t bytes = plan_.subtrees[s].by_points ? kPointStageBytes
                          : ordered_.is_narrow(s)     ? kNarrowStageBytes
                                                      : kWideStageBytes;
    const int32_t room = int32_t(bytes / 16 * per_quad_);
    if (is_first || out_.stages.back().n_numbers + n_numbers > room || out_.stages.back().n_subtrees == kStageSubtrees)
      out_.stages.push_back({out_.subtrees[s].table, 0, s, 0, {}});
    TableStage& stage = out_.stages.back();
    stage.n_numbers += n_numbers;
    ++stage.n_subtrees;
    batch.most_stage_numbers = std::max<int64_t>(batch.most_stage_numbers, stage.n_numbers);
    batch.most_stage_subtrees = std::max<int64_t>(batch.most_stage_subtrees, stage.n_subtrees);
  }
};

}  // namespace glasswood
