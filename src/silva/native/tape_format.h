// The records of a tape, in the order of the walk and in units of 16 bytes: what tape.h writes and walk.h reads.
//
//   chunk    Chunk; t[K]; w[K]; its trees; one unused record
//   tree     the subtree of its root
//   subtree  of a split with two leaves: Head; Links?; {mean, step_left, step_right, mean_outside};
//                repeated: {jump_left, jump_right}, 1/H[K]; pairs
//            of any other split: Head; Links?; {z_1, z_2, v_2}; repeated: {rho_1, rho_2, z_p}, 1/H[K];
//                interactions: hot_1[K], cold_1[K]; subtree of the first child; Head; hot_1[K]; cold_1[K];
//                two subtrees: Links?; {z_2, rho_2}; interactions: hot_2[K], cold_2[K]; subtree; Head; hot_2[K]; cold_2[K];
//                pairs
//
// Links follow where the feature is split above or below, and always on tapes of interactions. K numbers are padded to
// a multiple of four. hot and cold are r of an edge that the row takes and does not take (walk.h). A Head says where
// the next one lies and which column it tests, so that a walk loads both ahead.
#pragma once

#ifndef SILVA_DEVICE
#define SILVA_DEVICE inline
#endif

namespace silva {

enum Flags {
  TWO_LEAVES = 1,    // both children are leaves
  ONE_LEAF = 2,      // the second child is a leaf
  REPEATED = 4,      // the feature is split above
  TRACKED = 8,       // the feature is split below
  SWAPPED = 16,      // the first child is the right one
  SECOND_CHILD = 32  // in the Head after a subtree: it was the second child's
};

constexpr int HEIGHT_SHIFT = 6, TALLEST = 15, SIZE_SHIFT = 10, LARGEST_SIZE = 63, PAIRS_SHIFT = 16, MOST_PAIRS = 65535;

struct alignas(16) Quad {
  int part[4];
};

struct alignas(16) Head {
  int next_column;  // that the next Head tests
  int threshold, slot, packed;
  SILVA_DEVICE bool has(int flag) const { return packed & flag; }
  SILVA_DEVICE int height() const { return packed >> HEIGHT_SHIFT & TALLEST; }  // levels of splits, at most TALLEST
  SILVA_DEVICE int size() const { return packed >> SIZE_SHIFT & LARGEST_SIZE; }  // of the record without its pairs
  SILVA_DEVICE int n_pairs() const { return int(unsigned(packed) >> PAIRS_SHIFT); }
};

struct alignas(16) Links {
  int previous, track;        // bits of `hot`: of the feature's split above, of this split
  int level, previous_level;  // of the node and of the feature's split above
};

struct alignas(16) Chunk {
  int n_trees, first_column, unused[2];
};

struct alignas(16) Pairs {  // two features above: accumulator of the pair, level of the feature's last split
  int slot[2], level[2];
};

}  // namespace silva
