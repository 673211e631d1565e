// Path-dependent SHAP values by quadrature in row lanes.
//
// For a leaf of value v whose path tests the features F, with z_j the product of the cover ratios of feature j's edges
// and o_j = 1 where the row satisfies all of them, phi_i = sum over leaves of
//   v (o_i - z_i) ∫₀¹ Π_{j in F \ i} (z_j + (o_j - z_j) t) dt,
// the derivative of the game's multilinear extension on its diagonal. The integrand is a polynomial of degree |F| - 1,
// so K >= |F| / 2 Gauss-Legendre points are exact. One walk of the tree serves all lanes: every row visits every node,
// only the 0/1 factors o differ by lane.
//
// Down the edge to child c of a node that splits feature f, (z_p, o_p) being the state of f above it and H = z_p +
// (1 - z_p) t, the product P_k at point t_k grows by A_c = (z_c + (o_c - z_c) t_k) / H where o_p = 1 and by the cover
// ratio z_c / z_p where o_p = 0. Up, T_k(leaf) = v and T_k(node) = Σ_c A_c T_k(c). With κ_c = (o_c z_p - z_c) o_p,
//   phi_f += Σ_c κ_c Σ_k (P_k / H²) T_k(c).
// All factors are positive and P stays in [0, 1]: nothing cancels at any depth.
#pragma once
#include "explain/cpu/forms.h"

namespace glasswood {

// Which way the lanes go at a split, and whether the feature is still satisfied above it (o_p).
template <class L>
struct Routing {
  typename L::Mask left;
  typename L::Mask hot;
};

// The edge to one child in all lanes: A_c = (base + slope t) * scale, κ_c = gain.
template <class L>
struct Edge {
  typename L::Value base, slope, gain;
};

template <class L>
GLASSWOOD_INLINE typename L::Mask takes(const Routing<L>& routing, int side) {
  return side ? L::negate(routing.left) : routing.left;
}

template <class L>
GLASSWOOD_INLINE Edge<L> edge_to(const ShapNode<typename L::Real>& node, const Routing<L>& routing, int side) {
  using Real = typename L::Real;
  const Real z = node.z[side];
  const auto taken = takes<L>(routing, side);
  Edge<L> edge;
  edge.slope = L::select(taken, L::splat(Real(1) - z), L::splat(-z));
  if (node.previous == 0) {  // z_p = 1, o_p = 1
    edge.base = L::splat(z);
    edge.gain = edge.slope;
    return edge;
  }
  const auto zero = L::splat(Real(0));
  edge.base = L::select(routing.hot, L::splat(z), L::splat(node.ratio[side]));
  edge.gain = L::select(routing.hot, L::select(taken, L::splat(node.z_above - z), L::splat(-z)), zero);
  edge.slope = L::select(routing.hot, edge.slope, zero);
  return edge;
}

// 1 / H where o_p = 1 and the feature was split above, otherwise 1.
template <class L, int K>
GLASSWOOD_INLINE void load_scale(const ShapNode<typename L::Real>& node, const ShapTables<typename L::Real>& tables,
                                 const Points<typename L::Real, K>& points, const Routing<L>& routing,
                                 typename L::Value (&scale)[K]) {
  const auto* inverse = tables.inverse + int64_t(node.inverse) * tables.n_points + points.first;
  GLASSWOOD_UNROLL
  for (int k = 0; k < K; ++k) scale[k] = L::select(routing.hot, L::splat(inverse[k]), L::splat(typename L::Real(1)));
}

// One split in all lanes: product above it divided by H (Q) and by H² (J), sum from below (T), and its phi.
template <class L, int K>
struct Visit {
  using Real = typename L::Real;
  using Value = typename L::Value;
  Value q[K], sum[K], phi;
  Value scale[K];
  Routing<L> routing;
  bool repeated;

  GLASSWOOD_INLINE void open(const ShapNode<Real>& node, const ShapTables<Real>& tables,
                             const Points<Real, K>& points) {
    repeated = node.previous > 0;
    phi = L::splat(Real(0));
    if (repeated) load_scale<L, K>(node, tables, points, routing, scale);
  }
  GLASSWOOD_INLINE void enter(const Value (&product)[K]) {
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) {
      q[k] = repeated ? product[k] * scale[k] : product[k];
      sum[k] = L::splat(Real(0));
    }
  }
  GLASSWOOD_INLINE Value factor(const Edge<L>& edge, const Points<Real, K>& points, int k) const {
    return edge.base + edge.slope * points.t[k];
  }
  GLASSWOOD_INLINE void descend(const Edge<L>& edge, const Points<Real, K>& points, Value (&product)[K]) const {
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) product[k] = q[k] * factor(edge, points, k);
  }
  // P / H²
  GLASSWOOD_INLINE void squared(Value (&j)[K]) const {
    if (repeated) {
      GLASSWOOD_UNROLL
      for (int k = 0; k < K; ++k) j[k] = q[k] * scale[k];
    } else {
      GLASSWOOD_UNROLL
      for (int k = 0; k < K; ++k) j[k] = q[k];
    }
  }
  // The child's T_k; the common factor 1 / H of the node's sum is left to close().
  GLASSWOOD_INLINE void absorb(const Edge<L>& edge, const Points<Real, K>& points, const Value (&below)[K]) {
    Value inner = L::splat(Real(0)), j[K];
    squared(j);
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) {
      inner += j[k] * below[k];
      sum[k] += factor(edge, points, k) * below[k];
    }
    phi += edge.gain * inner;
  }
  // Children that are leaves (the value of any other child is 0), both at once.
  GLASSWOOD_INLINE void absorb_leaves(const ShapNode<Real>& node, const Edge<L>& left, const Edge<L>& right,
                                      const Points<Real, K>& points) {
    const Value constant = left.base * node.value[0] + right.base * node.value[1];
    const Value slope = left.slope * node.value[0] + right.slope * node.value[1];
    Value inner = L::splat(Real(0)), j[K];
    squared(j);
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) {
      inner += j[k];
      sum[k] += constant + slope * points.t[k];
    }
    phi += (left.gain * node.value[0] + right.gain * node.value[1]) * inner;
  }
  GLASSWOOD_INLINE void close() {
    if (!repeated) return;
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) sum[k] *= scale[k];
  }
};

// A split on the way down.
template <class L, int K, class Rows, class Stack>
GLASSWOOD_INLINE Visit<L, K> arrive(const ShapNode<typename L::Real>& node, const ShapTables<typename L::Real>& tables,
                                    const Points<typename L::Real, K>& points, const Rows& rows, const Stack& stack,
                                    const typename L::Value (&product)[K]) {
  Visit<L, K> visit;
  visit.routing = {goes_left<L>(node, tables, rows), stack.hot(node.previous)};
  visit.open(node, tables, points);
  visit.enter(product);
  return visit;
}

// A subtree of at most Height splits on a path: recursion that the compiler unfolds.
template <class L, int K, int Height, class Rows, class Stack, class Phi>
GLASSWOOD_INLINE void walk_low(const ShapTables<typename L::Real>& tables, const Points<typename L::Real, K>& points,
                               const Rows& rows, Stack& stack, const Phi& phi, int node_index, int depth,
                               const typename L::Value (&product)[K], typename L::Value (&sum)[K]) {
  const ShapNode<typename L::Real> node = tables.nodes[node_index];
  Visit<L, K> visit = arrive<L, K>(node, tables, points, rows, stack, product);
  const Edge<L> left = edge_to<L>(node, visit.routing, 0), right = edge_to<L>(node, visit.routing, 1);
  visit.absorb_leaves(node, left, right, points);
  if constexpr (Height > 1) {
    if ((node.flags & (kLeftIsLeaf | kRightIsLeaf)) != (kLeftIsLeaf | kRightIsLeaf)) {
      GLASSWOOD_NO_UNROLL
      for (int side = 0; side < 2; ++side) {
        if (is_leaf(node, side)) continue;
        const Edge<L> edge = side ? right : left;
        typename L::Value down[K], up[K];
        visit.descend(edge, points, down);
        stack.set_hot(depth + 1, L::both(visit.routing.hot, takes<L>(visit.routing, side)));
        walk_low<L, K, Height - 1>(tables, points, rows, stack, phi, node.child[side], depth + 1, down, up);
        visit.absorb(edge, points, up);
      }
    }
  }
  visit.close();
  phi.add(node.slot, visit.phi);
  GLASSWOOD_UNROLL
  for (int k = 0; k < K; ++k) sum[k] = visit.sum[k];
}

// Above the root: the weights as the product, no feature tested.
template <class L, int K, class Stack>
GLASSWOOD_INLINE void begin_walk(const Points<typename L::Real, K>& points, Stack& stack,
                                 typename L::Value (&product)[K]) {
  GLASSWOOD_UNROLL
  for (int k = 0; k < K; ++k) product[k] = L::splat(points.weight[k]);
  stack.set_hot(0, L::uniform(true));
}

// The values of one tree with scalar leaves at K points: phi.add(slot, value) once or more a split.
// Stack keeps, by depth, what a split needs when the walk comes back to it: q, sum, the lanes' side, the node; and
// whether each edge's feature is satisfied so far (hot; hot(0) is true).
template <class L, int K, class Rows, class Stack, class Phi>
GLASSWOOD_INLINE void walk_tree(const ShapTables<typename L::Real>& tables, const Points<typename L::Real, K>& points,
                                const Rows& rows, Stack& stack, const Phi& phi, int root) {
  using Value = typename L::Value;
  Value product[K];
  begin_walk<L, K>(points, stack, product);
  int node_index = root, depth = 0;
  while (true) {
    ShapNode<typename L::Real> node = tables.nodes[node_index];
    Visit<L, K> visit = arrive<L, K>(node, tables, points, rows, stack, product);
    visit.absorb_leaves(node, edge_to<L>(node, visit.routing, 0), edge_to<L>(node, visit.routing, 1), points);
    int side = 0;
    bool descends = false;
    while (true) {
      for (; side < 2; ++side) {
        if (is_leaf(node, side)) continue;
        const Edge<L> edge = edge_to<L>(node, visit.routing, side);
        visit.descend(edge, points, product);
        stack.set_hot(depth + 1, L::both(visit.routing.hot, takes<L>(visit.routing, side)));
        const int height = form_height(node, side);
        descends = !is_low(node, side) && !height;
        if (descends) break;
        Value up[K];
        if (height)
          pass_form<L, K>(tables, points, rows, phi, node.child[side], height, product, up);
        else
          walk_low<L, K, kLowHeight>(tables, points, rows, stack, phi, node.child[side], depth + 1, product, up);
        visit.absorb(edge, points, up);
      }
      phi.add(node.slot, visit.phi);
      if (descends) break;
      visit.close();
      if (depth == 0) return;
      Value up[K];
      GLASSWOOD_UNROLL
      for (int k = 0; k < K; ++k) up[k] = visit.sum[k];
      --depth;
      node_index = stack.node(depth);
      node = tables.nodes[node_index];
      visit.routing = {stack.left(depth), stack.hot(node.previous)};
      visit.open(node, tables, points);
      side = stack.side(depth);
      stack.pop(depth, visit.q, visit.sum);
      visit.absorb(edge_to<L>(node, visit.routing, side), points, up);
      ++side;
    }
    stack.push_place(depth, visit.routing.left, node_index, side);
    stack.push(depth, visit.q, visit.sum);
    node_index = node.child[side];
    ++depth;
  }
}

// The same walk where leaves are more than one number: `work` says what to keep by depth and what to add up.
//   begin(node, visit, depth)                      at a split, before its children
//   leaf(node, visit, edge, side, depth)           a child that is a leaf
//   descend(node_index, node, visit, side, depth)  before the walk goes down to another child
//   resume(node, visit, edge, side, depth)         after it came back: restore the visit, take the child's sums
//   finish(node, visit, depth)                     after the children
template <class L, int K, class Rows, class Stack, class Work>
GLASSWOOD_INLINE void walk_splits(const ShapTables<typename L::Real>& tables, const Points<typename L::Real, K>& points,
                                  const Rows& rows, Stack& stack, Work& work, int root) {
  typename L::Value product[K];
  begin_walk<L, K>(points, stack, product);
  int node_index = root, depth = 0;
  while (true) {
    ShapNode<typename L::Real> node = tables.nodes[node_index];
    Visit<L, K> visit = arrive<L, K>(node, tables, points, rows, stack, product);
    work.begin(node, visit, depth);
    for (int side = 0; side < 2; ++side)
      if (is_leaf(node, side)) work.leaf(node, visit, edge_to<L>(node, visit.routing, side), side, depth);
    int side = 0;
    while (true) {
      while (side < 2 && is_leaf(node, side)) ++side;
      if (side < 2) break;
      work.finish(node, visit, depth);
      if (depth == 0) return;
      --depth;
      node_index = stack.node(depth);
      node = tables.nodes[node_index];
      visit.routing = {stack.left(depth), stack.hot(node.previous)};
      visit.open(node, tables, points);
      side = stack.side(depth);
      work.resume(node, visit, edge_to<L>(node, visit.routing, side), side, depth);
      ++side;
    }
    visit.descend(edge_to<L>(node, visit.routing, side), points, product);
    stack.set_hot(depth + 1, L::both(visit.routing.hot, takes<L>(visit.routing, side)));
    stack.push_place(depth, visit.routing.left, node_index, side);
    work.descend(node_index, node, visit, side, depth);
    node_index = node.child[side];
    ++depth;
  }
}

// Vector leaves, all outputs in one walk: routing, factors and products are shared, T and phi have one value an output.
// leaf_of(node, side) points to the leaf's values; Stack keeps T in rows, stack.sum(depth, output, k), and
// phi.add(slot, output, value) takes the result.
template <class L, int K, class Stack, class Leaf, class Phi>
struct VectorWork {
  using Real = typename L::Real;
  using Value = typename L::Value;
  using Node = ShapNode<Real>;
  const Points<Real, K>& points;
  Stack& stack;
  const Leaf& leaf_of;
  const Phi& phi;
  int n_outputs;

  GLASSWOOD_INLINE void begin(const Node&, const Visit<L, K>&, int depth) {
    for (int output = 0; output < n_outputs; ++output)
      for (int k = 0; k < K; ++k) stack.sum(depth, output, k) = L::splat(Real(0));
  }
  GLASSWOOD_INLINE void leaf(const Node& node, const Visit<L, K>& visit, const Edge<L>& edge, int side, int depth) {
    const Real* values = leaf_of(node, side);
    absorb(node, visit, edge, depth, [&](int output, int) { return L::splat(values[output]); });
  }
  GLASSWOOD_INLINE void descend(int, const Node&, const Visit<L, K>& visit, int, int depth) {
    stack.push_product(depth, visit.q);
  }
  GLASSWOOD_INLINE void resume(const Node& node, Visit<L, K>& visit, const Edge<L>& edge, int, int depth) {
    stack.pop_product(depth, visit.q);
    absorb(node, visit, edge, depth, [&](int output, int k) { return stack.sum(depth + 1, output, k); });
  }
  GLASSWOOD_INLINE void finish(const Node&, const Visit<L, K>&, int) {}

  // below(output, k): T of the child that `edge` leads to.
  template <class Below>
  GLASSWOOD_INLINE void absorb(const Node& node, const Visit<L, K>& visit, const Edge<L>& edge, int depth,
                               const Below& below) {
    Value factor[K], inner[K];
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) {
      factor[k] = visit.factor(edge, points, k);
      if (visit.repeated) factor[k] *= visit.scale[k];
      inner[k] = edge.gain * (visit.repeated ? visit.q[k] * visit.scale[k] : visit.q[k]);
    }
    for (int output = 0; output < n_outputs; ++output) {
      Value sum = L::splat(Real(0));
      GLASSWOOD_UNROLL
      for (int k = 0; k < K; ++k) {
        const Value t = below(output, k);
        sum += inner[k] * t;
        stack.sum(depth, output, k) += factor[k] * t;
      }
      phi.add(node.slot, output, sum);
    }
  }
};

}  // namespace glasswood
