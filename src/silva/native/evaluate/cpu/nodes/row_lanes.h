// All splits of a tree for a vector of rows: by_node where there are rows to fill vectors. Included by
// evaluate/cpu/nodes/schedule.h only.
//
// A lane is a row. A node's mask says which rows reach it: a split divides its own mask among its children, in the
// order of the nodes, and a row's leaf is the one whose mask has it. Nothing is looked up and nothing waits: 64 rows of
// 8-bit ranks take some six instructions a split, and by categories four more. Where all splits of a level are the same
// one (CatBoost's oblivious trees), each level adds a bit to the leaf's number.
#pragma once
#include "common/vectors.h"
#include "evaluate/cpu/nodes/byte_table.h"
#include "evaluate/cpu/nodes/tables.h"

namespace silva {
namespace {

constexpr int kVectorsTogether = 4;  // at most
constexpr int kMostGroups = 16;      // of classes that are looked up group by group

template <class Code>
struct RowLanes {
  typedef Code Vector __attribute__((vector_size(kVectorBytes)));
  static constexpr int kLanes = kVectorBytes / int(sizeof(Code));
  static constexpr int kFewestRows = kLanes;

  const NodeTables& forest;
  const Code *codes, *flags;  // [column][stride]
  int64_t stride;
  Vector* reached;  // [node][kVectorsTogether]

  // Whole vectors, and whole blocks of the encoding (evaluate/cpu/nodes/rows.h).
  static int64_t padded(int64_t n_rows) {
    constexpr int kBlockRows = kLanes > kSearchWidth ? kLanes : kSearchWidth;
    return (n_rows + kBlockRows - 1) / kBlockRows * kBlockRows;
  }
  static SILVA_INLINE Vector splat(Code x) { return Vector{} + x; }

  // The leaves that the rows reach in one tree.
  template <bool Missing, bool Classes>
  void reach(const NodeTree& tree, int n_rows, int32_t* leaf) const {
    int first = 0;
    for (; n_rows - first > 3 * kLanes; first += 4 * kLanes) reach_some<4, Missing, Classes>(tree, first, n_rows, leaf);
    for (; n_rows - first > kLanes; first += 2 * kLanes) reach_some<2, Missing, Classes>(tree, first, n_rows, leaf);
    if (n_rows > first) reach_some<1, Missing, Classes>(tree, first, n_rows, leaf);
  }

  // All bits of a lane are set where the row goes right.
  template <bool Missing, bool Classes>
  SILVA_INLINE Vector right(const LaneSplit& split, int64_t at) const {
    const Vector code = *reinterpret_cast<const Vector*>(codes + split.column * stride + at);
    if constexpr (Classes)
      if (split.n_groups) return class_right(split, code, at);
    const Vector is_right = Vector(code >= splat(Code(split.threshold)));
    if constexpr (!Missing) return is_right;
    const Vector flag = *reinterpret_cast<const Vector*>(flags + split.column * stride + at);
    return (is_right & ~flag) | (flag & splat(Code(-split.default_right)));
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

  // A class is a place among the split's bytes, and a bit there.
  SILVA_INLINE Vector class_right(const LaneSplit& split, Vector place, int64_t at) const {
    const uint32_t* words = forest.words + int64_t(split.threshold) * 4;
    const Vector bit = *reinterpret_cast<const Vector*>(flags + split.column * stride + at);
    Vector byte{};
    if (split.n_groups == 1) {
      byte = look_up(words, place);
    } else if (split.n_groups <= kMostGroups) {
      const Vector group = place >> 4, rest = place & 15;
      for (int i = 0; i < split.n_groups; ++i) byte |= look_up(words + 4 * i, rest) & Vector(group == splat(Code(i)));
    } else {
      byte = look_up_each(words, place);
    }
    return Vector((byte & bit) != Vector{});
  }

  // Of many groups, lane by lane: a function of its own, or it would be compiled, unrolled, at every call of `right`.
  [[gnu::noinline]] static Vector look_up_each(const uint32_t* words, Vector place) {
    Code byte[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) byte[lane] = Code(words[place[lane] >> 2] >> 8 * (place[lane] & 3));
    Vector result;
    __builtin_memcpy(&result, byte, sizeof result);
    return result;
  }

  template <int V, bool Missing, bool Classes>
  void number_bits(const NodeTree& tree, int64_t first, Vector (&number)[V]) const {
    const LaneSplit* split = forest.lane_splits + tree.first_lane;
    for (int v = 0; v < V; ++v) number[v] = Vector{};
    for (int level = 0; level < tree.n_lane_splits; ++level) {
      SILVA_UNROLL
      for (int v = 0; v < V; ++v)
        number[v] = number[v] + number[v] - right<Missing, Classes>(split[level], first + v * kLanes);
    }
  }

  template <int V, bool Missing, bool Classes>
  void divide(const NodeTree& tree, int64_t first, Vector (&number)[V]) const {
    for (int v = 0; v < V; ++v) reached[v] = ~Vector{}, number[v] = Vector{};
    const LaneSplit* split = forest.lane_splits + tree.first_lane;
    for (int i = 0; i < tree.n_lane_splits; ++i, ++split) {
      const Vector* here = reached + split->node * V;
      Vector* below = reached + split->left * V;
      SILVA_UNROLL
      for (int v = 0; v < V; ++v) {
        const Vector is_right = right<Missing, Classes>(*split, first + v * kLanes), mask = here[v];
        below[v] = mask & ~is_right;
        below[V + v] = mask & is_right;
      }
    }
    const LaneLeaf* leaf = forest.lane_leaves + tree.first_lane_leaf;
    for (int i = 0; i <= tree.n_lane_splits; ++i, ++leaf) {
      const Vector own = splat(Code(leaf->number));
      SILVA_UNROLL
      for (int v = 0; v < V; ++v) number[v] |= reached[leaf->node * V + v] & own;
    }
  }
};

}  // namespace
}  // namespace silva
