// The paper's genetic operators. Each returns offspring without evaluating them; an operator that does not apply
// returns its parent unchanged.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "grow/search/evaluator.h"

namespace glasswood {

struct OperatorContext {
  const Evaluator& evaluator;
  StatsLayer& layer;
  Scratch& scratch;
  Random& random;

  const GrowData& data() const { return evaluator.data(); }
};

// Calls run(i, context) for every i below n: beside each other where subtasks are, each with a cache layer of its own
// then, in turn otherwise. What is run draws no random numbers.
template <class Run>
void run_apart(const OperatorContext& c, int n, Run run) {
  if (n == 1 || c.evaluator.tasks().n_together() == 1) {
    for (int i = 0; i < n; ++i) run(i, c);
    return;
  }
  std::vector<StatsLayer> layers;
  for (int i = 0; i < n; ++i) layers.emplace_back(&c.layer);
  c.evaluator.tasks().fork(n, c.scratch,
                           [&](int i, Scratch& s) { run(i, OperatorContext{c.evaluator, layers[i], s, c.random}); });
  for (StatsLayer& layer : layers) c.layer.absorb(layer);
}

// Rows of a box by rejection from its narrowest interval; all of its rows if too few are met.
inline void sample_rows(const TrainingRowSource& source, const GrowData& data, const Box& box, int wanted,
                        Random& random, RowList& rows) {
  rows.clear();
  const int by = narrowest(data, box);
  const Interval interval = by < 0 ? Interval{} : box[by];
  const int64_t n_missing = by >= 0 && interval.missing ? data.n_missing(interval.feature) : 0;
  const int64_t count = by < 0 ? data.n_rows : rows_of_interval(data, interval);
  for (int draw = 0; draw < 8 * wanted && int(rows.size()) < wanted && count > 0; ++draw) {
    const int64_t at = random.below(count);
    int32_t row = int32_t(at);
    if (by >= 0) {
      const int64_t first = at < n_missing ? 0 : data.starts[interval.feature][interval.low] - n_missing;
      row = data.order[interval.feature * data.n_rows + first + at];
    }
    if (holds(data, box, by, row)) rows.push_back(row);
  }
  if (int(rows.size()) >= std::min<int64_t>(wanted, 8)) return;
  source.sample(box, data.n_rows + 1, rows);
}

inline int32_t middle_threshold(const GrowData& data, int feature, int32_t low, int32_t high) {
  const double* values = data.values[feature];
  const double middle = values[low] + (values[high] - values[low]) / 2;
  const int32_t threshold = int32_t(std::lower_bound(values, values + data.n_distinct[feature], middle) - values);
  return std::clamp(threshold, low + 1, high);
}

// A split that parts two rows: midway between their values, or missing from present.
inline GrowSplit parting_split(const GrowData& data, int feature, int32_t a, int32_t b, Random& random) {
  if (a < 0 || b < 0) return {feature, data.n_distinct[feature], false};
  const bool missing_left = data.n_missing(feature) > 0 && random.chance(0.5);
  return {feature, middle_threshold(data, feature, std::min(a, b), std::max(a, b)), missing_left};
}

// Dipole: a random row, a second one by linear ranking over the difference in y, a random feature that differs.
inline bool dipole_split(const GrowData& data, const RowList& rows, Random& random, GrowSplit& split) {
  if (rows.size() < 2) return false;
  const int32_t one = rows[random.below(int64_t(rows.size()))];
  RowList others = rows;
  std::stable_sort(others.begin(), others.end(), [&](int32_t a, int32_t b) {
    return std::abs(data.y[a] - data.y[one]) < std::abs(data.y[b] - data.y[one]);
  });
  const int32_t other = others[random.ranked(int64_t(others.size()))];
  for (int attempt = 0; attempt < 2 * data.n_features + 4; ++attempt) {
    const int a = int(random.below(data.n_features));
    if (data.rank(one, a) == data.rank(other, a)) continue;
    split = parting_split(data, a, data.rank(one, a), data.rank(other, a), random);
    return true;
  }
  return false;
}

constexpr int kDipoleRows = 64;

inline bool dipole_at(const OperatorContext& c, const GrowTree& tree, int v, GrowSplit& split) {
  all_boxes(c.data(), tree, c.scratch.boxes);
  sample_rows(c.evaluator.rows(), c.data(), c.scratch.boxes[v], kDipoleRows, c.random, c.scratch.rows);
  return dipole_split(c.data(), c.scratch.rows, c.random, split);
}

// Nodes of the kind by linear ranking: deeper ones and worse ones (error a row) are likelier.
inline int ranked_node(const GrowTree& tree, bool leaves, Random& random) {
  std::vector<int> nodes = nodes_of_kind(tree, leaves);
  if (nodes.empty()) return -1;
  const std::vector<int> depths = node_depths(tree);
  const auto badness = [&](int v) { return tree[v].error / double(std::max<int64_t>(tree[v].n_rows, 1)); };
  std::stable_sort(nodes.begin(), nodes.end(), [&](int a, int b) {
    if (!leaves && depths[a] != depths[b]) return depths[a] < depths[b];
    return badness(a) < badness(b);
  });
  return nodes[random.ranked(int64_t(nodes.size()))];
}

inline GrowTree new_split(const OperatorContext& c, const GrowTree& tree, int v) {
  GrowTree child = tree;
  if (GrowSplit split; dipole_at(c, tree, v, split)) child.nodes[v].split = split;
  return child;
}

// Moves the threshold by a normal step in ranks, its scale log-uniform over the node's own range.
inline GrowTree shift_threshold(const OperatorContext& c, const GrowTree& tree, int v) {
  GrowTree child = tree;
  GrowSplit& split = child.nodes[v].split;
  all_boxes(c.data(), tree, c.scratch.boxes);
  const Interval range = c.scratch.boxes[v].interval(c.data(), split.feature);
  if (range.high - range.low < 3 || split.threshold >= c.data().n_distinct[split.feature]) return child;
  const double scale = std::pow(double(range.high - range.low) / 2, c.random.uniform());
  const int64_t step = std::llround(c.random.normal() * scale);
  const int64_t moved = split.threshold + (step != 0 ? step : (c.random.chance(0.5) ? 1 : -1));
  split.threshold = int32_t(std::clamp<int64_t>(moved, range.low + 1, range.high - 1));
  child.hint = {v, tree[v].split};
  return child;
}

inline GrowTree prune(const OperatorContext&, const GrowTree& tree, int v) {
  return with_leaf(tree, v, models_below(tree, v));
}

inline GrowTree expand(const OperatorContext& c, const GrowTree& tree, int v) {
  GrowSplit split;
  if (tree.n_leaves() >= c.evaluator.limits().max_leaves || !dipole_at(c, tree, v, split)) return tree;
  return with_split(tree, v, split, tree[v].model, tree[v].model);
}

inline uint64_t hash_of(const GrowSplit& split) {
  return mix64(uint64_t(uint32_t(split.threshold)) << 33 ^ uint64_t(uint32_t(split.feature)) << 1 ^
               uint64_t(split.missing_left));
}

// The subtree at v with its box.
inline Key threshold_key(const GrowTree& tree, int v, const Box& box) {
  Key key = box.key().plus(0x5eeb, uint64_t(uint32_t(tree[v].split.feature)) * 2 + tree[v].split.missing_left);
  for (int u = v + 1; u < subtree_end(tree, v); ++u) {
    const uint64_t word = tree[u].is_leaf() ? tree[u].model.hash() : hash_of(tree[u].split);
    key = key.plus(uint64_t(u - v), word);
  }
  return key;
}

// Best threshold of the node's split, by the running Gram matrices of all leaves below.
inline GrowTree search_threshold(const OperatorContext& c, const GrowTree& tree, int v) {
  GrowTree child = tree;
  Box box;
  all_boxes(c.data(), tree, c.scratch.boxes);
  box = c.scratch.boxes[v];
  const Key key = threshold_key(tree, v, box);
  GrowSplit split = tree[v].split;
  if (split.threshold >= c.data().n_distinct[split.feature]) return child;
  if (const FoundSplit* known = c.layer.find_split(key)) {
    child.nodes[v].split = known->split;
    return child;
  }
  const FoundThreshold found = c.evaluator.rows().best_threshold(
      {&box, split.feature, split.missing_left, &tree, tree[v].left, tree[v].right, nullptr}, c.scratch);
  if (found.threshold >= 0) split.threshold = found.threshold;
  c.layer.add_split(key, {split, found.error});
  child.nodes[v].split = split;
  return child;
}

enum class ModelChange { kAdd, kDrop, kSubset, kAll, kConstant, kBackward, kCount };

inline void toggle_random(FeatureSet& model, const FeatureSet& allowed, bool present, Random& random) {
  std::vector<int> candidates;
  for (int a = 0; a < allowed.capacity(); ++a)
    if (allowed.has(a) && model.has(a) != present) candidates.push_back(a);
  if (!candidates.empty()) model.set(candidates[random.below(int64_t(candidates.size()))], present);
}

inline GrowTree change_model(const OperatorContext& c, const GrowTree& tree, int v) {
  GrowTree child = tree;
  const FeatureSet allowed = all_features(c.data());
  FeatureSet& model = child.nodes[v].model;
  switch (ModelChange(c.random.below(int64_t(ModelChange::kCount)))) {
    case ModelChange::kAdd:
      toggle_random(model, allowed, true, c.random);
      break;
    case ModelChange::kDrop:
      toggle_random(model, allowed, false, c.random);
      break;
    case ModelChange::kSubset:
      for (int a = 0; a < c.data().n_features; ++a) model.set(a, allowed.has(a) && c.random.chance(0.5));
      break;
    case ModelChange::kAll:
      model = allowed;
      break;
    case ModelChange::kConstant:
      model = FeatureSet(c.data().n_features);
      break;
    default: {
      all_boxes(c.data(), tree, c.scratch.boxes);
      const Box box = c.scratch.boxes[v];
      const LeafStats& stats = *c.evaluator.stats_of(box, c.layer, c.scratch);
      const double price = c.evaluator.fitness().price(tree.error);
      model = c.evaluator.select_model(stats, allowed, price, c.scratch);
    }
  }
  return child;
}

// Crossover of two trees at one node each; `a` receives from `b` and the other way round.
inline void swap_subtrees(GrowTree& a, int v, GrowTree& b, int w) {
  GrowTree x = with_subtree(a, v, b, w), y = with_subtree(b, w, a, v);
  a = std::move(x);
  b = std::move(y);
}

inline void swap_splits(GrowTree& a, int v, GrowTree& b, int w) { std::swap(a.nodes[v].split, b.nodes[w].split); }

inline void swap_branches(GrowTree& a, int v, GrowTree& b, int w, Random& random) {
  const bool left = random.chance(0.5);
  swap_subtrees(a, left ? a[v].left : a[v].right, b, left ? b[w].left : b[w].right);
}

// The subtree with the smaller error a row replaces the other one.
inline void copy_better(GrowTree& a, int v, GrowTree& b, int w) {
  const auto badness = [](const GrowNode& node) { return node.error / double(std::max<int64_t>(node.n_rows, 1)); };
  if (badness(a[v]) <= badness(b[w]))
    b = with_subtree(b, w, a, v);
  else
    a = with_subtree(a, v, b, w);
}

}  // namespace glasswood
