// SHAP interaction values where leaves hold linear models, on the walk of explain/cpu/shap.h; the game is that of
// explain/cpu/linear.h.
//
// At a leaf with the product P above it (weights of the points included), each of its entries i has
//   κ_i = (o_i - z_i) / g_i  and  β_i = a_i o_i z_i / g_i²,
// z = o = 1 where the path does not test the player. The second derivatives of the leaf's multilinear extension give
//   Phi_ij += ½ Σ_k P (κ_i κ_j V + κ_i β_j + κ_j β_i),  phi_i += Σ_k P (κ_i V + β_i),
// V(t) = b + t Σ_i a_i o_i / g_i. O(entries² × K) a leaf.
#pragma once
#include "explain/cpu/linear.h"

namespace glasswood {

// Memory for the entries of one leaf: κ and β, [entry][K] each.
template <class Value>
struct EntrySides {
  Value* kappa;
  Value* beta;
};

// For walk_splits. pairs takes values and interactions; the stack tells which edges the rows satisfy.
template <class L, int K, class Stack, class Leaf, class Pairs>
struct LinearPairWork {
  using Real = typename L::Real;
  using Value = typename L::Value;
  using Node = ShapNode<Real>;
  const Points<Real, K>& points;
  Stack& stack;
  const Leaf& leaf_of;
  const LinearTerm<Real>* terms;
  const LinearEntry<Real>* entries;
  const double* raw;
  Value* attributed;
  EntrySides<Value> sides;
  Pairs& pairs;

  GLASSWOOD_INLINE void begin(const Node&, const Visit<L, K>&, int) {}
  GLASSWOOD_INLINE void descend(int, const Node&, const Visit<L, K>& visit, int, int depth) {
    stack.push_product(depth, visit.q);
  }
  GLASSWOOD_INLINE void resume(const Node&, Visit<L, K>& visit, const Edge<L>&, int, int depth) {
    stack.pop_product(depth, visit.q);
  }
  GLASSWOOD_INLINE void finish(const Node&, const Visit<L, K>&, int) {}

  GLASSWOOD_INLINE void leaf(const Node& node, const Visit<L, K>& visit, const Edge<L>& edge, int side, int depth) {
    const LinearLeaf& model = leaf_of(node, side);
    const LinearEntry<Real>* own = entries + model.first_entry;
    const int n_entries = int(model.end_entry - model.first_entry);
    attribute_terms<L>(model, terms, raw, attributed);
    Value product[K], value[K];
    visit.descend(edge, points, product);
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) value[k] = L::splat(node.value[side]);
    for (int e = 0; e < n_entries; ++e) {
      // The leaf's own edge is not on the stack.
      const auto inside = own[e].depth == depth + 1 ? L::both(visit.routing.hot, takes<L>(visit.routing, side))
                                                    : stack.hot(own[e].depth);
      Value a = L::splat(Real(0));
      for (int64_t at = model.first; at < model.end; ++at)
        if (terms[at].entry == e) a += attributed[at - model.first];
      open_entry(own[e], e, inside, L::select(inside, a, L::splat(Real(0))), value);
    }
    for (int i = 0; i < n_entries; ++i) add_entry(own, i, product, value);
  }

  GLASSWOOD_INLINE void open_entry(const LinearEntry<Real>& entry, int e, typename L::Mask inside, Value a,
                                   Value (&value)[K]) {
    const bool on_path = entry.depth > 0;
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) {
      const Real inverse = on_path ? Real(1) / (entry.z + (Real(1) - entry.z) * points.t[k]) : Real(1);
      const Real taken = on_path ? (Real(1) - entry.z) * inverse : Real(0);
      sides.kappa[e * K + k] = L::select(inside, L::splat(taken), L::splat(Real(-1) / (Real(1) - points.t[k])));
      sides.beta[e * K + k] = a * (on_path ? entry.z * inverse * inverse : Real(1));
      value[k] += a * (points.t[k] * inverse);
    }
  }
  GLASSWOOD_INLINE void add_entry(const LinearEntry<Real>* own, int i, const Value (&product)[K],
                                  const Value (&value)[K]) {
    Value with_kappa[K], with_beta[K], phi = L::splat(Real(0));
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) {
      with_kappa[k] = product[k] * (sides.kappa[i * K + k] * value[k] + sides.beta[i * K + k]);
      with_beta[k] = product[k] * sides.kappa[i * K + k];
      phi += with_kappa[k];
    }
    pairs.add_value(own[i].slot, phi);
    for (int j = 0; j < i; ++j) {
      if ((own[i].depth == 0 && own[j].depth == 0) || !pairs.wanted(own[i].slot, own[j].slot)) continue;
      Value sum = L::splat(Real(0));
      GLASSWOOD_UNROLL
      for (int k = 0; k < K; ++k) sum += with_kappa[k] * sides.kappa[j * K + k] + with_beta[k] * sides.beta[j * K + k];
      pairs.add_pair(own[i].slot, own[j].slot, sum * Real(0.5));
    }
  }
};

}  // namespace glasswood
