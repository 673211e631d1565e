// Random trees and offspring.
#pragma once
#include <array>

#include "grow/search/operators.h"
#include "grow/search/settings.h"

namespace glasswood {

// Offspring beyond the largest size lose their deepest splits.
inline void shrink(GrowTree& tree, const GrowLimits& limits) {
  while (tree.n_leaves() > limits.max_leaves) {
    const std::vector<int> depths = node_depths(tree);
    int deepest = -1;
    for (const int v : nodes_of_kind(tree, false))
      if (deepest < 0 || depths[v] > depths[deepest]) deepest = v;
    tree = with_leaf(tree, deepest, models_below(tree, deepest));
  }
}

template <size_t n>
inline int drawn(const std::array<double, n>& rates, Random& random) {
  double total = 0;
  for (const double rate : rates) total += rate;
  double u = random.uniform() * total;
  for (int i = 0; i < int(n); ++i)
    if ((u -= rates[i]) < 0) return i;
  return total > 0 ? int(n) - 1 : -1;
}

inline void cross(GrowTree& a, GrowTree& b, const OperatorRates& r, const OperatorContext& c) {
  const bool splits = a.nodes.size() > 1 && b.nodes.size() > 1;
  const std::array<double, 4> rates = {r.swap_subtrees, splits ? r.swap_splits : 0, splits ? r.swap_branches : 0,
                                       r.copy_better};
  const int kind = drawn(rates, c.random);
  const auto pick = [&](const GrowTree& tree) {
    const bool inner = kind == 1 || kind == 2;
    const std::vector<int> nodes = nodes_of_kind(tree, false);
    return inner ? nodes[c.random.below(int64_t(nodes.size()))] : int(c.random.below(int64_t(tree.nodes.size())));
  };
  if (kind < 0) return;
  const int v = pick(a), w = pick(b);
  if (kind == 0) swap_subtrees(a, v, b, w);
  if (kind == 1) swap_splits(a, v, b, w);
  if (kind == 2) swap_branches(a, v, b, w, c.random);
  if (kind == 3) copy_better(a, v, b, w);
}

inline GrowTree mutated(const GrowTree& tree, const OperatorRates& r, const OperatorContext& c) {
  const bool leaf = c.random.chance(0.5) || tree.nodes.size() == 1;
  const int v = ranked_node(tree, leaf, c.random);
  if (leaf) {
    const double models = c.evaluator.data().n_linear() ? r.change_model : 0;
    const int kind = drawn(std::array<double, 2>{r.expand, models}, c.random);
    return kind < 0 ? tree : kind == 0 ? expand(c, tree, v) : change_model(c, tree, v);
  }
  switch (drawn(std::array<double, 4>{r.new_split, r.shift_threshold, r.prune, r.search_threshold}, c.random)) {
    case 0:
      return new_split(c, tree, v);
    case 1:
      return shift_threshold(c, tree, v);
    case 2:
      return prune(c, tree, v);
    case 3:
      return search_threshold(c, tree, v);
    default:
      return tree;
  }
}

inline void vary(GrowTree& a, GrowTree& b, const GrowSettings& settings, const OperatorContext& c) {
  const bool crossed = c.random.chance(settings.crossover);
  if (crossed) {
    cross(a, b, settings.rates, c);
    run_apart(c, 2, [&](int i, const OperatorContext& apart) {
      GrowTree& tree = i ? b : a;
      shrink(tree, c.evaluator.limits());
      apart.evaluator.evaluate(tree, apart.layer, apart.scratch);
    });
  }
  std::vector<GrowTree*> changed;
  for (GrowTree* tree : {&a, &b}) {
    if (!c.random.chance(settings.mutation)) continue;
    *tree = mutated(*tree, settings.rates, c);
    changed.push_back(tree);
  }
  run_apart(c, int(changed.size()), [&](int i, const OperatorContext& apart) {
    apart.evaluator.evaluate(*changed[i], apart.layer, apart.scratch);
  });
}

inline int push_random(GrowTree& tree, const RowList& rows, int depth, const FeatureSet& model,
                       const OperatorContext& c) {
  GrowSplit split;
  const bool small = int64_t(rows.size()) < 2 * c.evaluator.limits().min_samples_leaf;
  if (depth == 0 || small || !dipole_split(c.evaluator.data(), rows, c.random, split)) return push_leaf(tree, model);
  RowList left, right;
  for (const int32_t row : rows)
    (split.left(c.evaluator.data().rank(row, split.feature)) ? left : right).push_back(row);
  return push_split(
      tree, split, [&] { return push_random(tree, left, depth - 1, model, c); },
      [&] { return push_random(tree, right, depth - 1, model, c); });
}

// Top-down on a sub-sample, splits by dipoles, to a random depth (paper, section 3.2).
inline GrowTree random_tree(const OperatorContext& c) {
  const GrowData& data = c.evaluator.data();
  const int64_t wanted = std::min<int64_t>(500, std::max<int64_t>(data.n_rows / 10, 20));
  RowList rows;
  for (int64_t i = 0; i < wanted; ++i) rows.push_back(int32_t(c.random.below(data.n_rows)));
  GrowTree tree;
  const int depth = int(c.random.between(1, 5));
  FeatureSet all = all_features(data);
  if (data.n_rows < all.count() + 2) all = FeatureSet(data.n_features);
  push_random(tree, rows, depth, all, c);
  return tree;
}

inline GrowTree new_tree(const OperatorContext& c) {
  GrowTree tree = random_tree(c);
  shrink(tree, c.evaluator.limits());
  c.evaluator.evaluate(tree, c.layer, c.scratch);
  return tree;
}

}  // namespace glasswood
