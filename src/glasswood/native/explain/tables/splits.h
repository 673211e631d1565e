// The splits and leaves of subtrees, for cores and GPUs alike.
#pragma once
#include "common/lanes.h"

namespace glasswood {

// A feature of the path to a subtree's root: its lane and the product of its edges' cover ratios.
struct PathFactor {
  int32_t lane;
  int32_t padding;
  double z;
};

// Where a cell of a split finds its children's cells, and the side that its state takes: 0 neither (the feature is
// outside of the path already), 1 left, 2 right.
struct alignas(8) Cell {
  unsigned short child[2], side, padding;
};

// A split of a subtree. A *cell* is a state of all features below it.
struct SubtreeSplit {
  int32_t child[2];    // the child's split, counted from the subtree's first; -1: a leaf
  int32_t leaf[2];     // of children that are leaves
  int32_t lane;        // of its feature
  uint32_t again;      // bit s: child s splits the feature again
  uint32_t absent[2];  // lanes of features below this split that child s does not split
  int32_t n_cells;
  int32_t first_x;  // cells of the subtree's splits before it
  int64_t first_cell;
  double z_above, ratio[2];
};

// What one side of a split multiplies its child's sums with at the point t, with the letters of explain/cpu/shap.h:
// `factor` is A_c, `slope` κ_c / H², which lanes of the split's feature take. taken: as Cell::side.
struct SplitEdge {
  double factor, slope;
};

GLASSWOOD_INLINE SplitEdge split_edge(const SubtreeSplit& split, int side, int taken, double t) {
  const double above = split.z_above, z = above * split.ratio[side];
  const double h = above + (1 - above) * t, o = taken == side + 1;
  return {taken ? (z + (o - z) * t) / h : split.ratio[side], taken ? (o * above - z) / (h * h) : 0.0};
}

// What a feature of the path contributes in a state inside of it or outside: the factor g at the point t, and o - z in
// its place in lanes of the feature.
GLASSWOOD_INLINE double path_factor(double z, bool inside, double t) { return inside ? z + (1 - z) * t : z * (1 - t); }
GLASSWOOD_INLINE double path_slope(double z, bool inside) { return inside ? 1 - z : -z; }

// A leaf of a subtree, whose *positions* are the players of its path: first those with a feature that splits of the
// subtree test, or with several on the path to the root, then those of one on that path alone. A row in a state does
// not meet the conditions of some of them: bits of positions, by the state of the features of the former in `unmet`.
struct SubtreeLeaf {
  int32_t leaf;
  int32_t n_positions, n_below;
  int32_t padding;
  int64_t first_lane;   // [position] of leaf_lanes
  int64_t first_unmet;  // [cell of the subtree]
};

}  // namespace glasswood
