// What the bindings of effects hand to the kernel, and the table through which they reach that of the machine's
// instruction set. Plain data (common/instruction_set.h says why).
//
// The partial dependence on a set of features S sums, over the leaves whose conditions on S a point meets, the leaf's
// value times the share of the rows that meet its other conditions. These are the rows whose set of features with unmet
// conditions lies within S: it is enough to know, for each leaf, how many rows have which set of at most two.
#pragma once
#include "common/split.h"

namespace glasswood {

// A node of a tree, in the order of a walk: the left subtree, then the right one. Features have the positions in which
// the path first splits for them.
struct CountVisit {
  int32_t depth;
  int32_t feature;       // -1: a leaf
  int32_t entered;       // position of the parent's feature
  int32_t n_positions;   // of the path to the node
  int32_t next;          // visit after the subtree
  int32_t category_set;  // -1: a number
  bool is_new;           // whether the path has not split for it before
  bool is_left;          // side of its parent that it is on
  bool missing_left;
  float threshold;      // NaN: every number goes left
  int64_t first_count;  // of a leaf
};

// A leaf's counts: rows that meet all conditions; then for each position rows that miss its conditions alone; then for
// each two positions q < p, in the order of p, rows that miss those of both.
constexpr int64_t counts_of(int64_t n_positions) { return 1 + n_positions + n_positions * (n_positions - 1) / 2; }

struct CountTask {
  const CountVisit* visits;
  int32_t n_visits, depth, most_positions;
  const CategorySet* category_sets;
  const uint32_t* set_words;
  const float* tile;  // [feature][row], encoded
  int64_t stride;     // of a feature
  int32_t n_rows;
  const double* weight;  // [row]; null: 1
  double* counts;        // added to
  char* workspace;
};

struct InspectionKernels {
  int64_t (*workspace)(const CountTask&);  // bytes
  void (*count)(const CountTask&);
};

}  // namespace glasswood
