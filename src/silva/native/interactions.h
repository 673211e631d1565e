// SHAP interaction values on the walk of shap.h.
//
// Phi_ij = ½ Σ over leaves v (o_i - z_i)(o_j - z_j) ∫₀¹ Π_{k in F \ {i, j}} g_k(t) dt. Above a split, let δ_i,k be the
// sum over the edges of feature i on the path of δ_e(t_k) = A_e'/A_e with respect to feature i's own variable:
//   (z_p - z_c) / ((z_c + (1 - z_c) t) H)  where the row takes the edge,
//   -1 / ((1 - t) H)                       where it does not, and 0 where o_p = 0.
// Then every split of feature f adds ½ Σ_k E_k δ_i,k to Phi_if, with E_k = Σ_c κ_c (P_k / H²) T_k(c) and for each
// feature i != f above. O(splits × features of the path × K).
#pragma once
#include "shap.h"

namespace silva {

// δ of the edge to one child at point k, from the table's value for lanes that take it.
template <class L>
SILVA_INLINE typename L::Value delta_of(const Routing<L>& routing, int side, typename L::Real taken,
                                        typename L::Real above_inverse, typename L::Real t) {
  using Real = typename L::Real;
  const auto delta = L::select(takes<L>(routing, side), L::splat(taken), L::splat(-above_inverse / (Real(1) - t)));
  return L::select(routing.hot, delta, L::splat(Real(0)));
}

// The interactions and values of one tree at K points. Leaf(node, side) is the value of a leaf child. Stack keeps what
// shap.h's does, and by depth E and the δ that a repeated feature had before the edge; by slot the current δ.
template <class L, int K, class Rows, class Stack, class Leaf, class Pairs>
SILVA_INLINE void walk_interactions(const ShapTables<typename L::Real>& tables,
                                    const Points<typename L::Real, K>& points, const typename L::Real* deltas,
                                    const Rows& rows, Stack& stack, const Leaf& leaf, Pairs& pairs, int root) {
  using Value = typename L::Value;
  using Real = typename L::Real;
  Value product[K];
  SILVA_UNROLL
  for (int k = 0; k < K; ++k) product[k] = L::splat(points.weight[k]);
  int node_index = root, depth = 0, n_active = 0;
  stack.set_hot(0, L::uniform(true));

  const auto gather_gain = [&](const Visit<L, K>& visit, const Edge<L>& edge, const Value(&below)[K], Value(&gain)[K]) {
    SILVA_UNROLL
    for (int k = 0; k < K; ++k) {
      const Value j = visit.repeated ? visit.q[k] * visit.scale[k] : visit.q[k];
      gain[k] += edge.gain * j * below[k];
    }
  };
  const auto finish = [&](const ShapNode<Real>& node, const Visit<L, K>& visit, const Value(&gain)[K]) {
    pairs.add_value(node.slot, visit.phi);
    for (int a = 0; a < n_active; ++a) {
      const int other = stack.active(a);
      if (other == node.slot || !pairs.wanted(node.slot, other)) continue;
      Value inner = L::splat(Real(0));
      SILVA_UNROLL
      for (int k = 0; k < K; ++k) inner += gain[k] * stack.delta(other, k);
      pairs.add_pair(node.slot, other, inner * Real(0.5));
    }
  };

  while (true) {
    ShapNode<Real> node = tables.nodes[node_index];
    Visit<L, K> visit;
    visit.routing = {goes_left<L>(node, tables, rows), stack.hot(node.previous)};
    visit.open(node, tables, points);
    visit.enter(product);
    Value gain[K];
    SILVA_UNROLL
    for (int k = 0; k < K; ++k) gain[k] = L::splat(Real(0));
    for (int side = 0; side < 2; ++side) {
      if (!is_leaf(node, side)) continue;
      const Edge<L> edge = edge_to<L>(node, visit.routing, side);
      Value below[K];
      SILVA_UNROLL
      for (int k = 0; k < K; ++k) below[k] = L::splat(leaf(node, side));
      visit.absorb(edge, points, below);
      gather_gain(visit, edge, below, gain);
    }
    int side = 0;
    while (true) {
      while (side < 2 && is_leaf(node, side)) ++side;
      if (side < 2) break;
      finish(node, visit, gain);
      visit.close();
      if (depth == 0) return;
      Value below[K];
      SILVA_UNROLL
      for (int k = 0; k < K; ++k) below[k] = visit.sum[k];
      --depth;
      node_index = stack.node(depth);
      node = tables.nodes[node_index];
      visit.routing = {stack.left(depth), stack.hot(node.previous)};
      visit.open(node, tables, points);
      side = stack.side(depth);
      stack.pop(depth, visit.q, visit.sum);
      stack.pop_interaction(depth, gain, visit.phi);
      if (node.previous > 0)
        stack.restore_delta(depth, node.slot);
      else
        --n_active;
      const Edge<L> edge = edge_to<L>(node, visit.routing, side);
      visit.absorb(edge, points, below);
      gather_gain(visit, edge, below, gain);
      ++side;
    }
    const Edge<L> edge = edge_to<L>(node, visit.routing, side);
    visit.descend(edge, points, product);
    stack.set_hot(depth + 1, L::both(visit.routing.hot, takes<L>(visit.routing, side)));
    stack.push(depth, visit.q, visit.sum, visit.routing.left, node_index, side);
    stack.push_interaction(depth, gain, visit.phi);
    const bool repeated = node.previous > 0;
    if (repeated)
      stack.save_delta(depth, node.slot);
    else
      stack.activate(n_active++, node.slot);
    const Real* taken = deltas + (int64_t(node_index - root) * 2 + side) * tables.n_points + points.first;
    const Real* inverse = tables.inverse + int64_t(node.inverse) * tables.n_points + points.first;
    SILVA_UNROLL
    for (int k = 0; k < K; ++k) {
      const Value delta = delta_of<L>(visit.routing, side, taken[k], repeated ? inverse[k] : Real(1), points.t[k]);
      stack.set_delta(node.slot, k, repeated ? stack.delta(node.slot, k) + delta : delta);
    }
    node_index = node.child[side];
    ++depth;
  }
}

}  // namespace silva
