// What the explanation of one row reads (explain/cpu/row_leaves.h, row_walk.h). Plain data.
#pragma once
#include <cstdint>

#include "common/rows.h"
#include "common/split.h"

namespace glasswood {

// A split. Splits lie in preorder: the left child's record is the next one, unless it is a leaf.
template <class Real>
struct RowNode {
  uint32_t below[2];  // bits of the players that the splits below each child test, as bit_of_slot has them
  union {
    float threshold;  // NaN: every number goes left
    int32_t set;      // of categories
  };
  int32_t feature;
  int32_t right;            // record of the right child
  uint32_t slot_and_flags;  // the player's number in the tree; two SplitFlags
  Real ratio[2];            // cover ratios
  Real mean[2];             // what the leaves below each child return on average; of leaves that are one number

  int32_t slot() const { return int32_t(slot_and_flags >> 2); }
  uint32_t flags() const { return slot_and_flags & 3; }
};

// A split above the parts of explain/cpu/row_blocks.h, its edges numbered 1 + 2 * split + side; 0 is the root.
struct UpperSplit {
  union {
    float threshold;
    int32_t set;
  };
  int32_t edge;  // that leads to it
  uint16_t feature;
  uint8_t slot, flags;
};

// A split inside of a part, and bits of the leaves of the block that lie on each side.
template <class Real>
struct BlockSplit {
  union {
    float threshold;
    int32_t set;
  };
  uint16_t leaves[2];
  uint16_t feature;
  uint8_t slot, flags;
  Real ratio[2];
};

// A subtree whose leaves a block has.
struct BlockPart {
  int32_t edge;  // that leads to it
  uint32_t leaves;
};

struct LeafBlock {
  int16_t n_parts, n_splits;
};

constexpr int32_t kBlockLeaves = 16;
// Most players of a tree in blocks: with more, the walk of explain/cpu/row_walk.h costs no more.
constexpr int32_t kBlockSlots = 12;

// Pairs of players that kernels are compiled for.
constexpr int32_t pairs_of(int32_t n_slots) { return n_slots <= 8 ? 4 : kBlockSlots / 2; }

// Players beyond 31 share a bit, which says nothing.
constexpr int32_t kSharedBit = 31;
constexpr uint32_t bit_of_slot(int32_t slot) { return uint32_t(1) << (slot < kSharedBit ? slot : kSharedBit); }

struct RowTree {
  int32_t root;
  int32_t output;       // of scalar leaves
  int32_t first_slot;   // into slot_player
  int32_t n_slots;      // distinct players
  int32_t n_points;     // a multiple of the lanes
  int32_t lanes;        // 4, 8 or 16
  int64_t first_point;  // into points: n_points abscissae, then as many weights; those that fill up weigh 0
  // Of a tree in blocks, which has no records: pairs of players, the last without splits if n_slots is fewer, and
  // points as explain/cpu/row_leaves.h wants them.
  int32_t n_pairs = 0, n_blocks = 0, n_upper = 0;
  int64_t first_block = 0, first_upper = 0, first_part = 0, first_split = 0, first_z = 0;
};

template <class Real>
struct RowWalkTask {
  const RowNode<Real>* nodes;
  const RowTree* trees;
  const int32_t* slot_player;
  const Real* points;
  const Real* means;  // [record][side][output], of vector leaves
  const UpperSplit* upper;
  const LeafBlock* blocks;
  const BlockPart* parts;
  const BlockSplit<Real>* block_splits;
  const Real* part_z;       // [part][player]: products of the cover ratios on the way to it
  const Real* block_value;  // [block][output][leaf]
  const CategorySet* sets;
  const uint32_t* words;
  int32_t n_outputs, width;
  const float* encoded;  // [feature]: the row
};

// Whether the row goes left at a split of any kind.
template <class Real, class Split>
GLASSWOOD_INLINE bool row_goes_left(const RowWalkTask<Real>& task, const Split& split, uint32_t flags) {
  const float x = task.encoded[split.feature];
  if (flags & kCategorical && x == x) return category_goes_left(task.sets[split.set], task.words, x);
  return x != x ? flags & kDefaultLeft : !(x >= split.threshold);
}

// What a thread needs.
template <class Real>
struct RowSpace {
  Real* z;        // [slot]
  char* frames;   // [depth]
  char* phi;      // [slot]; of blocks [slot][output]
  uint16_t* met;  // [edge]: bits of the players that the way to it meets
};

constexpr int kMostRowLanes = 16;
constexpr int64_t kRowFrameBytes = 8 * kMostRowLanes * sizeof(double);  // at least a frame of the most lanes

}  // namespace glasswood
