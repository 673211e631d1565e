// Trees that the local search makes of others.
#pragma once
#include <optional>
#include <vector>

#include "grow/search/operators.h"

namespace glasswood {

// Prune or promote: the subtree at v gives way to a leaf or to one of its children.
inline GrowTree variant(const GrowTree& tree, int v, int kind) {
  if (kind == 0) return with_leaf(tree, v, models_below(tree, v));
  return with_subtree(tree, v, tree, kind == 1 ? tree[v].left : tree[v].right);
}

inline bool is_empty(const GrowData& data, const Box& box, int feature) {
  const Interval interval = box.interval(data, feature);
  return interval.low >= interval.high && !interval.missing;
}

// The subtree pruned to what rows of the box can reach.
inline int push_reachable(const GrowData& data, GrowTree& out, const GrowTree& tree, int v, const Box& box) {
  if (tree[v].is_leaf()) return push_leaf(out, tree[v].model);
  const GrowSplit& split = tree[v].split;
  const Box left = box.narrowed(data, split, true), right = box.narrowed(data, split, false);
  if (is_empty(data, left, split.feature)) return push_reachable(data, out, tree, tree[v].right, box);
  if (is_empty(data, right, split.feature)) return push_reachable(data, out, tree, tree[v].left, box);
  return push_split(
      out, split, [&] { return push_reachable(data, out, tree, tree[v].left, left); },
      [&] { return push_reachable(data, out, tree, tree[v].right, right); });
}

// The split takes the place of node v, whose box is given; the subtree stands on both sides of it.
inline GrowTree pulled_up(const GrowData& data, const GrowTree& tree, int v, const Box& box, const GrowSplit& split) {
  const Box left = box.narrowed(data, split, true), right = box.narrowed(data, split, false);
  return replaced(tree, v, [&](GrowTree& out) {
    return push_split(
        out, split, [&] { return push_reachable(data, out, tree, v, left); },
        [&] { return push_reachable(data, out, tree, v, right); });
  });
}

// The subtree at v, with these models in place of what they are given for.
inline int push_pruned(GrowTree& out, const GrowTree& tree, int v, const std::vector<std::optional<FeatureSet>>& leaf) {
  if (leaf[v]) return push_leaf(out, *leaf[v]);
  if (tree[v].is_leaf()) return push_leaf(out, tree[v].model);
  return push_split(
      out, tree[v].split, [&] { return push_pruned(out, tree, tree[v].left, leaf); },
      [&] { return push_pruned(out, tree, tree[v].right, leaf); });
}

// Prunes below `top` wherever a leaf costs less than the subtree, the fitness made linear: a parameter costs `price`.
inline void prune_back(const OperatorContext& c, GrowTree& tree, int top, double price) {
  const Evaluator& e = c.evaluator;
  all_boxes(c.data(), tree, c.scratch.boxes);
  const std::vector<Box> boxes = c.scratch.boxes;
  const double leaf_price = e.fitness().bic ? price : 0;
  std::vector<double> cost(tree.nodes.size());
  std::vector<std::optional<FeatureSet>> leaf(tree.nodes.size());
  for (int v = subtree_end(tree, top) - 1; v >= top; --v) {
    cost[v] = tree[v].is_leaf() ? tree[v].error + price * tree[v].model.count() + leaf_price
                                : cost[tree[v].left] + cost[tree[v].right] + price * e.fitness().split_weight;
    if (tree[v].is_leaf()) continue;
    const LeafStats& stats = *e.stats_of(boxes[v], c.layer, c.scratch);
    const FeatureSet widest = models_below(tree, v);
    if (e.residual(boxes[v], stats, widest, c.layer, c.scratch) + leaf_price > cost[v]) continue;
    const FeatureSet model = e.select_model(stats, widest, price, c.scratch);
    const double as_leaf = e.residual(boxes[v], stats, model, c.layer, c.scratch) + price * model.count() + leaf_price;
    if (as_leaf > cost[v]) continue;
    cost[v] = as_leaf;
    leaf[v] = model;
  }
  tree = replaced(tree, top, [&](GrowTree& out) { return push_pruned(out, tree, top, leaf); });
  e.evaluate(tree, c.layer, c.scratch);
}

// Top-down, lets a child take the place of its parent where that is better: below a split that was pulled up, the old
// one is often needed on one side only.
inline void settle(const OperatorContext& c, GrowTree& tree, int v) {
  for (bool changed = true; changed;) {
    changed = false;
    if (v >= int(tree.nodes.size()) || tree[v].is_leaf()) return;
    GrowTree candidates[2];
    run_apart(c, 2, [&](int i, const OperatorContext& apart) {
      candidates[i] = variant(tree, v, i + 1);
      apart.evaluator.evaluate(candidates[i], apart.layer, apart.scratch);
    });
    for (GrowTree& candidate : candidates)
      if (candidate.fitness < tree.fitness) tree = std::move(candidate), changed = true;
  }
  settle(c, tree, tree[v].left);
  if (v < int(tree.nodes.size()) && !tree[v].is_leaf()) settle(c, tree, tree[v].right);
}

}  // namespace glasswood
