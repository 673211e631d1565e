// Evaluation on the CPU: the schedule over rows, trees and lanes. Included by cpu_kernels.cpp only.
#pragma once
#include "cpu_arena.h"
#include "tasks.h"

namespace silva {
namespace {

template <int Width>
struct EvaluateLanes : IndexedLanes<Width> {};
template <>
struct EvaluateLanes<1> : Lanes<float, 1> {};

constexpr int kVectors = 4;  // of rows in flight: independent chains hide the latency of gathers
constexpr int kRowTile = kVectors * kFloatLanes;

// Children by the table that the words' packing selects.
template <class L, bool Packed>
SILVA_INLINE typename L::Index left_child(const EvaluateTables& forest, int32_t first, typename L::Index word,
                                          typename L::Index node) {
  if constexpr (Packed) return unpack_left<Packed>(word);
  return L::gather(forest.left + first, node);
}

// The nodes that V vectors of rows reach in one tree. The first levels, as many as two registers hold, are looked up
// there; the rest is gathered until every lane has stopped at a leaf.
template <class L, int V, bool Packed, bool Missing, bool Categorical>
inline void walk_rows(const EvaluateTables& forest, int tree, const float* tile, typename L::Index (&node)[V]) {
  using Value = typename L::Value;
  using Index = typename L::Index;
  constexpr int W = L::width;
  const int32_t first = forest.tree_first[tree], depth = forest.tree_depth[tree];
  const float* threshold = forest.threshold + first;
  const int32_t* words = forest.word + first;
  const Index lanes = L::lane_numbers();
  for (int v = 0; v < V; ++v) node[v] = L::splat_index(0);
  int level = 0;
  const auto advance = [&](int v, Value t, Index word) {
    const Index feature = word & NodeWord<Packed>::kFeature;
    const Value x = L::gather(tile + v * W, feature * (V * W) + lanes);
    return step<L, Packed, Missing, Categorical>(forest, x, t, word, left_child<L, Packed>(forest, first, word, node[v]));
  };
  if constexpr (W > 1) {
    constexpr int kLookedUp = W == 16 ? 5 : W == 8 ? 4 : 3;
    Value low, high;
    Index low_word, high_word;
    __builtin_memcpy(&low, threshold, sizeof low);
    __builtin_memcpy(&high, threshold + W, sizeof high);
    __builtin_memcpy(&low_word, words, sizeof low_word);
    __builtin_memcpy(&high_word, words + W, sizeof high_word);
    for (; level < (depth < kLookedUp ? depth : kLookedUp); ++level)
      for (int v = 0; v < V; ++v)
        node[v] = advance(v, L::look_up(low, high, node[v]), L::look_up(low_word, high_word, node[v]));
  }
  for (; level < depth; ++level) {
    bool moved = false;
    for (int v = 0; v < V; ++v) {
      const Index next = advance(v, L::gather(threshold, node[v]), L::gather(words, node[v]));
      moved |= !L::all(L::equal(next, node[v]));
      node[v] = next;
    }
    if (!moved) break;
  }
}

// Adds a tree to the margins of rows, or notes the leaves' ids. nodes: one an lane.
struct RowSink {
  const EvaluateTask& task;
  int64_t first_row;
  int n_rows;
  double* margin;  // [output][stride]
  int stride;

  SILVA_INLINE void take(int tree, const int32_t* nodes) const {
    const EvaluateTables& forest = task.forest;
    const int32_t first = forest.tree_first[tree];
    if (task.leaf)
      for (int row = 0; row < n_rows; ++row)
        task.leaf[(first_row + row) * forest.n_trees + tree] = forest.leaf_id[first + nodes[row]];
    if (!task.margin) return;
    const double* value = forest.value + int64_t(first) * forest.width;
    if (forest.width == 1) {
      double* sum = margin + int64_t(forest.tree_output[tree]) * stride;
      for (int row = 0; row < n_rows; ++row) sum[row] += value[nodes[row]];
      return;
    }
    for (int output = 0; output < forest.width; ++output)
      for (int row = 0; row < n_rows; ++row)
        margin[int64_t(output) * stride + row] += value[int64_t(nodes[row]) * forest.width + output];
  }
  void open() const {
    for (int output = 0; output < task.forest.n_outputs; ++output)
      for (int row = 0; row < stride; ++row) margin[int64_t(output) * stride + row] = task.forest.base_score[output];
  }
  void close() const {
    if (!task.margin) return;
    const int n_outputs = task.forest.n_outputs;
    for (int row = 0; row < n_rows; ++row)
      for (int output = 0; output < n_outputs; ++output)
        task.margin[(first_row + row) * n_outputs + output] = margin[int64_t(output) * stride + row];
  }
};

template <class L, int V, bool Packed, bool Missing>
void evaluate_tile(const EvaluateTask& task, const float* tile, const RowSink& sink) {
  typename L::Index node[V];
  for (int tree = 0; tree < task.forest.n_trees; ++tree) {
    if (task.forest.tree_is_categorical[tree])
      walk_rows<L, V, Packed, Missing, true>(task.forest, tree, tile, node);
    else
      walk_rows<L, V, Packed, Missing, false>(task.forest, tree, tile, node);
    sink.take(tree, reinterpret_cast<const int32_t*>(node));
  }
}

// Rows first_row ... of one thread: encode, walk, write.
template <class L, int V, bool Packed>
void evaluate_rows(const EvaluateTask& task, char* workspace, int64_t first_row, int n_rows) {
  constexpr int kLanes = V * L::width;
  Arena arena{workspace};
  float* tile = arena.take<float>(int64_t(task.coding.n_features + 1) * kLanes);
  double* margin = arena.take<double>(int64_t(task.forest.n_outputs) * kLanes);
  const bool missing =
      encode_rows<float>(task.coding, task.rows, first_row, n_rows, kLanes, kLanes, tile);
  const RowSink sink{task, first_row, n_rows, margin, kLanes};
  sink.open();
  if (missing)
    evaluate_tile<L, V, Packed, true>(task, tile, sink);
  else
    evaluate_tile<L, V, Packed, false>(task, tile, sink);
  sink.close();
}

// One row in all lanes, a tree each: the schedule of small batches. Returns the reached nodes, tree by tree; the
// caller sums them in the order of the trees, so that a row's margin has the same bits in every schedule.
template <class L, int V, bool Packed, bool Missing, bool Categorical>
void walk_trees(const EvaluateTables& forest, const float* row, int32_t* reached) {
  using Index = typename L::Index;
  constexpr int W = L::width;
  for (int tree = 0; tree < forest.n_trees; tree += V * W) {
    Index first[V], node[V];
    int depth = 0;
    for (int lane = 0; lane < V * W; ++lane) {
      const int t = tree + lane < forest.n_trees ? tree + lane : forest.n_trees - 1;
      reinterpret_cast<int32_t*>(first)[lane] = forest.tree_first[t];
      depth = forest.tree_depth[t] > depth ? forest.tree_depth[t] : depth;
    }
    for (int v = 0; v < V; ++v) node[v] = L::splat_index(0);
    for (int level = 0; level < depth; ++level) {
      bool moved = false;
      for (int v = 0; v < V; ++v) {
        const Index at = first[v] + node[v], word = L::gather(forest.word, at);
        Index left;
        if constexpr (Packed)
          left = unpack_left<Packed>(word);
        else
          left = L::gather(forest.left, at);
        const Index next = step<L, Packed, Missing, Categorical>(
            forest, L::gather(row, word & NodeWord<Packed>::kFeature), L::gather(forest.threshold, at), word, left);
        moved |= !L::all(L::equal(next, node[v]));
        node[v] = next;
      }
      if (!moved) break;
    }
    const int n = forest.n_trees - tree < V * W ? forest.n_trees - tree : V * W;
    __builtin_memcpy(reached + tree, node, n * sizeof(int32_t));
  }
}

template <class L, int V, bool Packed>
void evaluate_row(const EvaluateTask& task, char* workspace, int64_t row) {
  const EvaluateTables& forest = task.forest;
  Arena arena{workspace};
  int32_t* reached = arena.take<int32_t>(forest.n_trees);
  float* values = arena.take<float>(task.coding.n_features + 1);
  double* margin = arena.take<double>(forest.n_outputs);
  const bool missing = encode_rows<float>(task.coding, task.rows, row, 1, 1, 1, values);
  const RowSink sink{task, row, 1, margin, 1};
  sink.open();
  bool categorical = false;
  for (int tree = 0; tree < forest.n_trees; ++tree) categorical |= forest.tree_is_categorical[tree];
  if (categorical)
    walk_trees<L, V, Packed, true, true>(forest, values, reached);
  else if (missing)
    walk_trees<L, V, Packed, true, false>(forest, values, reached);
  else
    walk_trees<L, V, Packed, false, false>(forest, values, reached);
  for (int tree = 0; tree < forest.n_trees; ++tree) sink.take(tree, reached + tree);
  sink.close();
}

template <bool Packed>
void evaluate_packed(const EvaluateTask& task) {
  using Vector = EvaluateLanes<kFloatLanes>;
  using Scalar = EvaluateLanes<1>;
  const int64_t n_rows = task.rows.n_rows;
  if (task.serial) {
    for (int64_t row = 0; row < n_rows; ++row) evaluate_rows<Scalar, 1, Packed>(task, task.workspace, row, 1);
    return;
  }
  // Measured: below half a vector of rows, trees fill the lanes better than rows do.
  constexpr int kFewRows = kFloatLanes / 2;
  const int64_t n_tiles = (n_rows + kRowTile - 1) / kRowTile;
#pragma omp parallel for schedule(dynamic) num_threads(task.n_threads) if (task.n_threads > 1 && n_tiles > 1)
  for (int64_t tile = 0; tile < n_tiles; ++tile) {
    char* workspace = task.workspace + thread_number() * task.workspace_size;
    const int64_t first = tile * kRowTile;
    int64_t rest = n_rows - first < kRowTile ? n_rows - first : kRowTile, at = first;
    if (rest == kRowTile) {
      evaluate_rows<Vector, kVectors, Packed>(task, workspace, first, kRowTile);
      continue;
    }
    for (; rest > kFewRows; rest -= kFloatLanes, at += kFloatLanes)
      evaluate_rows<Vector, 1, Packed>(task, workspace, at, int(rest < kFloatLanes ? rest : kFloatLanes));
    for (; rest > 0; --rest, ++at) evaluate_row<Vector, 2, Packed>(task, workspace, at);
  }
}

void evaluate(const EvaluateTask& task) {
  if (task.forest.packed)
    evaluate_packed<true>(task);
  else
    evaluate_packed<false>(task);
}

int64_t evaluate_workspace(const EvaluateTask& task) {
  Arena arena{nullptr};
  arena.take<float>(int64_t(task.coding.n_features + 1) * kRowTile);
  arena.take<double>(int64_t(task.forest.n_outputs) * kRowTile);
  arena.take<int32_t>(task.forest.n_trees);
  return arena.used();
}

}  // namespace
}  // namespace silva
