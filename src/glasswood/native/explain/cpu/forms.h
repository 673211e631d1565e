// Low subtrees without quadrature points, where no split's feature was split above.
//
// There z_p = o_p = 1, a factor is A_c = z_c (1 - t) + o_c t, and T below a node of height h is a form of degree h:
//   T = Σ_i c_i t^i (1 - t)^(h - i).
// From the product above, a split of height h needs h moments m_i = Σ_k P_k t_k^i (1 - t_k)^(h - 1 - i), and
//   phi_f += Σ_c (o_c - z_c) Σ_i m_i c_i,
// its child c's moments are z_c m_i + o_c m_(i + 1). A split of height 1 so takes one number where the walk takes K.
// As t + (1 - t) = 1, a lower child's moments are sums of two neighbours, and so are the coefficients of its form in
// the degree above. All factors are positive: nothing cancels here either.
#pragma once
#include "explain/cpu/shap_node.h"

namespace glasswood {

// Rows of t^i (1 - t)^(degree - i), i = 0 .. degree, at the points of a tree: those of degree 0, then of 1, ...
constexpr int first_basis_row(int degree) { return degree * (degree + 1) / 2; }

// The form T of a subtree; no row changes its coefficient of (1 - t)^Degree.
template <class L, int Degree>
struct Form {
  typename L::Real first;
  typename L::Value rest[Degree];
  GLASSWOOD_INLINE typename L::Value at(int i) const { return i ? rest[i - 1] : L::splat(first); }
};
template <class L>
struct Form<L, 0> {
  typename L::Real first;
  GLASSWOOD_INLINE typename L::Value at(int) const { return L::splat(first); }
};

// A leaf's value times (t + (1 - t))^Degree.
template <class L, int Degree>
GLASSWOOD_INLINE Form<L, Degree> form_of_leaf(typename L::Real value) {
  Form<L, Degree> form;
  form.first = value;
  if constexpr (Degree > 0) {
    typename L::Real binomial = 1;
    for (int i = 1; i <= Degree; ++i) {
      binomial = binomial * typename L::Real(Degree + 1 - i) / typename L::Real(i);
      form.rest[i - 1] = L::splat(value * binomial);
    }
  }
  return form;
}

template <class L, int Height, class Rows, class Phi>
GLASSWOOD_INLINE Form<L, Height> walk_form(const ShapTables<typename L::Real>& tables, const Rows& rows, const Phi& phi,
                                           int node_index, const typename L::Value (&moment)[Height]);

// A call: to unfold all heights would take more code than the processor keeps.
template <class L, int Height, class Rows, class Phi>
__attribute__((noinline)) void call_walk_form(const ShapTables<typename L::Real>& tables, const Rows& rows,
                                              const Phi& phi, int node_index, const typename L::Value (&moment)[Height],
                                              Form<L, Height>& form) {
  form = walk_form<L, Height>(tables, rows, phi, node_index, moment);
}

// A subtree of `height` <= Height splits on a path, as a form of degree Height.
template <class L, int Height, class Rows, class Phi>
GLASSWOOD_INLINE Form<L, Height> walk_lower_form(const ShapTables<typename L::Real>& tables, const Rows& rows,
                                                 const Phi& phi, int node_index, int height,
                                                 const typename L::Value (&moment)[Height]) {
  Form<L, Height> form;
  if constexpr (Height > 1) {
    if (height < Height) {
      typename L::Value fewer[Height - 1];
      GLASSWOOD_UNROLL
      for (int i = 0; i < Height - 1; ++i) fewer[i] = moment[i] + moment[i + 1];
      const Form<L, Height - 1> lower = walk_lower_form<L, Height - 1>(tables, rows, phi, node_index, height, fewer);
      form.first = lower.first;
      GLASSWOOD_UNROLL
      for (int i = 1; i < Height; ++i) form.rest[i - 1] = lower.at(i) + lower.at(i - 1);
      form.rest[Height - 1] = lower.at(Height - 1);
      return form;
    }
  }
  if constexpr (Height > 2)
    call_walk_form<L, Height>(tables, rows, phi, node_index, moment, form);
  else
    form = walk_form<L, Height>(tables, rows, phi, node_index, moment);
  return form;
}

template <class L, int Height, class Rows, class Phi>
GLASSWOOD_INLINE Form<L, Height> walk_form(const ShapTables<typename L::Real>& tables, const Rows& rows, const Phi& phi,
                                           int node_index, const typename L::Value (&moment)[Height]) {
  using Real = typename L::Real;
  using Value = typename L::Value;
  const ShapNode<Real>& node = tables.nodes[node_index];
  const auto left = goes_left<L>(node, tables, rows);
  if constexpr (Height == 1) {  // the plan knows what its leaves add up to
    phi.add(node.slot, L::select(left, L::splat(node.ratio[0]), L::splat(node.ratio[1])) * moment[0]);
    return {node.z[0] * node.value[0] + node.z[1] * node.value[1],
            {L::select(left, L::splat(node.value[0]), L::splat(node.value[1]))}};
  }
  const Real z0 = node.z[0], z1 = node.z[1];
  Form<L, Height - 1> below[2];
  GLASSWOOD_UNROLL
  for (int side = 0; side < 2; ++side) {
    if constexpr (Height > 1) {
      if (!is_leaf(node, side)) {
        const auto taken = side ? L::negate(left) : left;
        Value down[Height - 1];
        GLASSWOOD_UNROLL
        for (int i = 0; i < Height - 1; ++i)
          down[i] = moment[i] * node.z[side] + L::select(taken, moment[i + 1], L::splat(Real(0)));
        below[side] =
            walk_lower_form<L, Height - 1>(tables, rows, phi, node.child[side], form_height(node, side), down);
        continue;
      }
    }
    below[side] = form_of_leaf<L, Height - 1>(node.value[side]);
  }
  Form<L, Height> form;
  form.first = z0 * below[0].first + z1 * below[1].first;
  Value inner[2] = {moment[0] * below[0].first, moment[0] * below[1].first};
  GLASSWOOD_UNROLL
  for (int i = 1; i < Height; ++i) {
    inner[0] += moment[i] * below[0].at(i), inner[1] += moment[i] * below[1].at(i);
    form.rest[i - 1] =
        below[0].at(i) * z0 + below[1].at(i) * z1 + L::select(left, below[0].at(i - 1), below[1].at(i - 1));
  }
  form.rest[Height - 1] = L::select(left, below[0].at(Height - 1), below[1].at(Height - 1));
  phi.add(node.slot, L::select(left, L::splat(1 - z0), L::splat(-z0)) * inner[0] +
                         L::select(left, L::splat(-z1), L::splat(1 - z1)) * inner[1]);
  return form;
}

// A child whose subtree is a form: the product above it at the points becomes moments, its form T at the points.
template <class L, int K, int Height = 1, class Rows, class Phi>
GLASSWOOD_INLINE void pass_form(const ShapTables<typename L::Real>& tables, const Points<typename L::Real, K>& points,
                                const Rows& rows, const Phi& phi, int node_index, int height,
                                const typename L::Value (&product)[K], typename L::Value (&sum)[K]) {
  if constexpr (Height < kFormHeight)
    if (height > Height)
      return pass_form<L, K, Height + 1>(tables, points, rows, phi, node_index, height, product, sum);
  const auto* above = points.basis + first_basis_row(Height - 1) * int64_t(points.n);
  const auto* own = points.basis + first_basis_row(Height) * int64_t(points.n);
  typename L::Value moment[Height];
  GLASSWOOD_UNROLL
  for (int i = 0; i < Height; ++i) {
    moment[i] = product[0] * above[i * points.n];
    GLASSWOOD_UNROLL
    for (int k = 1; k < K; ++k) moment[i] += product[k] * above[i * points.n + k];
  }
  Form<L, Height> form;
  call_walk_form<L, Height>(tables, rows, phi, node_index, moment, form);
  GLASSWOOD_UNROLL
  for (int k = 0; k < K; ++k) {
    sum[k] = L::splat(form.first * own[k]);
    GLASSWOOD_UNROLL
    for (int i = 1; i <= Height; ++i) sum[k] += form.rest[i - 1] * own[i * points.n + k];
  }
}

}  // namespace glasswood
