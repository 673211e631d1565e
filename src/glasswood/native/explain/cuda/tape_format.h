// The records of a tape, in the order of the walk and in units of 16 bytes: what explain/cuda/tape.h writes and
// explain/cuda/walk.h reads.
//
//   chunk    Chunk; t[K]; w[K]; its trees; one unused record
//   tree     Head; the subtree of its root
//   subtree  of a split with two leaves: Head; {mean, step_left, step_right, mean_outside};
//                repeated: Links, {jump_left, jump_right}, 1/H[K]; pairs
//            of any other split: Head; {z_1, z_2, v_2}; Links?; interactions: hot_1[K], cold_1[K];
//                repeated: {rho_1, rho_2, z_p}, 1/H[K]; subtree of the first child; Head; hot_1[K]; cold_1[K];
//                two subtrees: {z_2, rho_2}; Links?; interactions: hot_2[K], cold_2[K]; subtree; Head; hot_2[K];
//                cold_2[K]; pairs
//
// Links follow where the feature is split above or below, and always on tapes of interactions. K numbers are padded to
// a multiple of four. hot and cold are r of an edge that the row takes and does not take (explain/cuda/walk.h). A Head
// says where the next one lies and which column the next split tests, so that a walk loads both ahead.
#pragma once

#ifndef GLASSWOOD_DEVICE
#define GLASSWOOD_DEVICE inline
#endif

namespace glasswood {

enum Flags {
  TWO_LEAVES = 1,          // both children are leaves
  ONE_LEAF = 2,            // the second child is a leaf
  REPEATED = 4,            // the feature is split above
  TRACKED = 8,             // the feature is split below
  SIZE = 63 << 4,          // bytes of the record without its pairs
  SWAPPED = 1 << 10,       // the first child is the right one
  SECOND_CHILD = 1 << 11,  // in the Head after a subtree: it was the second child's
  FETCH = 1 << 12,         // at least WINDOW bytes since the last FETCH
  FLAGS = (1 << 13) - 1,
};

constexpr int HEIGHT_SHIFT = 13, TALLEST = 7, PAIRS_SHIFT = 16, MOST_PAIRS = 65535, WINDOW = 2048, SECOND_SHIFT = 11;

struct alignas(16) Quad {
  int word[4];
};

struct alignas(16) Head {
  int next_column;              // that the next split tests
  int threshold, slot, packed;  // ~slot where a value is the first that the accumulator gets
  GLASSWOOD_DEVICE bool has(int flag) const { return packed & flag; }
  GLASSWOOD_DEVICE int height() const { return packed >> HEIGHT_SHIFT & TALLEST; }  // levels of splits, at most TALLEST
  GLASSWOOD_DEVICE int n_bytes() const { return packed & SIZE; }
  GLASSWOOD_DEVICE int n_pairs() const { return int(unsigned(packed) >> PAIRS_SHIFT); }
};

// For the feature's split above and for this split: a bit of the row's `hot` (its word and a mask), a level of the
// walk.
struct alignas(16) Links {
  unsigned previous_mask, mask;
  unsigned short level, word, previous_level, previous_word;
};

struct alignas(16) Chunk {
  int n_trees, unused[3];
};

struct alignas(16) Pairs {  // two features above: accumulator of the pair, level of the feature's last split
  int slot[2], level[2];
};

}  // namespace glasswood
