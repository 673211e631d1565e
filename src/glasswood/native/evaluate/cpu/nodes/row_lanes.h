// All splits of a tree for a vector of rows: by_node where there are rows to fill vectors. Included by
// evaluate/cpu/nodes/schedule.h only.
//
// A lane is a row. A node's mask says which rows reach it: a split divides its own mask among its children, in the
// order of the nodes, and a row's leaf is the one whose mask has it. Nothing is looked up and nothing waits: 64 rows of
// 8-bit ranks take some six instructions a split, and by categories four more. Where all splits of a level are the same
// one (CatBoost's oblivious trees), each level adds a bit to the leaf's number.
#pragma once
#include "evaluate/cpu/nodes/class_tests.h"
#include "evaluate/cpu/nodes/lane_masks.h"

namespace glasswood {
namespace {

constexpr int kVectorsTogether = 4;  // at most

// Whole vectors, and whole blocks of the encoding (evaluate/cpu/nodes/rows.h).
template <class Code>
int64_t padded(int64_t n_rows) {
  constexpr int kLanes = kVectorBytes / int(sizeof(Code)), kBlockRows = kLanes > kSearchWidth ? kLanes : kSearchWidth;
  return (n_rows + kBlockRows - 1) / kBlockRows * kBlockRows;
}

template <class Code>
struct RowLanes {
  using Masks = LaneMasks<Code>;
  using Vector = typename Masks::Vector;
  using Mask = typename Masks::Mask;
  static constexpr int kLanes = kVectorBytes / int(sizeof(Code));
  static constexpr int kFewestRows = kLanes;

  const NodeTables& forest;
  const Code *codes, *flags;  // [column][stride]
  int64_t stride;
  Mask* reached;  // [node][kVectorsTogether]

  // The leaves that the rows reach in one tree.
  template <bool Missing, bool Classes>
  void reach(const NodeTree& tree, int n_rows, int32_t* leaf) const {
    int first = 0;
    for (; n_rows - first > 3 * kLanes; first += 4 * kLanes) reach_some<4, Missing, Classes>(tree, first, n_rows, leaf);
    for (; n_rows - first > kLanes; first += 2 * kLanes) reach_some<2, Missing, Classes>(tree, first, n_rows, leaf);
    if (n_rows > first) reach_some<1, Missing, Classes>(tree, first, n_rows, leaf);
  }

  // Which rows of V vectors go right.
  template <int V, bool Missing, bool Classes>
  GLASSWOOD_INLINE void decide(const LaneSplit& split, int64_t at, Mask (&right)[V]) const {
    const int64_t place = split.column * stride + at;
    const Vector *code = reinterpret_cast<const Vector*>(codes + place),
                 *flag = reinterpret_cast<const Vector*>(flags + place);
    if constexpr (Classes)
      if (split.n_groups)
        return ClassTests<Code>::decide(forest.words + int64_t(split.threshold) * 4, split.n_groups, code, flag, right);
    GLASSWOOD_UNROLL
    for (int v = 0; v < V; ++v) {
      right[v] = Masks::at_least(code[v], Code(split.threshold));
      if constexpr (Missing) {
        const Mask missing = Masks::marked(flag[v]);
        right[v] = (right[v] & ~missing) | (missing & Masks::all(split.default_right));
      }
    }
  }

 private:
  template <int V, bool Missing, bool Classes>
  void reach_some(const NodeTree& tree, int first, int n_rows, int32_t* leaf) const {
    Vector number[V];
    if (tree.is_oblivious)
      number_bits<V, Missing, Classes>(tree, first, number);
    else
      divide<V, Missing, Classes>(tree, first, number);
    const Code* numbers = reinterpret_cast<const Code*>(number);
    const int n = n_rows - first < V * kLanes ? n_rows - first : V * kLanes;
    for (int row = 0; row < n; ++row) leaf[first + row] = tree.first_leaf + numbers[row];
  }

  template <int V, bool Missing, bool Classes>
  void number_bits(const NodeTree& tree, int64_t first, Vector (&number)[V]) const {
    const LaneSplit* split = forest.lane_splits + tree.first_lane;
    for (int v = 0; v < V; ++v) number[v] = Vector{};
    for (int level = 0; level < tree.n_lane_splits; ++level) {
      Mask right[V];
      decide<V, Missing, Classes>(split[level], first, right);
      GLASSWOOD_UNROLL
      for (int v = 0; v < V; ++v) number[v] = Masks::add_one(number[v] + number[v], right[v]);
    }
  }

  template <int V, bool Missing, bool Classes>
  void divide(const NodeTree& tree, int64_t first, Vector (&number)[V]) const {
    const RowLanes own = *this;  // whose members no mask that is written may change
    Mask* const masks = reached;
    for (int v = 0; v < V; ++v) masks[v] = Masks::all(true), number[v] = Vector{};
    const LaneSplit *split = forest.lane_splits + tree.first_lane, *end = split + tree.n_lane_splits;
    const LaneLeaf *leaf = forest.lane_leaves + tree.first_lane_leaf, *last = leaf + tree.n_lane_splits;
    for (; split < end; ++split) {
      Mask right[V];
      own.template decide<V, Missing, Classes>(*split, first, right);
      const Mask* here = masks + split->node * V;
      Mask* below = masks + split->left * V;
      GLASSWOOD_UNROLL
      for (int v = 0; v < V; ++v) {
        const Mask mask = here[v];
        below[v] = mask & ~right[v];
        below[V + v] = mask & right[v];
      }
    }
    for (; leaf <= last; ++leaf) {
      const Mask* mask = masks + leaf->node * V;
      GLASSWOOD_UNROLL
      for (int v = 0; v < V; ++v) number[v] = Masks::put(number[v], mask[v], Code(leaf->number));
    }
  }
};

}  // namespace
}  // namespace glasswood
