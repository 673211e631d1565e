// What one row's walk reads (explain/cpu/row_walk.h). Plain data.
#pragma once
#include <cstdint>

#include "common/rows.h"
#include "common/split.h"

namespace silva {

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
};

template <class Real>
struct RowWalkTask {
  const RowNode<Real>* nodes;
  const RowTree* trees;
  const int32_t* slot_player;
  const Real* points;
  const Real* means;  // [record][side][output], of vector leaves
  const CategorySet* sets;
  const uint32_t* words;
  int32_t n_outputs, width;
  const float* encoded;  // [feature]: the row
};

// What a thread needs.
template <class Real>
struct RowSpace {
  Real* z;        // [slot]
  char* waiting;  // [depth]
  char* frames;   // [depth]
  char* phi;      // [slot]
};

constexpr int kMostRowLanes = 16;
constexpr int64_t kRowWaitingBytes = 2 * 8 * sizeof(double);  // at least a waiting split with a weight a coalition
constexpr int64_t kRowFrameBytes = 8 * kMostRowLanes * sizeof(double);  // at least a frame of the most lanes

}  // namespace silva
