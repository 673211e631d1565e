// The plan of subtree tables (explain/tables/plan.h) as the kernels of a GPU read it.
#pragma once
#include "explain/cuda/tables/chunks.h"
#include "explain/cuda/tables/format.h"
#include "explain/leaves.h"
#include "explain/tables/planner.h"

namespace silva {

// How a forest is cut for GPUs: figures of an H200, whose rows cost least, with tables that are kept.
inline CutCosts gpu_costs(int32_t real_bytes) {
  CutCosts costs;
  costs.n_rows = 4000;
  costs.add = 0.8;
  costs.step = 0.02;
  costs.state = 3;
  costs.cell = 5;
  costs.walk = 0.16;
  costs.most_states = 1024;
  costs.most_numbers = real_bytes == 4 ? 8192 : 4096;
  costs.most_cells = real_bytes == 4 ? 440 : 220;
  return costs;
}

// Subtrees whose keys are found before any of their tables is read. Tables that exceed the budget are built anew for
// each batch of rows.
struct TableBatch {
  int64_t first_subtree, n_subtrees, first_chunk, n_chunks, is_kept;
};

struct GpuTableArrays {
  // Columns of codes, for silva/cuda/encoder.py.
  std::vector<int32_t> column_feature;
  std::vector<int64_t> column_offsets;
  std::vector<double> column_thresholds;
  int32_t missing_code = 0;
  bool is_packed = false, is_narrow = false;
  // The build.
  std::vector<TableSubtree> subtrees;
  std::vector<SubtreeSplit> splits;
  std::vector<Cell> cells;
  std::vector<PathFactor> factors;
  std::vector<uint16_t> bits;
  std::vector<double> leaves;
  std::vector<int32_t> n_points;
  std::vector<int64_t> build_units;  // numbers of a subtree's workspace, by quadrature point
  // The build with a background.
  std::vector<SubtreeLeaf> leaves_of_subtrees;
  std::vector<uint8_t> leaf_lanes;
  std::vector<uint16_t> unmet;
  std::vector<int64_t> background_bytes;  // of a subtree's workspace
  int64_t n_states = 0;                   // of all subtrees
  int32_t most_states = 0;                // of one
  std::vector<TableBatch> batches;
  int64_t kept_size = 0,
          built_size = 0;  // numbers of one component: of all kept tables, of the largest batch of others
  // Rows.
  std::vector<KeyHead> heads;
  std::vector<KeyEntry> entries;
  std::vector<TableRecord> records;
  std::vector<TableStage> stages;
  std::vector<StageChunk> chunks;
  std::vector<int64_t> slot_keys;  // (output * n_features + f) * n_features + f
  int32_t most_stage_numbers = 0, most_stage_subtrees = 0, most_slots = 0;
  std::vector<int32_t> walked_trees;  // as in explain/tables/plan.h
  std::vector<int64_t> cut_nodes;
};

class GpuTableWriter {
 public:
  GpuTableWriter(const ForestView& forest, int64_t table_bytes, int32_t real_bytes, bool forced, TableGame game,
                 const Team& team)
      : forest_(forest), codes_(forest), per_quad_(16 / real_bytes) {
    const int64_t most_bytes = std::min(table_bytes, INT64_MAX / kBudgets) * kBudgets;
    plan_ = TablePlanner(codes_, {most_bytes, real_bytes, forced, gpu_costs(real_bytes), true, game}, team).take();
    out_.is_narrow = codes_.columns.size() <= kNarrow;
    out_.is_packed = can_pack();
    out_.missing_code = out_.is_packed ? kInfiniteHalf : kMissingCode;
    out_.leaves = WeightedLeaves(forest, real_bytes == 4, game == TableGame::kBackground).values;
    out_.walked_trees = plan_.walked_trees, out_.cut_nodes = plan_.cut_nodes;
    write_columns();
    const std::vector<int32_t> ends = order_subtrees();
    for (const Subtree& subtree : plan_.subtrees) write_subtree(subtree);
    out_.splits = std::move(plan_.splits), out_.cells = std::move(plan_.cells);
    out_.factors = std::move(plan_.factors), out_.bits = std::move(plan_.bits);
    out_.leaves_of_subtrees = std::move(plan_.leaves);
    out_.leaf_lanes = std::move(plan_.leaf_lanes), out_.unmet = std::move(plan_.unmet);
    fill_batches(table_bytes / (real_bytes * plan_.width));
    for (TableBatch& batch : out_.batches) add_chunks(batch, ends);
  }

  GpuTableArrays take() { return std::move(out_); }

 private:
  static constexpr size_t kNarrow = 8;  // columns whose sums are registers (explain/cuda/tables/add_tables.cu)
  static constexpr int32_t kInfiniteHalf = 0x7c00, kPackedStates = 1024;
  // Tables that are built anew take up to so many budgets: batches are to be worth their launches.
  static constexpr int64_t kBudgets = 128;
  static constexpr int32_t kBatchSubtrees = 1 << 16;
  // Chunks fill a GPU with few rows; more subtrees of one chunk would lose digits of float32 sums.
  static constexpr double kChunks = 128, kFewestSubtrees = 8;
  static constexpr int32_t kChunkSubtrees = 192, kChunkSlots = 24, kOpenChunks = 64;
  static constexpr int64_t kNarrowStageBytes = 32 << 10, kWideStageBytes = 48 << 10;
  static constexpr int32_t kStageSubtrees = 4;

  struct Step {
    int32_t code, weight;
  };

  const ForestView& forest_;
  ForestCodes codes_;
  int32_t per_quad_;  // numbers of 16 bytes
  TablePlan plan_;
  GpuTableArrays out_;

  bool can_pack() const {
    for (const CodeColumn& column : codes_.columns)
      if (n_thresholds(column) + 1 >= kInfiniteHalf) return false;
    for (const Subtree& subtree : plan_.subtrees)
      if (subtree.n_states > kPackedStates) return false;
    return true;
  }

  static int32_t n_thresholds(const CodeColumn& column) {
    return column.categories ? column.categories + 2 : column.n_codes - 1;
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

  int32_t column_of(const Subtree& subtree, int32_t lane) const { return plan_.lane_column[subtree.first_lane + lane]; }

  void write_subtree(const Subtree& subtree) {
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
    to.width = out_.is_narrow ? int32_t(kNarrow) : (subtree.n_lanes + 3) / 4 * 4;
    std::fill(to.lane_of, to.lane_of + MOST_TABLE_LANES, static_cast<signed char>(-1));
    for (int32_t lane = 0; lane < subtree.n_lanes; ++lane)
      to.lane_of[out_.is_narrow ? column_of(subtree, lane) : lane] = static_cast<signed char>(lane);
    write_leaves(subtree, to);
    out_.subtrees.push_back(to);
    out_.n_points.push_back(subtree.n_points);
    out_.build_units.push_back(12 * subtree.n_splits + int64_t(std::max(subtree.n_x, 1)) * (subtree.n_lanes + 1));
    write_key(subtree);
  }

  void write_leaves(const Subtree& subtree, TableSubtree& to) {
    to.first_leaf = subtree.first_leaf;
    to.n_leaves = subtree.n_leaves;
    for (int32_t i = 0; i < subtree.n_leaves; ++i)
      to.most_positions = std::max(to.most_positions, plan_.leaves[subtree.first_leaf + i].n_positions);
    to.first_state = out_.n_states;
    out_.n_states += subtree.n_states;
    out_.most_states = std::max(out_.most_states, subtree.n_states);
    constexpr int64_t kNumber = sizeof(double), kNumbersOfSet = 4;  // LeafSpace of build_background.cu
    out_.background_bytes.push_back(
        kNumber * (int64_t(subtree.n_states) * subtree.n_lanes + (kNumbersOfSet << to.most_positions)));
  }

  void write_key(const Subtree& subtree) {
    KeyHead head{int32_t(out_.entries.size()), 0, 0, 0};
    int32_t base = weight_of(subtree.base);
    for (int64_t i = subtree.first_step, end = i + subtree.n_steps; i < end;) {
      const int32_t column = plan_.steps[i].column;
      std::vector<Step> steps;
      for (; i < end && plan_.steps[i].column == column; ++i)
        steps.push_back({plan_.steps[i].bound + 1 + kCodeBias, weight_of(plan_.steps[i].weight)});
      if (codes_.columns[column].categories) base += rank_categories(codes_.columns[column].categories, steps);
      add_entries(column, steps);
    }
    head.n = int32_t(out_.entries.size()) - head.first;
    head.base = out_.is_packed ? half_of(kPackedStates + base) : uint32_t(base) & 0xffff;
    out_.heads.push_back(head);
  }

  // Without the scale, modulo 2^14: as good as the number itself where keys are below.
  static int32_t weight_of(uint16_t weight) { return int16_t(weight) / kKeyScale; }

  // From codes of categories to ranks among the thresholds of write_columns; returns what all rows add.
  static int32_t rank_categories(int32_t n, std::vector<Step>& steps) {
    const std::vector<Step> by_code = std::move(steps);
    const auto at = [&](int32_t code) {
      int32_t sum = 0;
      for (const Step& step : by_code) sum += step.code <= code ? step.weight : 0;
      return sum;
    };
    steps.clear();
    const int32_t others = at(n);
    int32_t last = others;
    const auto arrive = [&](int32_t rank, int32_t now) {
      if (now != last) steps.push_back({rank, now - last});
      last = now;
    };
    arrive(1, at(n + 1));
    for (int32_t category = 0; category < n; ++category) arrive(category + 2, at(category));
    arrive(n + 2, others);
    arrive(kMissingCode, at(kMissingCode));
    return others;
  }

  void add_entries(int32_t column, const std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); i += 2) {
      KeyEntry entry{column, 0, 0, 0};
      for (size_t half = 0; half < 2 && i + half < steps.size(); ++half) {
        const Step& step = steps[i + half];
        const uint32_t bound = step.code == kMissingCode ? out_.missing_code : step.code;
        const uint32_t weight = out_.is_packed ? half_of(step.weight) : uint32_t(step.weight) & 0xffff;
        entry.bounds |= bound << 16 * half;
        entry.weights |= weight << 16 * half;
      }
      out_.entries.push_back(entry);
    }
  }

  // The bits of an integer below 2^11 as a half.
  static uint32_t half_of(int32_t number) {
    const uint32_t magnitude = uint32_t(std::abs(number));
    if (magnitude == 0) return 0;
    const uint32_t exponent = uint32_t(std::bit_width(magnitude)) - 1;
    return (number < 0 ? 0x8000u : 0u) | (exponent + 15) << 10 | (magnitude << (10 - exponent) & 0x3ff);
  }

  // Puts the subtrees of a chunk side by side; returns where chunks end.
  std::vector<int32_t> order_subtrees() {
    double total = 0;
    for (const Subtree& subtree : plan_.subtrees) total += ChunkOrder::cost_of(subtree);
    const double n = double(std::max<size_t>(1, plan_.subtrees.size()));
    ChunkLimits limits{kChunkSlots, kChunkSubtrees, total * std::max(plan_.width / kChunks, kFewestSubtrees / n),
                       kOpenChunks};
    if (out_.is_narrow) limits.open = 1;
    ChunkOrder chunks(plan_, int32_t(codes_.columns.size()), limits);
    std::vector<Subtree> ordered;
    for (const int32_t s : chunks.order) ordered.push_back(plan_.subtrees[s]);
    plan_.subtrees = std::move(ordered);
    return std::move(chunks.ends);
  }

  int64_t size_of(int32_t s) const { return int64_t(plan_.subtrees[s].n_states) * out_.subtrees[s].width; }

  // Places all tables; `room` numbers for those of one component, half of it for batches if they exceed it.
  void fill_batches(int64_t room) {
    const int32_t n = int32_t(plan_.subtrees.size());
    int64_t total = 0;
    for (int32_t s = 0; s < n; ++s) total += size_of(s);
    int64_t kept = total <= room ? total : room / 2, at = 0;
    bool is_kept = true;
    int32_t first = 0;
    const auto close = [&](int32_t end) {
      (is_kept ? out_.kept_size : out_.built_size) = std::max(is_kept ? out_.kept_size : out_.built_size, at);
      if (end > first) out_.batches.push_back({first, end - first, 0, 0, is_kept});
      first = end;
    };
    for (int32_t s = 0; s < n; ++s) {
      const bool is_full = at + size_of(s) > (is_kept ? kept : room - kept);
      if (is_full || s - first == kBatchSubtrees) {
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
  void add_chunks(TableBatch& batch, const std::vector<int32_t>& ends) {
    const int32_t end = int32_t(batch.first_subtree + batch.n_subtrees);
    batch.first_chunk = int64_t(out_.chunks.size());
    for (int32_t first = int32_t(batch.first_subtree); first < end;) {
      const int32_t stop = std::min(end, *std::upper_bound(ends.begin(), ends.end(), first));
      add_chunk(first, stop);
      first = stop;
    }
    batch.n_chunks = int64_t(out_.chunks.size()) - batch.first_chunk;
  }

  // Columns of the slots of a chunk.
  std::vector<int32_t> slots_of(int32_t first, int32_t end) const {
    std::vector<int32_t> columns;
    std::vector<char> has(codes_.columns.size(), out_.is_narrow);
    for (int32_t column = 0; out_.is_narrow && column < int32_t(has.size()); ++column) columns.push_back(column);
    for (int32_t s = first; s < end; ++s)
      for (int32_t lane = 0; lane < plan_.subtrees[s].n_lanes; ++lane) {
        const int32_t column = column_of(plan_.subtrees[s], lane);
        if (!has[column]) columns.push_back(column);
        has[column] = true;
      }
    return columns;
  }

  void add_chunk(int32_t first, int32_t end) {
    const int32_t first_stage = int32_t(out_.stages.size());
    const std::vector<int32_t> columns = slots_of(first, end);
    std::vector<int32_t> slot_of(codes_.columns.size(), -1);
    for (size_t slot = 0; slot < columns.size(); ++slot) slot_of[columns[slot]] = int32_t(slot);
    for (int32_t s = first; s < end; ++s) {
      const TableSubtree& subtree = out_.subtrees[s];
      TableRecord record{subtree.table, subtree.width, subtree.n_lanes, {}};
      std::fill(record.slot, record.slot + MOST_TABLE_LANES, int32_t(columns.size()));
      for (int32_t lane = 0; lane < subtree.n_lanes; ++lane)
        record.slot[lane] = slot_of[column_of(plan_.subtrees[s], lane)];
      out_.records.push_back(record);
      add_to_stage(s, s == first);
    }
    const int32_t n_stages = int32_t(out_.stages.size()) - first_stage, n_slots = int32_t(columns.size());
    for (int32_t component = 0; component < plan_.width; ++component) {
      out_.chunks.push_back({first_stage, n_stages, component, n_slots, int64_t(out_.slot_keys.size()), 0});
      const int64_t output = plan_.width > 1 ? component : plan_.subtrees[first].output, n = forest_.n_features;
      for (const int32_t column : columns) {
        const int64_t f = codes_.columns[column].feature;
        out_.slot_keys.push_back((output * n + f) * n + f);
      }
    }
    out_.most_slots = std::max(out_.most_slots, n_slots);
  }

  void add_to_stage(int32_t s, bool is_first) {
    const int32_t n_numbers = int32_t(size_of(s));
    const int32_t room = int32_t((out_.is_narrow ? kNarrowStageBytes : kWideStageBytes) / 16 * per_quad_);
    if (is_first || out_.stages.back().n_numbers + n_numbers > room || out_.stages.back().n_subtrees == kStageSubtrees)
      out_.stages.push_back({out_.subtrees[s].table, 0, s, 0, {}});
    TableStage& stage = out_.stages.back();
    stage.n_numbers += n_numbers;
    ++stage.n_subtrees;
    out_.most_stage_numbers = std::max(out_.most_stage_numbers, stage.n_numbers);
    out_.most_stage_subtrees = std::max(out_.most_stage_subtrees, stage.n_subtrees);
  }
};

}  // namespace silva
