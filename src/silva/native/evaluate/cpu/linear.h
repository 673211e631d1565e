// Leaves that hold linear models: what a tree adds to the margins of some rows. The CPU's counterpart of
// evaluate/cuda/sum_linear.cu, with its bits (logarithms aside); a file of its own, where no product is fused with a
// sum.
#pragma once
#include "common/rows.h"

namespace silva {

struct LinearTerm {
  int32_t feature, category;  // common/linear_term.h
  double coefficient, mean;
};

struct LinearModel {
  int64_t first, end;  // terms
  double value, low, high, missing;
  int32_t plain;  // numbers alone
};

// Plain data (common/instruction_set.h says why). Leaves are constant where `add` is null.
struct LinearLeaves {
  const LinearTerm* term;
  const LinearModel* model;   // [leaf]
  const int64_t* first_leaf;  // [tree + 1]
  const double* weight;       // [tree]
  int32_t any_mean;           // whether any mean is not 0
  // Adds a tree to the sums of rows that reach the leaves leaf_of[place].
  void (*add)(const LinearLeaves&, int tree, const int32_t* leaf_of, const int32_t* places, const RowSource& rows,
              int64_t first_row, int n_rows, double* sums);
};

}  // namespace silva
