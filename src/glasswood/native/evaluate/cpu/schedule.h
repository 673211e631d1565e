// Evaluation on the CPU: the schedule over rows, trees and lanes. Included by evaluate/cpu/kernels.cpp only.
#pragma once
#include "common/vectors.h"
#include "evaluate/cpu/encode.h"
#include "evaluate/cpu/tables.h"

namespace glasswood {
namespace {

constexpr int kFloatLanes = kVectorBytes / 4;
constexpr int kChains = 8;   // walks that a CPU core keeps going at once; each waits for its loads
constexpr int kVectors = 4;  // of rows in a tile
constexpr int kRowTile = kVectors * kFloatLanes;
constexpr int kSmallVectors =
    kFloatLanes < kChains ? kChains / kFloatLanes : 1;  // in the tiles of the rows that remain
constexpr int kSmallTile = kSmallVectors * kFloatLanes;
constexpr int kTiles = 256;  // most tiles that a thread evaluates together

using FloatLanes = Lanes<float, kFloatLanes>;

// A tile's rows, [feature][stride], as vectors of neighbours or one by one.
struct TileVectors {
  const float* tile;
  int stride;
  GLASSWOOD_INLINE FloatLanes::Value operator()(int feature) const {
    return *reinterpret_cast<const FloatLanes::Value*>(tile + int64_t(feature) * stride);
  }
};
struct TileRow {
  const float* tile;
  int64_t stride, row;
  GLASSWOOD_INLINE float operator()(uint32_t feature) const { return tile[feature * stride + row]; }
};

// Walks kChains pairs of row and tree on by `levels` levels or until all have stopped. tree(i), row(i) say which. That
// a walk has stopped is seen by a step that changes nothing, tested now and then.
template <bool Packed, bool Missing, bool Categorical, class Tree, class Row>
GLASSWOOD_INLINE void walk_on(const EvaluateTables& forest, int levels, const Tree& tree, const Row& row,
                              uint32_t (&at)[kChains]) {
  constexpr int kUntested = 4;
  while (levels > 0) {
    const int untested = levels < kUntested ? levels : kUntested;
    for (int level = 0; level < untested; ++level) GLASSWOOD_UNROLL
    for (int i = 0; i < kChains; ++i) at[i] = step<Packed, Missing, Categorical>(forest, tree(i), at[i], row(i));
    levels -= untested;
    if (levels == 0) break;
    uint32_t moved = 0;
    GLASSWOOD_UNROLL
    for (int i = 0; i < kChains; ++i) {
      const uint32_t before = at[i];
      at[i] = step<Packed, Missing, Categorical>(forest, tree(i), before, row(i));
      moved |= at[i] ^ before;
    }
    --levels;
    if (!moved) break;
  }
}

// The nodes that a tile's rows reach in one tree: the first levels all lanes at once, the rest row by row.
template <int V, bool Packed, bool Missing, bool Categorical>
void walk_rows(const EvaluateTables& forest, int tree_index, const float* tile, int32_t* node) {
  constexpr int kLanes = V * kFloatLanes;
  static_assert(kLanes % kChains == 0);
  const EvaluateTree tree = tree_at(forest, tree_index);
  const int32_t* exit = forest.exit + int64_t(tree_index) * kTopExits;
  const int levels = forest.tree_depth[tree_index] - kTopLevels;
  for (int v = 0; v < V; ++v) {
    const auto exits = top_exit<FloatLanes, Packed, Missing, Categorical>(forest, tree_index,
                                                                          TileVectors{tile + v * kFloatLanes, kLanes});
    __builtin_memcpy(node + v * kFloatLanes, &exits, sizeof exits);
  }
  for (int first = 0; first < kLanes; first += kChains) {
    uint32_t at[kChains];
    GLASSWOOD_UNROLL
    for (int i = 0; i < kChains; ++i) at[i] = uint32_t(exit[node[first + i]]);
    walk_on<Packed, Missing, Categorical>(
        forest, levels, [&](int) { return tree; }, [&](int i) { return TileRow{tile + first, kLanes, i}; }, at);
    GLASSWOOD_UNROLL
    for (int i = 0; i < kChains; ++i) node[first + i] = int32_t(at[i]);
  }
}

using Sink = RowSink<EvaluateTask>;

template <int V, bool Packed, bool Missing>
void evaluate_tile(const EvaluateTask& task, const float* tile, const Sink& sink, int first_tree, int last_tree) {
  int32_t node[V * kFloatLanes];
  for (int tree = first_tree; tree < last_tree; ++tree) {
    if (task.forest.tree_is_categorical[tree])
      walk_rows<V, Packed, Missing, true>(task.forest, tree, tile, node);
    else
      walk_rows<V, Packed, Missing, false>(task.forest, tree, tile, node);
    sink.take(tree, task.forest.tree_first[tree], node);
  }
}

// The first tree after those whose nodes and values stay in the second-level cache beside the rows.
inline int end_of_chunk(const EvaluateTables& forest, int first_tree) {
  constexpr int64_t kCache = 1 << 18;
  const int64_t bytes = sizeof(EvaluateNode) + sizeof(double) * forest.width;
  int tree = first_tree + 1;
  while (tree < forest.n_trees && (forest.tree_first[tree + 1] - forest.tree_first[first_tree]) * bytes <= kCache)
    ++tree;
  return tree;
}

// Up to kTiles tiles of V vectors of rows: encode, walk the trees chunk by chunk, write. A chunk's nodes are read from
// memory once for all tiles, and between chunks the call may end.
template <int V, bool Packed>
void evaluate_rows(const EvaluateTask& task, char* workspace, int32_t thread, int64_t first_row, int n_rows) {
  constexpr int kLanes = V * kFloatLanes;
  const EvaluateTables& forest = task.forest;
  const int n_tiles = (n_rows + kLanes - 1) / kLanes;
  const int64_t tile_size = int64_t(task.coding.n_features + 1) * kLanes,
                margin_size = int64_t(forest.n_outputs) * kLanes;
  Arena arena{workspace};
  float* tiles = arena.take<float>(n_tiles * tile_size);
  double* margins = arena.take<double>(n_tiles * margin_size);
  bool missing[kTiles];
  const auto sink_of = [&](int tile) {
    const int rest = n_rows - tile * kLanes;
    return Sink{task, first_row + tile * kLanes, rest < kLanes ? rest : kLanes, margins + tile * margin_size, kLanes};
  };
  for (int tile = 0; tile < n_tiles; ++tile) {
    const Sink sink = sink_of(tile);
    missing[tile] = encode_tile(task.coding, task.classes, task.rows, sink.first_row, sink.n_rows, kLanes, kLanes,
                                tiles + tile * tile_size);
    sink.open();
  }
  for (int tree = 0, end; tree < forest.n_trees; tree = end) {
    if (tree && has_ended(task.team, thread)) return;
    end = end_of_chunk(forest, tree);
    for (int tile = 0; tile < n_tiles; ++tile)
      (missing[tile] ? evaluate_tile<V, Packed, true> : evaluate_tile<V, Packed, false>)(task, tiles + tile * tile_size,
                                                                                         sink_of(tile), tree, end);
  }
  for (int tile = 0; tile < n_tiles; ++tile) sink_of(tile).close();
}

// The paper's Procedure 2 (Spencer, doi:10.48550/arXiv.1111.1373): one row, one tree, no branch but the loop's.
template <bool Packed, bool Missing, bool Categorical>
int32_t walk_alone(const EvaluateTables& forest, int tree, const float* row) {
  const EvaluateTree nodes = tree_at(forest, tree);
  uint32_t at = 0;
  for (int level = 0; level < forest.tree_depth[tree]; ++level) {
    const uint32_t next = step<Packed, Missing, Categorical>(forest, nodes, at, TileRow{row, 1, 0});
    if (next == at) break;
    at = next;
  }
  return int32_t(at);
}

// One row through all trees, kChains of them at once: the schedule of small batches. Returns the reached nodes; the
// caller sums them in the order of the trees, so that a row's margin has the same bits in every schedule.
template <bool Packed, bool Missing, bool Categorical>
void walk_trees(const EvaluateTables& forest, const float* row, int32_t* reached) {
  int tree = 0;
  for (; tree + kChains <= forest.n_trees; tree += kChains) {
    int levels = 0;
    uint32_t at[kChains] = {};
    EvaluateTree trees[kChains];
    for (int i = 0; i < kChains; ++i) {
      trees[i] = tree_at(forest, tree + i);
      levels = forest.tree_depth[tree + i] > levels ? forest.tree_depth[tree + i] : levels;
    }
    walk_on<Packed, Missing, Categorical>(
        forest, levels, [&](int i) { return trees[i]; }, [&](int) { return TileRow{row, 1, 0}; }, at);
    for (int i = 0; i < kChains; ++i) reached[tree + i] = int32_t(at[i]);
  }
  for (; tree < forest.n_trees; ++tree) reached[tree] = walk_alone<Packed, Missing, Categorical>(forest, tree, row);
}

template <bool Packed>
void evaluate_row(const EvaluateTask& task, char* workspace, int64_t row) {
  const EvaluateTables& forest = task.forest;
  Arena arena{workspace};
  int32_t* reached = arena.take<int32_t>(forest.n_trees);
  float* values = arena.take<float>(task.coding.n_features + 1);
  double* margin = arena.take<double>(forest.n_outputs);
  const bool missing = encode_tile(task.coding, task.classes, task.rows, row, 1, 1, 1, values);
  const Sink sink{task, row, 1, margin, 1};
  sink.open();
  if (task.serial)
    for (int tree = 0; tree < forest.n_trees; ++tree)
      reached[tree] = walk_alone<Packed, true, true>(forest, tree, values);
  else if (task.any_categorical)
    walk_trees<Packed, true, true>(forest, values, reached);
  else if (missing)
    walk_trees<Packed, true, false>(forest, values, reached);
  else
    walk_trees<Packed, false, false>(forest, values, reached);
  for (int tree = 0; tree < forest.n_trees; ++tree) sink.take(tree, forest.tree_first[tree], reached + tree);
  sink.close();
}

// The rows of a task: whole tiles, then smaller ones, then row by row.
template <bool Packed>
void evaluate_chunk(const EvaluateTask& task, int32_t thread, int64_t at, int64_t rest) {
  char* workspace = task.workspace + thread * task.workspace_size;
  if (const int64_t whole = rest / kRowTile * kRowTile; whole > 0) {
    evaluate_rows<kVectors, Packed>(task, workspace, thread, at, int(whole));
    at += whole, rest -= whole;
  }
  // A few rows keep more walks going through several trees than through one.
  for (; rest > kSmallTile / 2; rest -= kSmallTile, at += kSmallTile)
    evaluate_rows<kSmallVectors, Packed>(task, workspace, thread, at, int(rest < kSmallTile ? rest : kSmallTile));
  for (; rest > 0; --rest, ++at) evaluate_row<Packed>(task, workspace, at);
}

template <bool Packed>
void evaluate_packed(const EvaluateTask& task) {
  const int64_t n_rows = task.rows.n_rows;
  if (task.serial) {
    share_out(task.team, (n_rows + kRowTile - 1) / kRowTile, [&](int64_t t, int32_t) {
      const int64_t end = n_rows < (t + 1) * kRowTile ? n_rows : (t + 1) * kRowTile;
      for (int64_t row = t * kRowTile; row < end; ++row) evaluate_row<Packed>(task, task.workspace, row);
    });
    return;
  }
  const int64_t together = int64_t(kRowTile) * task.tiles_together, n_tasks = (n_rows + together - 1) / together;
  share_out(task.team, n_tasks, [&](int64_t t, int32_t thread) {
    const int64_t at = t * together, rest = n_rows - at;
    evaluate_chunk<Packed>(task, thread, at, rest < together ? rest : together);
  });
}

void evaluate(const EvaluateTask& task) {
  if (task.forest.packed)
    evaluate_packed<true>(task);
  else
    evaluate_packed<false>(task);
}

int64_t evaluate_workspace(const EvaluateTask& task) {
  Arena arena{nullptr};
  arena.take<float>(int64_t(task.coding.n_features + 1) * kRowTile * task.tiles_together);
  arena.take<double>(int64_t(task.forest.n_outputs) * kRowTile * task.tiles_together);
  arena.take<int32_t>(task.forest.n_trees);
  return arena.used();
}

}  // namespace
}  // namespace glasswood
