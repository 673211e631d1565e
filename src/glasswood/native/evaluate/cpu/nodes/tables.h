// Trees whose splits stand beside each other in vector registers: the layouts of by_node and windowed (Spencer 2011,
// procedures 4 and 5, section 6). Plain data, shared by the plan and the kernels.
//
// A row is a short table of codes, one a column, that fits a few registers; one permutation of it by the splits'
// columns and one comparison with their thresholds decide as many splits as a register has lanes. A split by categories
// is a bit of its words (common/category_classes.h) at the row's class.
#pragma once
#include "evaluate/cpu/task.h"

namespace glasswood {

// What a code is: an exact rank among the thresholds of its column in 8 or 16 bits, or the float of common/rows.h.
enum class CodeType : int32_t { kByte, kShort, kFloat };

constexpr int kBlock = 64;           // splits whose decisions fill a word
constexpr int kMostBlocks = 4;       // of a tree under by_node
constexpr int kBlockLevels = 6;      // of a complete tree of one block
constexpr int kMostLevels = 8;       // of a complete tree of several blocks
constexpr int kLeafCode = kBlock;    // in paths of bytes, leaves are numbered from here
constexpr int kSmallestWindow = 16;  // positions
constexpr int kSearchWidth = 16;     // 15 pivots and a NaN
constexpr int kPageGroups = 16;      // of 16 bytes: as many as a code of 8 bits has places
constexpr int kPageClasses = 8 * 16 * kPageGroups;
constexpr int kSearchLevels = 4;  // enough for 65,535 thresholds

// Where a column's codes come from.
struct NodeColumn {
  int32_t feature;
  int32_t n_classes;  // of categories; 0: numerical
  int32_t n_levels;
  int32_t search[kSearchLevels];  // first node of each level of the search for the rank
};

// How the leaf follows from the decisions.
enum class PathKind : int32_t {
  kHeap,     // at most 8 levels: split i has the children 2 i and 2 i + 1
  kReduced,  // at most 64 splits: a path of bytes in a register, reduced by permuting it by itself
  kLinked,   // any other shape of at most 255 splits: the path is followed link by link
};

// For rows in lanes (evaluate/cpu/nodes/row_lanes.h): a split, in the order of the tree's nodes, and a leaf.
struct LaneSplit {
  int32_t column;
  int32_t threshold;   // code; of categories: the group of 16 bytes where the split's words begin
  int16_t node, left;  // numbers in the tree; the right child follows the left one
  int16_t default_right;
  int16_t n_groups;  // of 16 bytes; 0: numerical
};
struct LaneLeaf {
  int16_t node, number;  // number: from the tree's first_leaf
};

// A split by categories, and where it stands in a block or window.
struct ClassSplit {
  int64_t first_word;
  uint64_t positions;
  int32_t column;
  int32_t has_pages;  // of the column's classes (evaluate/cpu/nodes/rows.h)
};

struct NodeTree {
  int64_t first_position;  // into column and threshold
  int64_t first_link;      // kReduced: into children; kLinked: into links
  int32_t first_block;
  int32_t first_leaf;  // kHeap: of 2^levels exits, a leaf above the last level stands at several
  PathKind kind;
  int32_t n_blocks;  // of 64 positions
  int32_t levels;    // depth of the tree
  int32_t n_positions;
  int32_t is_oblivious = 0;   // the splits of a level are one
  int32_t n_lane_splits = 0;  // of an oblivious tree: its levels
  int64_t first_lane = 0, first_lane_leaf = 0;
};

// Rows in lanes: the leaves of a tree have numbers below this, from `first_leaf` on.
inline int leaf_numbers(const NodeTree& tree) {
  if (tree.is_oblivious) return 1 << tree.n_lane_splits;
  return tree.kind == PathKind::kHeap ? 1 << tree.levels : tree.n_lane_splits + 1;
}
constexpr int kMostLookedUp = 64;  // whose values are looked up in registers (evaluate/cpu/nodes/leaf_values.h)

// Trees of up to 8 levels in lanes (evaluate/cpu/nodes/tree_lanes.h), with codes of 8 bits: the upper levels of two
// trees, then the lower ones below each of a tree's exits.
constexpr int kUpperLevels = 5, kUpperExits = 1 << kUpperLevels, kLowerLevels = kMostLevels - kUpperLevels;
constexpr int kPairBytes = 4 * kUpperExits;     // columns of two trees, then thresholds
constexpr int kLowerBytes = 2 << kLowerLevels;  // columns, then thresholds; the first of these are default sides
constexpr int kLowerTreeBytes = kUpperExits * kLowerBytes;
constexpr int kLaneTrees = 16;  // a group
// Deeper trees have blocks of as many levels as the lower ones, linked: the first byte has a bit for each exit that
// goes on, the last eight say where it leads.
constexpr int kLinkBytes = kLowerBytes + (1 << kLowerLevels);
struct TreeLaneTables {
  const uint8_t* upper;           // [pair]; null: trees are walked one by one
  const uint32_t* upper_default;  // [tree], a bit a position
  const uint8_t* lower;           // [tree][exit]; of deeper trees: [block] of kLinkBytes
  const int64_t* first_lower;     // [group] into lower; below 0: no tree has lower levels
  const int32_t* first_leaf;      // [tree]
  const int32_t* shift;           // [tree]: levels that are missing at 8
  const uint8_t* exits;           // [tree][exit] of the upper levels: a leaf or a block of the tree; null: 8 levels do
  const uint32_t* goes_on;        // [tree], a bit an exit: to a block
  const int32_t* first_block;     // [tree]
};

struct NodeTables {
  CodeType code_type;
  int32_t n_columns;
  const void* column;                // [position], as wide as a code: which of the row's codes the split compares
  const void* threshold;             // [position] in codes: the row goes right if its code is not below
  const uint64_t* default_right;     // [block or window], a bit a position
  const int32_t* first_class_split;  // [block or window + 1] into class_splits; null: no categories
  const ClassSplit* class_splits;
  const NodeTree* trees;
  const uint8_t* children;       // kReduced: left children of 64 positions, then right children
  const int32_t* exits;          // of windows: what stands below the last level: a window, or -1 - leaf
  const uint16_t* links;         // kLinked: [position][side]: a position, or 256 + leaf of the tree
  const LaneSplit* lane_splits;  // null: rows are not taken in lanes
  const LaneLeaf* lane_leaves;
  const double* value;  // [leaf][width], times the tree's weight
  const int32_t* leaf_id;
  const int32_t* leaf_place;  // of linear leaves: number among all leaves of the forest
  const int32_t* tree_output;
  const double* base_score;
  const NodeColumn* columns;
  const float* search32;   // nodes of kSearchWidth
  const double* search64;  // of float64 forests
  const uint32_t* words;
  int32_t n_trees, n_outputs, width;
  int32_t window_levels;  // 0: by_node
  int32_t reductions;     // per pass of by_node; 0: all that the tree's depth can need
  int32_t most_nodes;     // of a tree
  TreeLaneTables tree_lanes;
};

// Features whose ranks among their thresholds are known, from one on; rows hold those before it.
struct GivenRanks {
  const uint8_t* ranks;  // [feature - first][row], or null
  int32_t first;
  int64_t n_rows;

  GLASSWOOD_INLINE const uint8_t* of(int32_t feature) const {
    return ranks && feature >= first ? ranks + (feature - first) * n_rows : nullptr;
  }
};

struct NodeTask : RowsTask {
  NodeTables forest;
  GivenRanks given;
  int32_t tile_rows;
  int32_t in_place;  // rows are float32 codes as they lie
};

// Predictions with the values of some columns in other rows (evaluate/cpu/nodes/moved_values.h).
struct MovedTask : NodeTask {
  const int32_t* moved;    // columns of codes
  const int64_t* sources;  // [source][row]: the row that the value comes from
  int32_t n_moved, n_sources;
  void* moved_codes;  // room for [moved][row], and for as many flags
  double* out;        // [moved][source][row][output]
};

struct NodeKernels {
  int32_t has_bytes;                           // permutes 64 bytes by one instruction
  int32_t vector_bytes;                        // of rows in lanes
  int32_t (*in_registers)(const NodeTables&);  // whether splits look a row up in registers
  int64_t (*workspace)(const NodeTask&);
  void (*evaluate)(const NodeTask&);
  int64_t (*moved_workspace)(const MovedTask&);
  void (*evaluate_moved)(const MovedTask&);
};

const NodeKernels& node_kernels();

}  // namespace glasswood
