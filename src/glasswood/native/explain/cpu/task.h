// What explain/cpu/bindings.cpp hands to the kernels of the explanations, and the table through which it reaches those
// of the machine's instruction set. Plain data (common/instruction_set.h says why).
#pragma once
#include "common/rows.h"
#include "common/threads/team.h"
#include "explain/cpu/linear.h"
#include "explain/cpu/row_task.h"
#include "explain/cpu/shap.h"

namespace glasswood {

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
  int32_t output;         // of scalar leaves
  int32_t n_points;       // K, exact for the tree's paths
  int32_t first_slot;     // into slot_player
  int32_t n_slots;        // distinct players of the tree, or of the trees that share slots
  int32_t n_sharing;      // trees from here on that share slots; 1: none but this one
  int64_t first_inverse;  // into inverse: rows of n_points
  int64_t first_delta;    // into deltas: two rows of n_points a split
  int64_t first_point;    // into points: n_points abscissae, as many weights, and the rows of explain/cpu/forms.h
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
  const int32_t* slot_player;
  const int32_t* total_of;  // [output][player]
  const Real* leaf_value;   // [leaf][width], width > 1 only
  const CategorySet* sets;
  const uint32_t* words;
  const Real* points;  // Gauss-Legendre on [0, 1], and the basis of explain/cpu/forms.h there
  const LinearTerm<Real>* terms;
  const LinearEntry<Real>* entries;
  const LinearLeaf* models;  // [leaf]; null: constant leaves
  const LoneLeaf* lone_leaves;
  int32_t n_lone_leaves, max_terms, max_entries;
  int32_t n_trees, n_outputs, width, n_features, n_players, n_totals;
  int32_t max_slots, max_depth;
  int32_t n_blocks;         // blocks of a vector's rows that a thread explains together (values only)
  const int32_t* selected;  // interactions: rank of each player among those asked for, or -1
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

template <class Real>
struct TypedExplainKernels {
  int32_t lanes;
  int64_t (*workspace)(const ExplainTask<Real>&, bool interactions);
  void (*values)(const ExplainTask<Real>&);
  void (*interactions)(const ExplainTask<Real>&);
  void (*row)(const RowWalkTask<Real>&, const RowSpace<Real>&, const RowTree* first, const RowTree* end, double* total);
};

struct ExplainKernels {
  TypedExplainKernels<float> single;
  TypedExplainKernels<double> twice;
};

}  // namespace glasswood
