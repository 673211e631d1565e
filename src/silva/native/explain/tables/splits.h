// The splits and leaves of subtrees, for cores and GPUs alike.
#pragma once
#include "common/lanes.h"

namespace silva {

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

}  // namespace silva
