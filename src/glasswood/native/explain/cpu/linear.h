// SHAP values where leaves hold linear models, on the walk of explain/cpu/shap.h.
//
// A coalition that knows the features S sees, in a leaf of the model b + Σ_q a_q with a_q = c_q (x_q - mean of x_q over
// the leaf's training rows), the value b + Σ over q in S of a_q; features that it does not know count as their mean.
// With g_j(t) = z_j + (o_j - z_j) t over the path's features F the multilinear extension of the leaf's game on its
// diagonal is
//   b Π_j g_j + Σ_{q not in F} a_q t Π_j g_j + Σ_{q in F} a_q o_q t Π_{j != q} g_j.
// Its derivatives with respect to each feature's own variable: as those of a leaf of the value
//   V(t) = b + Σ_{q not in F} a_q t + Σ_{q in F} a_q o_q t / g_q,
// and further a_q ∫ Π g_j for q not in F, a_q o_q z_q ∫ Π g_j / g_q² for q in F. The sum is a polynomial of degree |F|,
// one more than with constant leaves, so K > |F| / 2 points are exact.
#pragma once
#include "common/linear_term.h"
#include "explain/cpu/shap.h"

namespace glasswood {

template <class Real>
struct LinearTerm {
  int32_t feature, player;
  int32_t slot;      // of the player among those of the tree
  int32_t depth;     // of the nearest edge above that splits a feature of the player; 0: there is none
  Real z;            // product of the cover ratios of the player's edges
  int32_t category;  // common/linear_term.h
  double coefficient, mean;
  int32_t entry;  // of its player among the leaf's entries
};

// A player that a leaf's path or its model knows.
template <class Real>
struct LinearEntry {
  int32_t slot, depth;  // as of a term
  Real z;
};

struct LinearLeaf {
  int64_t first, end;                         // terms
  int64_t first_entry, end_entry;             // of plans of interactions
  double value, at_means, weight, low, high;  // at_means: the value within the range
  double missing;                             // of rows that lack a number, or kNoValue
};

template <class Real>
GLASSWOOD_INLINE double deviation(const LinearTerm<Real>& term, const double* raw, int lane, int width) {
  return term.coefficient * term_deviation(raw[int64_t(term.feature) * width + lane], term.category, term.mean);
}

// The terms of one lane where a number is missing and takes the leaf back to a constant: what the leaf then returns is
// the difference that the missing numbers make, in equal shares.
template <class L>
GLASSWOOD_INLINE bool attribute_missing(const LinearLeaf& leaf, const LinearTerm<typename L::Real>* terms,
                                        const double* raw, int lane, typename L::Value* attributed) {
  int n_missing = 0;
  const auto lacks = [&](int64_t at) {
    return lacks_number(raw[int64_t(terms[at].feature) * L::width + lane], terms[at].category);
  };
  for (int64_t at = leaf.first; at < leaf.end; ++at) n_missing += lacks(at);
  if (n_missing == 0) return false;
  const double each = leaf.weight * (leaf.missing - leaf.at_means) / n_missing;
  for (int64_t at = leaf.first; at < leaf.end; ++at)
    L::put(attributed[at - leaf.first], lane, typename L::Real(lacks(at) ? each : 0));
  return true;
}

// a_q of the leaf's terms, for each lane. Where the model leaves the range that the leaf returns, here or at the means,
// the a_q change in proportion, so that they add up to what it does return. raw: [feature][lane].
template <class L>
GLASSWOOD_INLINE void attribute_terms(const LinearLeaf& leaf, const LinearTerm<typename L::Real>* terms,
                                      const double* raw, typename L::Value* attributed) {
  for (int lane = 0; lane < L::width; ++lane) {
    if (leaf.missing == leaf.missing && attribute_missing<L>(leaf, terms, raw, lane, attributed)) continue;
    double sum = 0;
    for (int64_t at = leaf.first; at < leaf.end; ++at) sum += deviation(terms[at], raw, lane, L::width);
    const double x = leaf.value + sum, returned = x < leaf.low ? leaf.low : x > leaf.high ? leaf.high : x;
    const bool is_within = returned == x && leaf.at_means == leaf.value;
    const double factor = leaf.weight * (is_within || sum == 0 ? 1 : (returned - leaf.at_means) / sum);
    for (int64_t at = leaf.first; at < leaf.end; ++at)
      L::put(attributed[at - leaf.first], lane, typename L::Real(factor * deviation(terms[at], raw, lane, L::width)));
  }
}

// For walk_splits. leaf_of(node, side) is the leaf's model; phi.add(slot, value) takes the result.
template <class L, int K, class Stack, class Leaf, class Phi>
struct LinearWork {
  using Real = typename L::Real;
  using Value = typename L::Value;
  using Node = ShapNode<Real>;
  const Points<Real, K>& points;
  Stack& stack;
  const Leaf& leaf_of;
  const LinearTerm<Real>* terms;
  const double* raw;
  Value* attributed;
  const Phi& phi;
  Value below[K];  // T of the subtree that was finished last

  GLASSWOOD_INLINE void begin(const Node&, const Visit<L, K>&, int) {}
  GLASSWOOD_INLINE void leaf(const Node& node, Visit<L, K>& visit, const Edge<L>& edge, int side, int depth) {
    const LinearLeaf& model = leaf_of(node, side);
    attribute_terms<L>(model, terms, raw, attributed);
    Value product[K];
    visit.descend(edge, points, product);
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) below[k] = L::splat(node.value[side]);
    for (int64_t at = model.first; at < model.end; ++at) {
      const LinearTerm<Real>& term = terms[at];
      // The leaf's own edge is not on the stack.
      const auto inside =
          term.depth == depth + 1 ? L::both(visit.routing.hot, takes<L>(visit.routing, side)) : stack.hot(term.depth);
      add_term(term, L::select(inside, attributed[at - model.first], L::splat(Real(0))), product);
    }
    visit.absorb(edge, points, below);
  }
  GLASSWOOD_INLINE void descend(int, const Node& node, const Visit<L, K>& visit, int, int depth) {
    phi.add(node.slot, visit.phi);
    stack.push(depth, visit.q, visit.sum);
  }
  GLASSWOOD_INLINE void resume(const Node&, Visit<L, K>& visit, const Edge<L>& edge, int, int depth) {
    stack.pop(depth, visit.q, visit.sum);
    visit.absorb(edge, points, below);
  }
  GLASSWOOD_INLINE void finish(const Node& node, Visit<L, K>& visit, int) {
    phi.add(node.slot, visit.phi);
    visit.close();
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) below[k] = visit.sum[k];
  }

  // a: a_q where the row satisfies the feature's tests above the leaf, otherwise 0.
  GLASSWOOD_INLINE void add_term(const LinearTerm<Real>& term, Value a, const Value (&product)[K]) {
    const bool on_path = term.depth > 0;
    Value own = L::splat(Real(0));
    GLASSWOOD_UNROLL
    for (int k = 0; k < K; ++k) {
      const Real inverse = on_path ? Real(1) / (term.z + (Real(1) - term.z) * points.t[k]) : Real(1);
      below[k] += a * (points.t[k] * inverse);
      own += product[k] * (inverse * inverse);
    }
    phi.add(term.slot, a * own * (on_path ? term.z : Real(1)));
  }
};

}  // namespace glasswood
