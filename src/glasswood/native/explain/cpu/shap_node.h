// What a walk reads of a tree: its splits, and which way rows go there.
#pragma once
#include "common/split.h"

namespace glasswood {

// A split, its leaf children inlined. Preorder; trees without a split are left out.
template <class Real>
struct ShapNode {
  int32_t feature;   // column of the row tile
  int32_t slot;      // the player's position among those of the trees that share slots
  int32_t flags;     // SplitFlag | ShapFlag
  int32_t previous;  // depth of the nearest edge above that splits for the same player; 0: there is none
  int32_t child[2];  // index of the child's record; at a leaf its row in the table of vector leaves
  int32_t set;       // category set
  int32_t inverse;   // row of the tables of 1 / H and of delta
  Real threshold;    // NaN: every number goes left
  Real z_above;      // z_p
  Real z[2];         // z_c
  Real ratio[2];     // z_c / z_p, also where z_p = 0; of two leaves below a feature that was not split above,
                     // Σ_c (o_c - z_c) value_c of rows that go left and of those that go right
  Real value[2];     // of children that are leaves; 0 elsewhere
};

enum ShapFlag : int32_t {
  kLeftIsLeaf = 4,
  kRightIsLeaf = 8,
  kLeftIsLow = 16,  // the left child's subtree has at most kLowHeight splits on a path
  kRightIsLow = 32,
};
// From this bit on, four a side: the height of the child's subtree if it is one of explain/cpu/forms.h, or 0.
constexpr int kFormHeightShift = 6, kFormHeightBits = 4;
constexpr int kFormHeight = 5;  // most splits on a path of such a subtree

// Subtrees of this height are walked by inlined recursion, which keeps their stack in registers: half of a balanced
// tree's splits have two leaves, a quarter lie just above.
constexpr int kLowHeight = 2;

template <class Real>
GLASSWOOD_INLINE bool is_leaf(const ShapNode<Real>& node, int side) {
  return node.flags & (kLeftIsLeaf << side);
}
template <class Real>
GLASSWOOD_INLINE bool is_low(const ShapNode<Real>& node, int side) {
  return node.flags & (kLeftIsLow << side);
}
template <class Real>
GLASSWOOD_INLINE int form_height(const ShapNode<Real>& node, int side) {
  return node.flags >> (kFormHeightShift + kFormHeightBits * side) & ((1 << kFormHeightBits) - 1);
}

// What a walk reads besides the rows.
template <class Real>
struct ShapTables {
  const ShapNode<Real>* nodes;
  const Real* inverse;  // [row][points]: 1 / H of nodes whose feature was split above
  int32_t n_points;     // row length of `inverse`
  const CategorySet* sets;
  const uint32_t* words;
};

// The quadrature points of a pass.
template <class Real, int K>
struct Points {
  Real t[K];
  Real weight[K];
  int32_t first;      // column of `inverse`
  int32_t n;          // of the tree, in all passes
  const Real* basis;  // [row of explain/cpu/forms.h][n], from this pass's first point on
};

template <class L, class Rows>
GLASSWOOD_INLINE typename L::Mask goes_left(const ShapNode<typename L::Real>& node,
                                            const ShapTables<typename L::Real>& tables, const Rows& rows) {
  const typename L::Value x = rows(node.feature);
  const typename L::Mask side = (node.flags & kCategorical)
                                    ? categories_go_left<L>(tables.sets[node.set], tables.words, x)
                                    : L::below(x, node.threshold);
  return L::choose(L::missing(x), L::uniform(node.flags & kDefaultLeft), side);
}

}  // namespace glasswood
