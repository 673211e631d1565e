// What the kernels of subtree tables read (the plan of explain/tables/plan.h as GPUs like it);
// explain/cuda/tables/plan.h writes it.
#pragma once
#include "explain/tables/splits.h"

namespace glasswood {

constexpr int MOST_TABLE_LANES = 16;  // features of a subtree

// A subtree as its table is built. The table is [state][width], width a multiple of 4: a number for each position, or
// of interactions for each pair (explain/tables/pairs.h) of n_slots positions. By points it
// is t[point], -1 / (1 - t)[point], (1 - z) / (z + (1 - z) t)[feature of the path alone][point], z[feature], filled up
// to 16 bytes, then [cell][width], with four numbers more after eight cells: X of the n_built lanes and T at the
// points, and four unused numbers.
struct alignas(8) TableSubtree {
  long long table;  // in numbers
  long long first_split, first_factor, first_bits;
  int n_cells, n_above, n_shared, n_splits;
  int leaf;  // of subtrees without splits
  int n_lanes, n_slots, width;
  int n_built;  // lanes of X: all, or of tables by points those of the splits below, which are the first
  int n_leaves, most_positions;           // of a background's contents
  long long first_leaf, first_state;      // states of all subtrees, one behind the other
  signed char lane_of[MOST_TABLE_LANES];  // [position in the table's row]: lane, or -1
};

// The key of a row: base, plus `weight` for each step whose `bound` its code in the column has reached.
struct alignas(16) KeyHead {
  int first, n;  // entries
  unsigned base;
  int unused;
};

// Two steps in one column: the first in the low half of a word, the second in the high one.
struct alignas(16) KeyEntry {
  int column;
  unsigned bounds, weights;
  int unused;
};

// A subtree as rows pass.
struct alignas(16) TableRecord {
  long long table;
  int width, n_lanes;
  int slot[MOST_TABLE_LANES];  // [lane]: of the chunk; behind its last where there is no lane
  // By points: the key is cell + n_cells * bits of the features of the path alone; 2^32 / n_cells, rounded up.
  int n_built, n_cells;
  unsigned per_cell, unused;
};

// Subtrees whose tables lie in shared memory together.
struct alignas(16) TableStage {
  long long table;  // first number
  int n_numbers, first_subtree, n_subtrees, unused[3];
};

// Subtrees that are added up by one block, one after the other.
struct alignas(16) StageChunk {
  int first_stage, n_stages;
  int component;  // of a vector leaf
  int n_slots;    // of interactions: pairs
  long long first_slot, unused;
};

}  // namespace glasswood
