// The paper's genetic operators. Each returns offspring without evaluating them; an operator that does not apply
// returns its parent unchanged.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "grow/search/model_selection.h"

namespace silva {

struct OperatorContext {
  const Evaluator& evaluator;
  StatsLayer& layer;
  Scratch& scratch;
  Random& random;

  const GrowData& data() const { return evaluator.data(); }
};

// Calls run(i, context) for every i below n: beside each other where the reader answers many questions at once, each
// with a cache layer of its own then, in turn otherwise. What is run draws no random numbers.
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
inline void sample_rows(const RowReader& source, const GrowData& data, const Box& box, int wanted, Random& random,
                        RowList& rows) {
  rows.clear();
  const int by = narrowest(data, box);
  const Interval interval = by < 0 ? Interval{} : box[by];
  const int64_t n_missing = by >= 0 && interval.missing ? data.n_missing(interval.attribute) : 0;
  const int64_t count = by < 0 ? data.n_rows : rows_of_interval(data, interval);
  for (int draw = 0; draw < 8 * wanted && int(rows.size()) < wanted && count > 0; ++draw) {
    const int64_t at = random.below(count);
    int32_t row = int32_t(at);
    if (by >= 0) {
      const int64_t first = at < n_missing ? 0 : data.starts[interval.attribute][interval.low] - n_missing;
      row = data.order[interval.attribute * data.n_rows + first + at];
    }
    if (holds(data, box, by, row)) rows.push_back(row);
  }
  if (int(rows.size()) >= std::min<int64_t>(wanted, 8)) return;
  source.sample(box, data.n_rows + 1, rows);
}

inline int32_t middle_cut(const GrowData& data, int attribute, int32_t low, int32_t high) {
  const double* values = data.values[attribute];
  const double middle = values[low] + (values[high] - values[low]) / 2;
  const int32_t cut = int32_t(std::lower_bound(values, values + data.n_distinct[attribute], middle) - values);
  return std::clamp(cut, low + 1, high);
}

// A test that parts two rows: midway between their values, or missing from present.
inline Test parting_test(const GrowData& data, int attribute, int32_t a, int32_t b, Random& random) {
  if (a < 0 || b < 0) return {attribute, data.n_distinct[attribute], false};
  const bool missing_left = data.n_missing(attribute) > 0 && random.chance(0.5);
  return {attribute, middle_cut(data, attribute, std::min(a, b), std::max(a, b)), missing_left};
}

// Dipole: a random row, a second one by linear ranking over the difference in y, a random attribute that differs.
inline bool dipole_test(const GrowData& data, const RowList& rows, Random& random, Test& test) {
  if (rows.size() < 2) return false;
  const int32_t one = rows[random.below(int64_t(rows.size()))];
  RowList others = rows;
  std::stable_sort(others.begin(), others.end(), [&](int32_t a, int32_t b) {
    return std::abs(data.y[a] - data.y[one]) < std::abs(data.y[b] - data.y[one]);
  });
  const int32_t other = others[random.ranked(int64_t(others.size()))];
  for (int attempt = 0; attempt < 2 * data.n_attributes + 4; ++attempt) {
    const int a = int(random.below(data.n_attributes));
    if (data.rank(one, a) == data.rank(other, a)) continue;
    test = parting_test(data, a, data.rank(one, a), data.rank(other, a), random);
    return true;
  }
  return false;
}

constexpr int kDipoleRows = 64;

inline bool dipole_at(const OperatorContext& c, const GrowTree& tree, int v, Test& test) {
  all_boxes(c.data(), tree, c.scratch.boxes);
  sample_rows(c.evaluator.rows(), c.data(), c.scratch.boxes[v], kDipoleRows, c.random, c.scratch.rows);
  return dipole_test(c.data(), c.scratch.rows, c.random, test);
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

inline GrowTree new_test(const OperatorContext& c, const GrowTree& tree, int v) {
  GrowTree child = tree;
  if (Test test; dipole_at(c, tree, v, test)) child.nodes[v].test = test;
  return child;
}

// Moves the threshold by a normal step in ranks, its scale log-uniform over the node's own range.
inline GrowTree shift_threshold(const OperatorContext& c, const GrowTree& tree, int v) {
  GrowTree child = tree;
  Test& test = child.nodes[v].test;
  all_boxes(c.data(), tree, c.scratch.boxes);
  const Interval range = c.scratch.boxes[v].interval(c.data(), test.attribute);
  if (range.high - range.low < 3 || test.cut >= c.data().n_distinct[test.attribute]) return child;
  const double scale = std::pow(double(range.high - range.low) / 2, c.random.uniform());
  const int64_t step = std::llround(c.random.normal() * scale);
  const int64_t moved = test.cut + (step != 0 ? step : (c.random.chance(0.5) ? 1 : -1));
  test.cut = int32_t(std::clamp<int64_t>(moved, range.low + 1, range.high - 1));
  child.hint = {v, tree[v].test};
  return child;
}

inline GrowTree prune(const OperatorContext&, const GrowTree& tree, int v) {
  return with_leaf(tree, v, models_below(tree, v));
}

inline GrowTree expand(const OperatorContext& c, const GrowTree& tree, int v) {
  Test test;
  if (tree.n_leaves() >= c.evaluator.limits().max_leaves || !dipole_at(c, tree, v, test)) return tree;
  return with_split(tree, v, test, tree[v].model, tree[v].model);
}

inline uint64_t hash_of(const Test& test) {
  return mix64(uint64_t(uint32_t(test.cut)) << 33 ^ uint64_t(uint32_t(test.attribute)) << 1 ^
               uint64_t(test.missing_left));
}

// The subtree at v with its box.
inline Key sweep_key(const GrowTree& tree, int v, const Box& box) {
  Key key = box.key().plus(0x5eeb, uint64_t(uint32_t(tree[v].test.attribute)) * 2 + tree[v].test.missing_left);
  for (int u = v + 1; u < subtree_end(tree, v); ++u) {
    const uint64_t word = tree[u].is_leaf() ? tree[u].model.hash() : hash_of(tree[u].test);
    key = key.plus(uint64_t(u - v), word);
  }
  return key;
}

// Best threshold of the node's test, by the running Gram matrices of all leaves below.
inline GrowTree sweep_node(const OperatorContext& c, const GrowTree& tree, int v) {
  GrowTree child = tree;
  Box box;
  all_boxes(c.data(), tree, c.scratch.boxes);
  box = c.scratch.boxes[v];
  const Key key = sweep_key(tree, v, box);
  Test test = tree[v].test;
  if (test.cut >= c.data().n_distinct[test.attribute]) return child;
  if (const FoundTest* known = c.layer.find_test(key)) {
    child.nodes[v].test = known->test;
    return child;
  }
  const FoundCut found = c.evaluator.rows().best_threshold(
      {&box, test.attribute, test.missing_left, &tree, tree[v].left, tree[v].right, nullptr}, c.scratch);
  if (found.cut >= 0) test.cut = found.cut;
  c.layer.add_test(key, {test, found.error});
  child.nodes[v].test = test;
  return child;
}

enum class ModelChange { kAdd, kDrop, kSubset, kAll, kConstant, kBackward, kCount };

inline void toggle_random(AttributeSet& model, const AttributeSet& allowed, bool present, Random& random) {
  std::vector<int> candidates;
  for (int a = 0; a < allowed.capacity(); ++a)
    if (allowed.has(a) && model.has(a) != present) candidates.push_back(a);
  if (!candidates.empty()) model.set(candidates[random.below(int64_t(candidates.size()))], present);
}

inline GrowTree change_model(const OperatorContext& c, const GrowTree& tree, int v) {
  GrowTree child = tree;
  const AttributeSet allowed = all_attributes(c.data());
  AttributeSet& model = child.nodes[v].model;
  switch (ModelChange(c.random.below(int64_t(ModelChange::kCount)))) {
    case ModelChange::kAdd:
      toggle_random(model, allowed, true, c.random);
      break;
    case ModelChange::kDrop:
      toggle_random(model, allowed, false, c.random);
      break;
    case ModelChange::kSubset:
      for (int a = 0; a < c.data().n_attributes; ++a) model.set(a, allowed.has(a) && c.random.chance(0.5));
      break;
    case ModelChange::kAll:
      model = allowed;
      break;
    case ModelChange::kConstant:
      model = AttributeSet(c.data().n_attributes);
      break;
    default: {
      all_boxes(c.data(), tree, c.scratch.boxes);
      const Box box = c.scratch.boxes[v];
      const LeafStats& stats = *c.evaluator.stats_of(box, c.layer, c.scratch);
      const double price = c.evaluator.fitness().price(tree.error);
      model = select_model(c.evaluator, stats, allowed, price, c.scratch);
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

inline void swap_tests(GrowTree& a, int v, GrowTree& b, int w) { std::swap(a.nodes[v].test, b.nodes[w].test); }

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

}  // namespace silva
