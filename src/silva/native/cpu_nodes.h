// Evaluation with splits in lanes: the schedule over rows and trees. Included by cpu_node_kernels.cpp only.
#pragma once
#include "cpu_arena.h"
#include "node_lanes.h"
#include "node_rows.h"

namespace silva {
namespace {

// The codes of a tile's rows.
template <class Code>
struct CodeRows {
  const Code *codes, *flags;
  int64_t stride;
  int n_columns, n_rows;

  template <int Registers, bool Missing>
  SILVA_INLINE RowCodes<Code, Registers, Missing> row(int row) const {
    return {codes + row * stride, flags + row * stride, n_columns};
  }
};

template <class Code, int Registers, bool Missing>
struct NodeWalk {
  using Row = RowCodes<Code, Registers, Missing>;
  template <int Slots>
  using Splits = typename Row::template Splits<Slots>;
  const NodeTables& forest;
  const CodeRows<Code>& rows;

  SILVA_INLINE const Code* columns(int64_t slot) const { return static_cast<const Code*>(forest.column) + slot; }
  SILVA_INLINE const Code* thresholds(int64_t slot) const { return static_cast<const Code*>(forest.threshold) + slot; }
  SILVA_INLINE Row row(int at) const { return rows.template row<Registers, Missing>(at); }

  // The leaves that the rows reach in one tree.
  void reach(const NodeTree& tree, int32_t* leaf) const {
    if (forest.window_levels > 0) return reach_by_windows(tree, leaf);
    switch (tree.kind) {
      case PathKind::kReduced:
        if (tree.n_slots <= 16) return reduce<16>(tree, leaf);
        if (tree.n_slots <= 32) return reduce<32>(tree, leaf);
        return reduce<64>(tree, leaf);
      case PathKind::kHeap:
        return tree.n_blocks > 2 ? descend<4>(tree, leaf) : descend<2>(tree, leaf);
      case PathKind::kLinked:
        return follow(tree, leaf);
    }
  }

  template <int Slots>
  void reduce(const NodeTree& tree, int32_t* leaf) const {
    const Splits<Slots> splits(columns(tree.first_slot), thresholds(tree.first_slot));
    const uint64_t default_right = forest.default_right[tree.first_block];
    const uint8_t* children = forest.children + tree.first_link;
    const int levels = tree.levels, reductions = forest.reductions, first = tree.first_leaf - kLeafCode;
    for (int i = 0; i < rows.n_rows; ++i) {
      const uint64_t right = row(i).template right<Slots>(splits, default_right);
      leaf[i] = first + reduce_path(children, right, levels, reductions);
    }
  }

  // A tree of 7 or 8 levels: the position on a level selects the bit on it.
  template <int Blocks>
  void descend(const NodeTree& tree, int32_t* leaf) const {
    const Splits<64> first(columns(tree.first_slot), thresholds(tree.first_slot));
    const int32_t* exits = forest.exits + tree.first_link;
    const int n_exits = 1 << tree.levels;
    const uint64_t* default_right = forest.default_right + tree.first_block;
    for (int i = 0; i < rows.n_rows; ++i) {
      const Row codes = row(i);
      uint64_t word[Blocks];
      word[0] = codes.template right<64>(first, default_right[0]);
      SILVA_UNROLL
      for (int block = 1; block < Blocks; ++block) {
        const int64_t slot = tree.first_slot + block * kBlock;
        word[block] = codes.template right<64>({columns(slot), thresholds(slot)}, default_right[block]);
      }
      uint64_t at = 1;
      SILVA_UNROLL
      for (int level = 0; level < 6; ++level) at = heap_step(word[0], at);
      at = heap_step(word[1], at);
      if constexpr (Blocks == 4) at = heap_step(at & 64 ? word[3] : word[2], at);
      leaf[i] = -1 - exits[at - n_exits];
    }
  }

  void follow(const NodeTree& tree, int32_t* leaf) const {
    constexpr int kFirstLeaf = kBlock * kMostBlocks;
    const uint16_t* links = forest.links + tree.first_link;
    for (int i = 0; i < rows.n_rows; ++i) {
      const Row codes = row(i);
      uint64_t word[kMostBlocks];
      for (int block = 0; block < tree.n_blocks; ++block) {
        const int64_t slot = tree.first_slot + block * kBlock;
        word[block] = codes.template right<64>({columns(slot), thresholds(slot)},
                                               forest.default_right[tree.first_block + block]);
      }
      int at = 0;
      while (at < kFirstLeaf) at = links[2 * at + int(word[at / kBlock] >> (at % kBlock) & 1)];
      leaf[i] = tree.first_leaf + at - kFirstLeaf;
    }
  }

  // Section 6: the levels of a window at once, then the window that hangs below the exit.
  void reach_by_windows(const NodeTree& tree, int32_t* next) const {
    const int levels = forest.window_levels;
    for (int i = 0; i < rows.n_rows; ++i) next[i] = tree.levels > 0 ? tree.first_block : -1 - tree.first_leaf;
    for (int done = 0; done < tree.levels; done += levels)
      levels <= 4 ? jump<16>(levels, next) : levels == 5 ? jump<32>(levels, next) : jump<64>(levels, next);
    for (int i = 0; i < rows.n_rows; ++i) next[i] = -1 - next[i];
  }

  // Rows that have their leaf already look at window 0 and stay.
  template <int Slots>
  void jump(int levels, int32_t* next) const {
    const int n_exits = 1 << levels;
    for (int i = 0; i < rows.n_rows; ++i) {
      const int32_t window = next[i], looked_at = window < 0 ? 0 : window;
      const int64_t slot = int64_t(looked_at) * (n_exits < kSmallestWindow ? kSmallestWindow : n_exits);
      const Splits<Slots> splits(columns(slot), thresholds(slot));
      const uint64_t word = row(i).template right<Slots>(splits, forest.default_right[looked_at]);
      uint64_t at = 1;
      for (int level = 0; level < levels; ++level) at = heap_step(word, at);
      const int32_t below = forest.exits[int64_t(looked_at) * n_exits + int64_t(at) - n_exits];
      next[i] = window < 0 ? window : below;
    }
  }
};

template <class Code, bool Missing>
SILVA_INLINE void reach(const NodeTables& forest, const NodeTree& tree, const CodeRows<Code>& rows, int32_t* leaf) {
  [[maybe_unused]] const int n = forest.n_columns, lanes = 64 / int(sizeof(Code));
#if defined(__AVX512VBMI__)
  constexpr bool kRegisters = true;
#elif defined(__AVX512BW__)
  constexpr bool kRegisters = sizeof(Code) > 1;
#else
  constexpr bool kRegisters = false;
#endif
  if constexpr (kRegisters) {
    if (n <= lanes) return NodeWalk<Code, 1, Missing>{forest, rows}.reach(tree, leaf);
    if (n <= 2 * lanes) return NodeWalk<Code, 2, Missing>{forest, rows}.reach(tree, leaf);
    if (n <= 4 * lanes) return NodeWalk<Code, 4, Missing>{forest, rows}.reach(tree, leaf);
  }
  NodeWalk<Code, 0, Missing>{forest, rows}.reach(tree, leaf);
}

// Adds a tree to the margins of rows, [output][stride], or notes the leaves' ids.
void take_leaves(const NodeTask& task, int tree, int64_t first_row, int n_rows, const int32_t* leaf, double* margin) {
  const NodeTables& forest = task.forest;
  if (task.leaf)
    for (int i = 0; i < n_rows; ++i)
      task.leaf[(first_row + i) * forest.n_trees + tree] = forest.leaf_id[leaf[i]];
  if (!task.margin) return;
  if (forest.width == 1) {
    double* sum = margin + int64_t(forest.tree_output[tree]) * task.tile_rows;
    for (int i = 0; i < n_rows; ++i) sum[i] += forest.value[leaf[i]];
    return;
  }
  for (int output = 0; output < forest.width; ++output)
    for (int i = 0; i < n_rows; ++i)
      margin[int64_t(output) * task.tile_rows + i] += forest.value[int64_t(leaf[i]) * forest.width + output];
}

void close_margins(const NodeTask& task, int64_t first_row, int n_rows, const double* margin) {
  const int n_outputs = task.forest.n_outputs;
  for (int i = 0; i < n_rows; ++i)
    for (int output = 0; output < n_outputs; ++output)
      task.margin[(first_row + i) * n_outputs + output] = margin[int64_t(output) * task.tile_rows + i];
}

// Codes of a row take whole registers.
template <class Code>
int64_t row_stride(const NodeTables& forest) {
  constexpr int kCodes = 64 / sizeof(Code);
  return (int64_t(forest.n_columns) + kCodes - 1) / kCodes * kCodes;
}

template <class Code>
struct Buffers {
  Code *codes, *flags;
  int32_t* leaf;
  double* margin;
  Buffers(const NodeTask& task, Arena& arena) {
    const int64_t n_codes = task.tile_rows * row_stride<Code>(task.forest);
    codes = arena.take<Code>(n_codes);
    flags = arena.take<Code>(n_codes);
    leaf = arena.take<int32_t>(task.tile_rows);
    margin = arena.take<double>(int64_t(task.forest.n_outputs) * task.tile_rows);
  }
};

template <class Code>
void evaluate_tile(const NodeTask& task, char* workspace, int64_t first_row, int n_rows) {
  const NodeTables& forest = task.forest;
  Arena arena{workspace};
  const Buffers<Code> buffers(task, arena);
  CodeRows<Code> rows{buffers.codes, buffers.flags, row_stride<Code>(forest), forest.n_columns, n_rows};
  bool missing = true;
  if (task.in_place) {
    rows.codes = static_cast<const Code*>(task.rows.data) + first_row * task.rows.row_stride;
    rows.stride = task.rows.row_stride;
  } else {
    missing = encode_codes<Code>(task, first_row, n_rows, rows.stride, buffers.codes, buffers.flags);
  }
  for (int output = 0; output < forest.n_outputs; ++output)
    for (int i = 0; i < n_rows; ++i) buffers.margin[int64_t(output) * task.tile_rows + i] = forest.base_score[output];
  for (int tree = 0; tree < forest.n_trees; ++tree) {
    if (missing)
      reach<Code, true>(forest, forest.trees[tree], rows, buffers.leaf);
    else
      reach<Code, false>(forest, forest.trees[tree], rows, buffers.leaf);
    take_leaves(task, tree, first_row, n_rows, buffers.leaf, buffers.margin);
  }
  if (task.margin) close_margins(task, first_row, n_rows, buffers.margin);
}

void evaluate_nodes(const NodeTask& task) {
  const int64_t n_rows = task.rows.n_rows, n_tasks = (n_rows + task.tile_rows - 1) / task.tile_rows;
#pragma omp parallel for schedule(dynamic) num_threads(task.n_threads) if (task.n_threads > 1 && n_tasks > 1)
  for (int64_t t = 0; t < n_tasks; ++t) {
    char* workspace = task.workspace + thread_number() * task.workspace_size;
    const int64_t first = t * task.tile_rows, rest = n_rows - first;
    const int n = int(rest < task.tile_rows ? rest : task.tile_rows);
    switch (task.forest.code_type) {
      case CodeType::kByte:
        evaluate_tile<uint8_t>(task, workspace, first, n);
        break;
      case CodeType::kShort:
        evaluate_tile<uint16_t>(task, workspace, first, n);
        break;
      case CodeType::kFloat:
        evaluate_tile<float>(task, workspace, first, n);
        break;
    }
  }
}

int64_t nodes_workspace(const NodeTask& task) {
  Arena arena{nullptr};
  const Buffers<float> largest(task, arena);
  return arena.used();
}

}  // namespace
}  // namespace silva
