// SHAP interaction values on the walk of explain/cpu/shap.h.
//
// Phi_ij = ½ Σ over leaves v (o_i - z_i)(o_j - z_j) ∫₀¹ Π_{k in F \ {i, j}} g_k(t) dt. Above a split, let δ_i,k be the
// sum over the edges of feature i on the path of δ_e(t_k) = A_e'/A_e with respect to feature i's own variable:
//   (z_p - z_c) / ((z_c + (1 - z_c) t) H)  where the row takes the edge,
//   -1 / ((1 - t) H)                       where it does not, and 0 where o_p = 0.
// Then every split of feature f adds ½ Σ_k E_k δ_i,k to Phi_if, with E_k = Σ_c κ_c (P_k / H²) T_k(c) and for each
// feature i != f above. O(splits × features of the path × K).
#pragma once
#include "explain/cpu/shap.h"

namespace glasswood {

// δ of the edge to one child at point k, from the table's value for lanes that take it.
template <class L>
GLASSWOOD_INLINE typename L::Value delta_of(const Routing<L>& routing, int side, typename L::Real taken,
                                            typename L::Real above_inverse, typename L::Real t) {
  using Real = typename L::Real;
  const auto delta = L::select(takes<L>(routing, side), L::splat(taken), L::splat(-above_inverse / (Real(1) - t)));
  return L::select(routing.hot, delta, L::splat(Real(0)));
}

// The interactions and values of one tree at K points, for walk_splits. leaf_of(node, side) is the value of a leaf
// child. Stack keeps q and T, and by depth E and the δ that a repeated feature had before the edge; by slot the current
// δ.
template <class L, int K, class Stack, class Leaf, class Pairs>
struct PairWork {
  using Real = typename L::Real;
  using Value = typename L::Value;
  using Node = ShapNode<Real>;
  const ShapTables<Real>& tables;
  const Points<Real, K>& points;
  const Real* deltas;
  Stack& stack;
  const Leaf& leaf_of;
  Pairs& pairs;
  int root;
  int n_active = 0;
  Value gain[K], below[K];  // E of the split at work; T of the subtree that was finished last

  GLASSWOOD_INLINE void begin(const Node&, const Visit<L, K>&, int) {
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) gain[k] = L::splat(Real(0));
  }
  GLASSWOOD_INLINE void leaf(const Node& node, Visit<L, K>& visit, const Edge<L>& edge, int side, int) {
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) below[k] = L::splat(leaf_of(node, side));
    absorb(visit, edge);
  }
  GLASSWOOD_INLINE void descend(int node_index, const Node& node, const Visit<L, K>& visit, int side, int depth) {
    stack.push(depth, visit.q, visit.sum);
    stack.push_interaction(depth, gain, visit.phi);
    const bool repeated = node.previous > 0;
    if (repeated)
      stack.save_delta(depth, node.slot);
    else
      stack.activate(n_active++, node.slot);
    const Real* taken = deltas + (int64_t(node_index - root) * 2 + side) * tables.n_points + points.first;
    const Real* inverse = tables.inverse + int64_t(node.inverse) * tables.n_points + points.first;
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) {
      const Value delta = delta_of<L>(visit.routing, side, taken[k], repeated ? inverse[k] : Real(1), points.t[k]);
      stack.set_delta(node.slot, k, repeated ? stack.delta(node.slot, k) + delta : delta);
    }
  }
  GLASSWOOD_INLINE void resume(const Node& node, Visit<L, K>& visit, const Edge<L>& edge, int, int depth) {
    stack.pop(depth, visit.q, visit.sum);
    stack.pop_interaction(depth, gain, visit.phi);
    if (node.previous > 0)
      stack.restore_delta(depth, node.slot);
    else
      --n_active;
    absorb(visit, edge);
  }
  GLASSWOOD_INLINE void finish(const Node& node, Visit<L, K>& visit, int) {
    pairs.add_value(node.slot, visit.phi);
    for (int a = 0; a < n_active; ++a) {
      const int other = stack.active(a);
      if (other == node.slot || !pairs.wanted(node.slot, other)) continue;
      Value inner = L::splat(Real(0));
      GLASSWOOD_UNROLL
      for (int k = 0; k < K; ++k) inner += gain[k] * stack.delta(other, k);
      pairs.add_pair(node.slot, other, inner * Real(0.5));
    }
    visit.close();
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) below[k] = visit.sum[k];
  }

  GLASSWOOD_INLINE void absorb(Visit<L, K>& visit, const Edge<L>& edge) {
    visit.absorb(edge, points, below);
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) {
      const Value j = visit.repeated ? visit.q[k] * visit.scale[k] : visit.q[k];
      gain[k] += edge.gain * j * below[k];
    }
  }
};

}  // namespace glasswood
