// What the plans (evaluate/cpu/bindings.cpp, explain/cpu/bindings.cpp) hand to the kernels, and the table through which
// they reach those of the machine's instruction set. Plain data: the kernel file is compiled several times and must
// share no inline library code with the others.
#pragma once
#include "common/rows.h"
#include "common/threads/team.h"
#include "evaluate/cpu/tables.h"
#include "explain/cpu/linear.h"
#include "explain/cpu/shap.h"

namespace silva {

struct EvaluateTask {
  EvaluateTables forest;
  RowCoding coding;
  RowSource rows;
  Team team;
  int32_t n_threads;  // of the team at most
  int32_t serial;     // 1: row by row, scalar, on one thread
  int32_t any_categorical;
  int32_t tiles_together;  // of rows, 1 to max_tiles
  char* workspace;         // n_threads * workspace_size bytes, 64-byte aligned
  int64_t workspace_size;
  double* margin;  // [row][output], or null
  int32_t* leaf;   // [row][tree], or null
};

// Where explanations go: out[row * row_stride + feature * feature_stride (+ second * second_stride) + output], strides
// in elements.
template <class Real>
struct ExplanationTarget {
  Real* data;
  int64_t row_stride, feature_stride, second_stride, output_stride;
};

// One tree with at least one split.
struct ShapTree {
  int32_t root;
  int32_t output;      // of scalar leaves
  int32_t n_points;    // K, exact for the tree's paths
  int32_t first_slot;  // into slot_feature
  int32_t n_slots;     // distinct features of the tree
  int32_t padding;
  int64_t first_inverse;  // into inverse: rows of n_points
  int64_t first_delta;    // into deltas: two rows of n_points a split
  int64_t first_point;    // into points: n_points abscissae, then as many weights
};

// A tree without splits whose leaf is a linear model.
struct LoneLeaf {
  int32_t leaf, output;
};

template <class Real>
struct ExplainTask {
  const ShapNode<Real>* nodes;
  const Real* inverse;
  const Real* deltas;  // interactions only
  const ShapTree* trees;
  const int32_t* slot_feature;
  const Real* leaf_value;  // [leaf][width], width > 1 only
  const CategorySet* sets;
  const uint32_t* words;
  const Real* points;  // Gauss-Legendre on [0, 1]
  const LinearTerm<Real>* terms;
  const LinearLeaf* models;  // [leaf]; null: constant leaves
  const LoneLeaf* lone_leaves;
  int32_t n_lone_leaves, max_terms;
  int32_t n_trees, n_outputs, width, n_features;
  int32_t max_slots, max_depth;
  int32_t n_blocks;         // blocks of a vector's rows that a thread explains together (values only)
  const int32_t* selected;  // interactions: rank of each feature among those asked for, or -1
  int32_t n_selected;
  RowCoding coding;
  RowSource rows;
  Team team;
  int32_t n_threads;  // of the team at most
  char* workspace;
  int64_t workspace_size;  // bytes of one thread
  int32_t double_out;
  ExplanationTarget<float> out32;
  ExplanationTarget<double> out64;
};

struct KernelTable {
  const char* name;
  int32_t float_lanes, double_lanes;
  int32_t row_tile;   // rows that the evaluation walks through a tree at once
  int32_t max_tiles;  // row tiles that a thread may evaluate together
  int64_t (*evaluate_workspace)(const EvaluateTask&);
  void (*evaluate)(const EvaluateTask&);
  int64_t (*explain_workspace_f32)(const ExplainTask<float>&, bool interactions);
  int64_t (*explain_workspace_f64)(const ExplainTask<double>&, bool interactions);
  void (*explain_f32)(const ExplainTask<float>&);
  void (*explain_f64)(const ExplainTask<double>&);
  void (*interact_f32)(const ExplainTask<float>&);
  void (*interact_f64)(const ExplainTask<double>&);
};

// The best table that this processor runs; SILVA_ISA=v2|v3|v4 in the environment asks for a lower one,
// SILVA_ISA=scalar for one row a lane.
const KernelTable& kernels();

}  // namespace silva
