// Evaluation with splits in lanes: the schedule over rows and trees. Included by evaluate/cpu/nodes/kernels.cpp only.
#pragma once
#include "evaluate/cpu/nodes/decisions.h"
#include "evaluate/cpu/nodes/leaf_values.h"
#include "evaluate/cpu/nodes/row_lanes.h"
#include "evaluate/cpu/nodes/rows.h"
#include "evaluate/cpu/nodes/tree_lanes.h"

namespace glasswood {
namespace {

// The codes of a tile's rows.
template <class Code>
struct CodeRows {
  const Code *codes, *flags;
  int64_t stride;
  int n_columns, n_rows;

  template <int Registers, bool Missing>
  GLASSWOOD_INLINE RowCodes<Code, Registers, Missing> row(int row) const {
    return {codes + row * stride, flags + row * stride, n_columns};
  }
  GLASSWOOD_INLINE uint32_t class_of(int row, const ClassSplit& split) const {
    return class_at(codes + row * stride, flags + row * stride, split);
  }
};

// What values of rows may be, besides numbers.
enum class Values { kNumbers, kMissing, kClasses };

// For rows that are looked up one by one from memory. The walk by classes also serves rows with missing values, which
// pay a branch that is always predicted: each walk takes half a second to compile.
template <int Registers>
constexpr bool kOfAnyValues = Registers == 0;

template <class Code, int Registers, Values Kind>
struct NodeWalk {
  static constexpr bool Missing = Kind != Values::kNumbers;
  using Row = RowCodes<Code, Registers, Missing>;
  template <int Positions>
  using Splits = typename Row::template Splits<Positions>;
  const NodeTables& forest;
  const CodeRows<Code>& rows;

  GLASSWOOD_INLINE const Code* columns(int64_t position) const {
    return static_cast<const Code*>(forest.column) + position;
  }
  GLASSWOOD_INLINE const Code* thresholds(int64_t position) const {
    return static_cast<const Code*>(forest.threshold) + position;
  }
  GLASSWOOD_INLINE Row row(int at) const { return rows.template row<Registers, Missing>(at); }

  // Decisions of a block or window about a row, whose codes these are.
  template <int Positions>
  GLASSWOOD_INLINE uint64_t decide(int at, const Row& codes, const Splits<Positions>& splits, int64_t block) const {
    uint64_t word = codes.template right<Positions>(splits, forest.default_right[block]);
    if constexpr (Kind == Values::kClasses) {
      if (kOfAnyValues<Registers> && !forest.first_class_split) return word;
      const ClassSplit* split = forest.class_splits + forest.first_class_split[block];
      const ClassSplit* end = forest.class_splits + forest.first_class_split[block + 1];
      for (; split < end; ++split) {
        const uint32_t c = rows.class_of(at, *split);
        const uint64_t right = class_goes_right(forest.words + split->first_word, c) ? split->positions : 0;
        word = (word & ~split->positions) | right;
      }
    }
    return word;
  }

  // The leaves that the rows reach in one tree.
  void reach(const NodeTree& tree, int32_t* leaf) const {
    if (forest.window_levels > 0) return reach_by_windows(tree, leaf);
    switch (tree.kind) {
      case PathKind::kReduced:
        if (tree.n_positions <= 16) return reduce<16>(tree, leaf);
        if (tree.n_positions <= 32) return reduce<32>(tree, leaf);
        return reduce<64>(tree, leaf);
      case PathKind::kHeap:
        return descend(tree, leaf);
      case PathKind::kLinked:
        return follow(tree, leaf);
    }
  }

  template <int Positions>
  void reduce(const NodeTree& tree, int32_t* leaf) const {
    const Splits<Positions> splits(columns(tree.first_position), thresholds(tree.first_position));
    const uint8_t* children = forest.children + tree.first_link;
    const int levels = tree.levels, reductions = forest.reductions, first = tree.first_leaf - kLeafCode;
    for (int i = 0; i < rows.n_rows; ++i) {
      const uint64_t right = decide(i, row(i), splits, tree.first_block);
      leaf[i] = first + reduce_path(children, right, levels, reductions);
    }
  }

  void descend(const NodeTree& tree, int32_t* leaf) const {
    if (tree.levels <= kBlockLevels) return descend_few<0>(tree, leaf);
    if (tree.levels == 7) return descend_blocks<2>(tree, leaf);
    return rows.n_rows == 1 ? descend_alone(tree, leaf) : descend_blocks<4>(tree, leaf);
  }

  template <int Levels>
  void descend_few(const NodeTree& tree, int32_t* leaf) const {
    if constexpr (Levels < kBlockLevels)
      if (tree.levels != Levels) return descend_few<Levels + 1>(tree, leaf);
    descend_levels<Levels, (Levels < 4 ? 16 : 1 << Levels)>(tree, leaf);
  }

  // The position on a level of the heap selects the bit on it.
  template <int Levels, int Positions>
  void descend_levels(const NodeTree& tree, int32_t* leaf) const {
    const Splits<Positions> splits(columns(tree.first_position), thresholds(tree.first_position));
    const int first = tree.first_leaf - (1 << Levels);
    for (int i = 0; i < rows.n_rows; ++i) {
      const uint64_t word = decide(i, row(i), splits, tree.first_block);
      uint64_t at = 1;
      GLASSWOOD_UNROLL
      for (int level = 0; level < Levels; ++level) at = heap_step(word, at);
      leaf[i] = first + int(at);
    }
  }

  // 7 or 8 levels: those below the sixth have words of their own.
  template <int Blocks>
  void descend_blocks(const NodeTree& tree, int32_t* leaf) const {
    const Code *column = columns(tree.first_position), *threshold = thresholds(tree.first_position);
    const Splits<64> low[2] = {{column, threshold}, {column + kBlock, threshold + kBlock}};
    const int more = Blocks == 4 ? 2 * kBlock : 0;
    const Splits<64> high[2] = {{column + more, threshold + more},
                                {column + more + more / 2, threshold + more + more / 2}};
    const int first = tree.first_leaf - (1 << tree.levels);
    for (int i = 0; i < rows.n_rows; ++i) {
      const Row codes = row(i);
      uint64_t word[Blocks];
      GLASSWOOD_UNROLL
      for (int block = 0; block < Blocks; ++block)
        word[block] = decide(i, codes, block < 2 ? low[block] : high[block - 2], tree.first_block + block);
      uint64_t at = 1;
      GLASSWOOD_UNROLL
      for (int level = 0; level < 6; ++level) at = heap_step(word[0], at);
      at = heap_step(word[1], at);
      if constexpr (Blocks == 4) at = heap_step(word[2], word[3], at);
      leaf[i] = first + int(at);
    }
  }

  // 8 levels for a row alone: a tree is read once, from the second-level cache at best, and of the last level only the
  // split that the row comes to.
  void descend_alone(const NodeTree& tree, int32_t* leaf) const {
    const Row codes = row(0);
    const auto word_of = [&](int64_t block) {
      const int64_t position = tree.first_position + block * kBlock;
      return decide<64>(0, codes, {columns(position), thresholds(position)}, tree.first_block + block);
    };
    const uint64_t word = word_of(0), below = word_of(1);
    uint64_t at = 1;
    GLASSWOOD_UNROLL
    for (int level = 0; level < 6; ++level) at = heap_step(word, at);
    at = heap_step(below, at);
    if constexpr (Kind == Values::kClasses)
      at = heap_step(word_of(int64_t(at) / kBlock), at);
    else
      at = 2 * at + goes_right_alone(tree, int64_t(at));
    *leaf = tree.first_leaf - (1 << kMostLevels) + int(at);
  }

  // Whether a row alone goes right at a position of the heap, without a branch.
  GLASSWOOD_INLINE bool goes_right_alone(const NodeTree& tree, int64_t at) const {
    const int64_t position = tree.first_position + at;
    const uint32_t column = RowTable<Code, 0>::index(*columns(position));
    const Code x = rows.codes[column];
    const bool right = x >= *thresholds(position);
    if constexpr (!Missing) return right;
    const bool unknown = sizeof(Code) == 4 ? x != x : rows.flags[column] != 0;
    const bool by_default = forest.default_right[tree.first_block + at / kBlock] >> (at % kBlock) & 1;
    return unknown ? by_default : right;
  }

  void follow(const NodeTree& tree, int32_t* leaf) const {
    constexpr int kFirstLeaf = kBlock * kMostBlocks;
    const uint16_t* links = forest.links + tree.first_link;
    for (int i = 0; i < rows.n_rows; ++i) {
      const Row codes = row(i);
      uint64_t word[kMostBlocks];
      for (int block = 0; block < tree.n_blocks; ++block) {
        const int64_t position = tree.first_position + block * kBlock;
        word[block] = decide<64>(i, codes, {columns(position), thresholds(position)}, tree.first_block + block);
      }
      int at = 0;
      while (at < kFirstLeaf) at = links[2 * at + int(word[at / kBlock] >> (at % kBlock) & 1)];
      leaf[i] = tree.first_leaf + at - kFirstLeaf;
    }
  }

  // Section 6: the levels of a window at once, then the window that hangs below the exit.
  template <int Levels = 1>
  void reach_by_windows(const NodeTree& tree, int32_t* leaf) const {
    if constexpr (Levels < kBlockLevels)
      if (forest.window_levels != Levels) return reach_by_windows<Levels + 1>(tree, leaf);
    jump<Levels>(tree, leaf);
  }

  // Rows that have their leaf before the deepest one look at window 0 and stay.
  template <int Levels>
  void jump(const NodeTree& tree, int32_t* next) const {
    constexpr int kPositions = 1 << Levels > kSmallestWindow ? 1 << Levels : kSmallestWindow;
    const int32_t root = tree.levels > 0 ? tree.first_block : -1 - tree.first_leaf;
    const Splits<kPositions> first = window<kPositions>(tree.levels > 0 ? root : 0);
    for (int i = 0; i < rows.n_rows; ++i) next[i] = tree.levels > 0 ? leave<Levels, kPositions>(root, first, i) : root;
    for (int done = Levels; done < tree.levels; done += Levels)
      for (int i = 0; i < rows.n_rows; ++i) {
        const int32_t here = next[i], looked_at = here < 0 ? 0 : here;
        const int32_t below = leave<Levels, kPositions>(looked_at, window<kPositions>(looked_at), i);
        next[i] = here < 0 ? here : below;
      }
    for (int i = 0; i < rows.n_rows; ++i) next[i] = -1 - next[i];
  }

  template <int Positions>
  GLASSWOOD_INLINE Splits<Positions> window(int32_t at) const {
    return {columns(int64_t(at) * Positions), thresholds(int64_t(at) * Positions)};
  }

  // What lies below the exit that a row takes.
  template <int Levels, int Positions>
  GLASSWOOD_INLINE int32_t leave(int32_t at, const Splits<Positions>& splits, int i) const {
    const uint64_t word = decide(i, row(i), splits, at);
    uint64_t exit = 1;
    GLASSWOOD_UNROLL
    for (int level = 0; level < Levels; ++level) exit = heap_step(word, exit);
    return forest.exits[int64_t(at) * (1 << Levels) + int64_t(exit) - (1 << Levels)];
  }
};

using Sink = RowSink<NodeTask>;

// Codes of a row take whole registers.
template <class Code>
int64_t row_stride(const NodeTables& forest) {
  constexpr int kCodes = 64 / sizeof(Code);
  return (int64_t(forest.n_columns) + kCodes - 1) / kCodes * kCodes;
}

// Whether rows are taken in lanes: ranks, and rows enough to fill a vector.
template <class Code>
bool in_lanes(const NodeTask& task, int64_t n_rows) {
  if constexpr (sizeof(Code) == 4)
    return false;
  else
    return task.forest.lane_splits && !task.in_place && n_rows >= RowLanes<Code>::kFewestRows;
}

template <class Code>
struct Buffers {
  Code *codes, *flags;
  int32_t* leaf;
  double *margin, *numbers;
  char* reached;
  Buffers(const NodeTask& task, Arena& arena) {
    const NodeTables& forest = task.forest;
    const bool lanes = in_lanes<Code>(task, task.tile_rows);
    const int64_t in_rows = task.tile_rows * row_stride<Code>(forest);
    const int64_t in_columns = lanes ? padded<Code>(task.tile_rows) * forest.n_columns : 0;
    const int64_t n_codes = in_rows > in_columns ? in_rows : in_columns;
    codes = arena.take<Code>(n_codes);
    flags = arena.take<Code>(n_codes);
    reached = arena.take<char>(lanes ? int64_t(forest.most_nodes) * kVectorsTogether * kMaskBytes : 0);
    leaf = arena.take<int32_t>(task.tile_rows > task.forest.n_trees ? task.tile_rows : task.forest.n_trees);
    margin = arena.take<double>(int64_t(task.forest.n_outputs) * task.tile_rows);
    numbers = arena.take<double>(linear_size(task.linear, task.tile_rows));
  }
};

#if defined(__AVX512VBMI__)
// Groups of trees that stay in the second-level cache while all rows of a tile pass.
constexpr int kGroupsTogether = 4;

// Some rows through the trees of some groups.
template <int Rows, int Registers, bool Missing>
void evaluate_groups(const NodeTask& task, const CodeRows<uint8_t>& rows, const Sink& sink, int row, int first_group,
                     int last_group) {
  int32_t leaf[Rows][kGroupsTogether * kLaneTrees];
  const int64_t at = row * rows.stride;
  const TreeLanes<Registers, Missing, Rows> lanes(task.forest.tree_lanes, rows.codes + at, rows.flags + at, rows.stride,
                                                  rows.n_columns);
  lanes.reach(first_group, last_group, leaf[0], kGroupsTogether * kLaneTrees);
  const int first = first_group * kLaneTrees, last = last_group * kLaneTrees;
  sink.template take_trees<Rows>(row, first, last < task.forest.n_trees ? last : task.forest.n_trees, leaf);
}

// Rows one by one through trees of linked blocks. The groups of several rows stay in the second-level cache.
template <int Registers, bool Missing>
void evaluate_linked(const NodeTask& task, const CodeRows<uint8_t>& rows, const Sink& sink, int n_groups) {
  constexpr int kOfRows = 16;
  const int together = rows.n_rows > 1 ? kOfRows : kGroupsLinked, n_trees = task.forest.n_trees;
  int32_t leaf[1][kGroupsLinked * kLaneTrees];
  for (int first = 0; first < n_groups; first += together) {
    const int last = first + together < n_groups ? first + together : n_groups, end = last * kLaneTrees;
    for (int row = 0; row < rows.n_rows; ++row) {
      const int64_t at = row * rows.stride;
      const TreeLanes<Registers, Missing, 1> lanes(task.forest.tree_lanes, rows.codes + at, rows.flags + at,
                                                   rows.stride, rows.n_columns);
      lanes.follow(first, last, leaf[0]);
      sink.template take_trees<1>(row, first * kLaneTrees, end < n_trees ? end : n_trees, leaf);
    }
  }
}
#endif

// All trees in lanes for a tile's rows; false where the trees have no tables for this.
template <class Code, int Registers, Values Kind>
bool evaluate_tree_lanes([[maybe_unused]] const NodeTask& task, [[maybe_unused]] const CodeRows<Code>& rows,
                         [[maybe_unused]] const Sink& sink) {
#if defined(__AVX512VBMI__)
  if constexpr (sizeof(Code) == 1 && (Registers == 1 || Registers == 2) && Kind != Values::kClasses) {
    if (!task.forest.tree_lanes.upper) return false;
    constexpr bool Missing = Kind == Values::kMissing;
    const int n_groups = (task.forest.n_trees + kLaneTrees - 1) / kLaneTrees;
    if (task.forest.tree_lanes.exits) {
      evaluate_linked<Registers, Missing>(task, rows, sink, n_groups);
      return true;
    }
    for (int first = 0; first < n_groups; first += kGroupsTogether) {
      const int last = first + kGroupsTogether < n_groups ? first + kGroupsTogether : n_groups;
      int row = 0;
      for (; row + kStepsTogether <= rows.n_rows; row += kStepsTogether)
        evaluate_groups<kStepsTogether, Registers, Missing>(task, rows, sink, row, first, last);
      for (; row < rows.n_rows; ++row) evaluate_groups<1, Registers, Missing>(task, rows, sink, row, first, last);
    }
    return true;
  }
#endif
  return false;
}

// All trees for a tile's rows. For a row alone, the leaves come first and their values after: the walks of several
// trees overlap then, each of which waits for its memory.
template <class Code, int Registers, Values Kind>
void evaluate_trees(const NodeTask& task, const CodeRows<Code>& rows, const Sink& sink, int32_t* leaf) {
  if (evaluate_tree_lanes<Code, Registers, Kind>(task, rows, sink)) return;
  const NodeTables& forest = task.forest;
  const NodeWalk<Code, Registers, Kind> walk{forest, rows};
  if (rows.n_rows == 1) {
    for (int tree = 0; tree < forest.n_trees; ++tree) walk.reach(forest.trees[tree], leaf + tree);
    for (int tree = 0; tree < forest.n_trees; ++tree) sink.take(tree, 0, leaf + tree);
    return;
  }
  for (int tree = 0; tree < forest.n_trees; ++tree) {
    walk.reach(forest.trees[tree], leaf);
    sink.take(tree, 0, leaf);
  }
}

#if defined(__AVX512VBMI__)
template <class Code>
constexpr bool kRegisters = true;
#elif defined(__AVX512BW__)
template <class Code>
constexpr bool kRegisters = sizeof(Code) > 1;
#else
template <class Code>
constexpr bool kRegisters = false;
#endif

// As many registers as hold a row, where there is an instruction that permutes them.
template <class Code, Values Kind>
void choose_registers(const NodeTask& task, const CodeRows<Code>& rows, const Sink& sink, int32_t* leaf) {
  if constexpr (kRegisters<Code>) {
    constexpr int kLanes = 64 / int(sizeof(Code));
    if (rows.n_columns <= kLanes) return evaluate_trees<Code, 1, Kind>(task, rows, sink, leaf);
    if (rows.n_columns <= 2 * kLanes) return evaluate_trees<Code, 2, Kind>(task, rows, sink, leaf);
    if (rows.n_columns <= 4 * kLanes) return evaluate_trees<Code, 4, Kind>(task, rows, sink, leaf);
  }
#ifdef GLASSWOOD_FEW_INSTANCES
  constexpr bool is_any = true;
#else
  constexpr bool is_any = Kind == Values::kMissing;
#endif
  evaluate_trees<Code, 0, is_any ? Values::kClasses : Kind>(task, rows, sink, leaf);
}

template <class Code, bool Missing, bool Classes>
void evaluate_lanes(const NodeTask& task, const RowLanes<Code>& lanes, const Sink& sink, int32_t* leaf) {
  const NodeTables& forest = task.forest;
  const bool is_sum = task.margin && !task.leaf && !task.linear.kernels && forest.width == 1;
  for (int tree = 0; tree < forest.n_trees; ++tree) {
    lanes.template reach<Missing, Classes>(forest.trees[tree], sink.n_rows, leaf);
    double* sum = is_sum ? sink.margin + int64_t(forest.tree_output[tree]) * sink.stride : nullptr;
    if (!sum || !add_small_tree(forest.value, forest.trees[tree], leaf, sink.n_rows, sum)) sink.take(tree, 0, leaf);
  }
}

template <class Code>
void evaluate_tile(const NodeTask& task, char* workspace, int64_t first_row, int n_rows) {
  const NodeTables& forest = task.forest;
  Arena arena{workspace};
  const Buffers<Code> buffers(task, arena);
  Sink sink{task, first_row, n_rows, buffers.margin, task.tile_rows};
  sink.lay_out(buffers.numbers);
  CodeRows<Code> rows{buffers.codes, buffers.flags, row_stride<Code>(forest), forest.n_columns, n_rows};
  bool missing = true;
  if constexpr (sizeof(Code) < 4)
    if (in_lanes<Code>(task, n_rows)) {
      using Lanes = RowLanes<Code>;
      const int64_t stride = padded<Code>(n_rows);
      missing = encode_codes(task, first_row, n_rows, CodeOrder<false>{stride}, buffers.codes, buffers.flags);
      const Lanes lanes{forest, buffers.codes, buffers.flags, stride,
                        reinterpret_cast<typename Lanes::Mask*>(buffers.reached)};
      sink.open();
      if (forest.first_class_split)
        (missing ? evaluate_lanes<Code, true, true> : evaluate_lanes<Code, false, true>)(task, lanes, sink,
                                                                                         buffers.leaf);
      else
        (missing ? evaluate_lanes<Code, true, false> : evaluate_lanes<Code, false, false>)(task, lanes, sink,
                                                                                           buffers.leaf);
      return sink.close();
    }
  if (task.in_place) {
    rows.codes = static_cast<const Code*>(task.rows.data) + first_row * task.rows.row_stride;
    rows.stride = task.rows.row_stride;
  } else {
    missing = encode_codes(task, first_row, n_rows, CodeOrder<true>{rows.stride}, buffers.codes, buffers.flags);
  }
  sink.open();
  if (forest.first_class_split)
    choose_registers<Code, Values::kClasses>(task, rows, sink, buffers.leaf);
  else if (missing)
    choose_registers<Code, Values::kMissing>(task, rows, sink, buffers.leaf);
  else
    choose_registers<Code, Values::kNumbers>(task, rows, sink, buffers.leaf);
  sink.close();
}

void evaluate_rows(const NodeTask& task, int64_t tile, int32_t thread) {
  char* workspace = task.workspace + thread * task.workspace_size;
  const int64_t first = tile * task.tile_rows, rest = task.rows.n_rows - first;
  const int n = int(rest < task.tile_rows ? rest : task.tile_rows);
  switch (task.forest.code_type) {
    case CodeType::kByte:
      return evaluate_tile<uint8_t>(task, workspace, first, n);
    case CodeType::kShort:
      return evaluate_tile<uint16_t>(task, workspace, first, n);
    case CodeType::kFloat:
      return evaluate_tile<float>(task, workspace, first, n);
  }
}

void evaluate_nodes(const NodeTask& task) {
  const int64_t n_tiles = (task.rows.n_rows + task.tile_rows - 1) / task.tile_rows;
  share_out(task.team, n_tiles, [&](int64_t tile, int32_t thread) { evaluate_rows(task, tile, thread); });
}

int32_t in_registers(const NodeTables& forest) {
  constexpr int kMostRegisters = 4, kBytes = 64;
  const bool is_byte = forest.code_type == CodeType::kByte;
  const int size = is_byte ? 1 : forest.code_type == CodeType::kShort ? 2 : 4;
  const bool can_permute = size == 1 ? kRegisters<uint8_t> : kRegisters<float>;
  return can_permute && forest.n_columns * size <= kMostRegisters * kBytes;
}

int64_t nodes_workspace(const NodeTask& task) {
  Arena bytes{nullptr}, shorts{nullptr}, floats{nullptr};
  const Buffers<uint8_t> of_bytes(task, bytes);
  const Buffers<uint16_t> of_shorts(task, shorts);
  const Buffers<float> of_floats(task, floats);
  switch (task.forest.code_type) {
    case CodeType::kByte:
      return bytes.used();
    case CodeType::kShort:
      return shorts.used();
    case CodeType::kFloat:
      return floats.used();
  }
  return floats.used();
}

}  // namespace
}  // namespace glasswood
