// Leaves that hold linear models: what a tree adds to the margins of some rows. The CPU's counterpart of
// evaluate/cuda/sum_linear.cu, with its bits (logarithms aside); kernels of their own, where no product is fused with a
// sum.
#pragma once
#include "common/rows.h"

namespace glasswood {

// What large forests read again for each tile is kept apart from what few of them have.
struct LinearTerm {
  double coefficient;
  int32_t feature;
  int32_t column;  // of the numbers of a group
};

struct LinearModel {
  double value;
  int64_t first;  // of its terms, which end where the next leaf's begin
};

struct LinearBounds {
  double low, high, missing;
  int32_t plain;  // numbers alone
};

constexpr int kLinearGroup = 8;      // rows
constexpr int kFewestInLanes = 128;  // fewer do not pay for rows by column

GLASSWOOD_INLINE int64_t in_groups(int64_t n_rows) { return (n_rows + kLinearGroup - 1) / kLinearGroup * kLinearGroup; }

struct LinearRows {
  const RowSource& source;
  int64_t first_row;
  int n_rows;
};

// The rows' numbers that terms take.
struct LinearNumbers {
  const double* number;  // [group][column][row of the group], or null
  bool missing;          // whether any of them is
};

struct LinearLeaves;
struct LinearKernels {
  LinearNumbers (*lay_out)(const LinearLeaves&, const LinearRows&, double* memory);
  // Adds a tree to the sums of rows that reach the leaves leaf_of[place]: of whole groups where there are numbers.
  void (*add)(const LinearLeaves&, int tree, const int32_t* leaf_of, const int32_t* places, const LinearRows&,
              const LinearNumbers&, double* sums);
};

// Plain data (common/instruction_set.h says why). Leaves are constant where `kernels` is null.
struct LinearLeaves {
  const LinearKernels* kernels;
  const LinearTerm* term;
  const int32_t* category;     // [term], common/linear_term.h
  const double* mean;          // [term], or null: all are 0
  const LinearModel* model;    // [leaf + 1]
  const LinearBounds* bounds;  // [leaf]
  const int64_t* first_leaf;   // [tree + 1]
  const double* weight;        // [tree]
  const int32_t* features;     // [column]
  int32_t n_columns;
  int32_t plain;     // whether leaves are of numbers alone and have no bounds, except for missing numbers
  int32_t in_lanes;  // whether the terms pay for rows by column
};

// Numbers of rows by column; 0 where rows are taken as they lie.
GLASSWOOD_INLINE int64_t linear_size(const LinearLeaves& leaves, int64_t n_rows) {
  return leaves.in_lanes && n_rows >= kFewestInLanes ? leaves.n_columns * in_groups(n_rows) : 0;
}

const LinearKernels& linear_kernels();

}  // namespace glasswood
