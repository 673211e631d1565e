// What splitting a leaf would gain, without building and evaluating a tree for each.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "grow/search/split_search.h"

namespace glasswood {

// The best split of a leaf, or with both models the same and no split: the leaf that a subtree would become.
struct LeafChange {
  int v = -1;
  GrowSplit split;
  std::array<FeatureSet, 2> models;
  double gain = -std::numeric_limits<double>::infinity();  // of fitness
};

class LeafChanges {
 public:
  LeafChanges(const OperatorContext& context, const std::function<bool()>& stopped)
      : c_(context), e_(context.evaluator), stopped_(stopped) {}

  // The best change of every named leaf of an evaluated tree, in their order. A leaf without a split gains minus
  // infinity.
  std::vector<LeafChange> best(const GrowTree& tree, const std::vector<int>& leaves, const std::vector<Box>& boxes) {
    std::vector<LeafChange> splits(leaves.size());
    run_apart(c_, int(leaves.size()), [&](int i, const OperatorContext& c) {
      splits[i].v = leaves[i];
      if (!stopped_()) LeafChanges(c, stopped_).find(tree, boxes[leaves[i]], splits[i]);
    });
    return splits;
  }

  // The leaf that takes the place of the subtree at v; its gain is usually negative. Reads no rows.
  LeafChange pruned(const GrowTree& tree, int v, const Box& box) {
    LeafChange leaf;
    leaf.v = v;
    const LeafStats& stats = *e_.stats_of(box, c_.layer, c_.scratch);
    leaf.models[0] = leaf.models[1] = thinned(tree, stats, models_below(tree, v), c_);
    const double error = e_.residual(box, stats, leaf.models[0], c_.layer, c_.scratch);
    leaf.gain = gain(tree, v, error, -1, leaf.models[0].count(), 1);
    return leaf;
  }

 private:
  FeatureSet thinned(const GrowTree& tree, const LeafStats& stats, const FeatureSet& start,
                     const OperatorContext& c) const {
    return e_.select_model(stats, start, e_.fitness().price(tree.error), c.scratch);
  }

  void find(const GrowTree& tree, const Box& box, LeafChange& split) {
    split.split = SplitSearch(c_, stopped_).best(box, tree[split.v].model).split;
    if (split.split.feature < 0) return;
    std::array<double, 2> errors{};
    run_apart(c_, 2, [&](int i, const OperatorContext& c) {
      const Box side = box.narrowed(c.data(), split.split, i == 0);
      const LeafStats& stats = *e_.stats_of(side, c.layer, c.scratch);
      split.models[i] = thinned(tree, stats, all_features(c.data()), c);
      errors[i] = e_.residual(side, stats, split.models[i], c.layer, c.scratch);
    });
    const int features = split.models[0].count() + split.models[1].count();
    split.gain = gain(tree, split.v, errors[0] + errors[1], split.split.feature, features, 2);
  }

  // The gain of fitness if `n_leaves` leaves, with `n_features` features in all and this error, stood at v, below a
  // split of the feature if there is one.
  double gain(const GrowTree& tree, int v, double error, int feature, int n_features, int n_leaves) const {
    Size size = e_.fitness().size_of(tree, v, feature);
    size.features += n_features, size.leaves += n_leaves;
    return tree.fitness - e_.fitness()(tree.error - tree[v].error + error, size);
  }

  const OperatorContext& c_;
  const Evaluator& e_;
  const std::function<bool()>& stopped_;
};

// A copy of the tree with these changes, whose places do not overlap.
inline GrowTree with_changes(GrowTree tree, std::vector<LeafChange> changes) {
  std::sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) { return a.v > b.v; });
  for (const LeafChange& change : changes)
    tree = change.split.feature < 0 ? with_leaf(tree, change.v, change.models[0])
                                    : with_split(tree, change.v, change.split, change.models[0], change.models[1]);
  return tree;
}

// Renumbers what is left open behind the splits that were made; returns the new leaves.
inline std::vector<int> renumber_behind(const std::vector<LeafChange>& made, std::vector<LeafChange>& open) {
  const auto moved = [&](int v) {
    return v + 2 * int(std::count_if(made.begin(), made.end(), [v](const LeafChange& split) { return split.v < v; }));
  };
  std::vector<int> leaves;
  for (const LeafChange& split : made)
    for (const int side : {1, 2}) leaves.push_back(moved(split.v) + side);
  for (LeafChange& split : open) split.v = moved(split.v);
  std::sort(leaves.begin(), leaves.end());
  return leaves;
}

// The best splits and the pairs that lose least, one for one, while that gains at least this much.
inline std::vector<LeafChange> exchanges(std::vector<LeafChange> splits, std::vector<LeafChange> joined,
                                         double least_gain) {
  for (std::vector<LeafChange>* list : {&splits, &joined})
    std::stable_sort(list->begin(), list->end(), [](const auto& a, const auto& b) { return a.gain > b.gain; });
  std::vector<LeafChange> changes;
  for (const LeafChange& split : splits) {
    const auto apart = [&](const LeafChange& pair) {  // from this split and those before
      const auto below = [&](const LeafChange& other) { return other.v > pair.v && other.v <= pair.v + 2; };
      return !below(split) && std::none_of(changes.begin(), changes.end(), below);
    };
    const auto above = [&](const LeafChange& other) {
      return other.split.feature < 0 && split.v > other.v && split.v <= other.v + 2;
    };
    if (std::any_of(changes.begin(), changes.end(), above)) continue;
    const auto pair = std::find_if(joined.begin(), joined.end(), apart);
    if (pair == joined.end() || split.gain + pair->gain <= least_gain) continue;
    changes.push_back(split);
    changes.push_back(*pair);
    joined.erase(pair);
  }
  return changes;
}

}  // namespace glasswood
