// The states of a tree's nodes, bottom up: for each feature below a node, which of the tree's codes the splits below
// tell apart, given the path to the node.
#pragma once
#include <span>

#include "explain/leaves.h"
#include "explain/tables/codes.h"
#include "explain/tables/number_states.h"
#include "explain/tables/tree_part.h"

namespace glasswood {

// A feature of a tree in the codes that the tree's splits tell apart: intervals of numbers or classes of categories,
// then missing values.
struct TreeFeature {
  int32_t column;
  std::vector<int32_t> first_code;  // of each interval; of classes any code
  std::vector<int32_t> class_of;    // [code] of categories; empty: numbers
  bool is_number() const { return class_of.empty(); }
  int32_t missing() const { return int32_t(first_code.size()); }  // the class of missing values
  int32_t n_classes() const { return missing() + 1; }
};

// A feature that splits below a node test: the state of a class is 0 outside of the path, else 1 ... n_inside.
struct FeatureStates {
  int32_t feature;  // of the tree
  int32_t n_inside;
  bool on_path;
  int64_t first;  // of categories into `states`, of numbers into `bounds`
  // For numbers: what the path lets pass, and the intervals that share the state of missing values. If there are none,
  // missing values have their own state.
  PassedNumbers passed = {};
  IntervalRange like_missing = {};
  int32_t n_states() const { return n_inside + on_path; }
  // Number of the state among those that there are.
  int32_t index(uint8_t state) const { return int32_t(state) - !on_path; }
};

// A split of a number by the classes of its feature.
struct NumberSplit {
  int32_t n_left, missing;
  bool missing_left;
  bool goes_left(int32_t c) const { return c == missing ? missing_left : c < n_left; }
};

struct NodeStates {
  int32_t first_below = 0, n_below = 0;  // into `below`, by feature
  int32_t n_path = 0;                    // features on the path
  int32_t n_shared = 0, n_states = 0;    // of those below: how many the path splits too, sum of their states
  int32_t n_leaves = 1;
  int32_t most = 0;            // features on the longest path to a leaf
  bool fits = false;           // cells of its splits are below the limit
  double cells = 1, work = 0;  // states of the features below; the same of all splits of the subtree
  double z_above = 1;          // of the split's feature
  bool split_above = false;    // whether the path splits it
};

constexpr int32_t kMostInside = 254;
constexpr int32_t kDeepest = 500;  // trees beyond are left to the walk: the states are found by recursion

class TreeStates {
 public:
  std::vector<TreeFeature> features;
  std::vector<NodeStates> nodes;
  std::vector<FeatureStates> below;
  std::vector<uint8_t> states;  // [class]
  // Bits of the intervals inside of the path at which another state begins; at first none, as of any feature of the
  // path alone.
  std::vector<uint64_t> bounds;
  const TreePart& part;

  // States of a part of a tree, whose places are the nodes; `most_cells` bounds the cells of a node.
  TreeStates(const ForestCodes& codes, int32_t tree, const TreePart& part, double most_cells)
      : part(part), codes_(codes), forest_(codes.forest), first_(forest_.tree_offsets[tree]), most_cells_(most_cells) {
    nodes.resize(part.nodes.size());
    feature_of_.assign(nodes.size(), -1);
    n_left_.assign(nodes.size(), 0);
    if (!collect_features(tree)) return;
    for (const TreeFeature& feature : features) {
      path_.push_back({{{0, feature.missing()}}, {}});
      if (!feature.is_number()) path_.back().outside.assign(feature.n_classes(), 0);
      bounds.resize(std::max(bounds.size(), size_t(words_of_bounds(feature.missing()))), 0);
    }
    below.reserve(nodes.size() * std::min<size_t>(features.size(), 4) / 2);
    visit(0);
    is_planned = true;
  }

  bool is_planned = false;

  bool is_split(int32_t node) const { return part.left[node] > 0; }
  int32_t child(int32_t node, int side) const { return part.left[node] + side; }
  int32_t feature_of(int32_t node) const { return feature_of_[node]; }
  double ratio(int32_t node, int side) const {
    return cover_ratio(forest_, in_forest(node), in_forest(child(node, side)));
  }
  bool goes_left(int32_t node, int32_t c) const {
    const TreeFeature& feature = features[feature_of_[node]];
    if (c == feature.missing()) return missing_left(node);
    if (feature.is_number()) return c < n_left_[node];
    return codes_.goes_left(in_forest(node), feature.first_code[c]);
  }
  NumberSplit number_split(int32_t node) const {
    return {n_left_[node], features[feature_of_[node]].missing(), missing_left(node)};
  }
  // Visits the classes of categories that do not take a side of the split.
  template <class Visit>
  void each_outside(int32_t node, int side, const Visit& visit) const {
    for (int32_t c = 0; c < features[feature_of_[node]].n_classes(); ++c)
      if (goes_left(node, c) == (side == 1)) visit(c);
  }
  // What lets pass numbers beyond an edge.
  PassedNumbers beyond(const PassedNumbers& above, int32_t node, int side) const {
    return above.beyond(side, n_left_[node], missing_left(node));
  }

  uint8_t state_of(const FeatureStates& one, int32_t c) const {
    const TreeFeature& feature = features[one.feature];
    if (!feature.is_number()) return states[one.first + c];
    if (c == feature.missing()) {
      if (!one.passed.missing) return 0;
      if (one.like_missing.is_empty()) return uint8_t(one.n_inside);
      c = one.like_missing.first;
    }
    return one.passed.intervals.has(c) ? uint8_t(1 + count_bounds_to(&bounds[one.first], c)) : 0;
  }
  // The classes at which another state of a number begins, then that of missing values: visit(class, state).
  template <class Visit>
  void each_change(const FeatureStates& one, const Visit& visit) const {
    const IntervalRange& inside = one.passed.intervals;
    const int32_t missing = features[one.feature].missing();
    int32_t state = 0;
    if (inside.first > 0 || inside.is_empty()) visit(0, 0);
    if (!inside.is_empty()) {
      visit(inside.first, ++state);
      each_bound(&bounds[one.first], words_of_bounds(missing), [&](int32_t c) { visit(c, ++state); });
      if (inside.end < missing) visit(inside.end, 0);
    }
    visit(missing, int32_t(state_of(one, missing)));
  }
  // The first class in each state, [index]; -1: no class is outside of the path.
  void find_classes(const FeatureStates& one, int32_t* of_state) const {
    std::fill_n(of_state, one.n_states(), -1);
    const auto arrive = [&](int32_t c, int32_t state) {
      int32_t& first = of_state[state - !one.on_path];
      if (first < 0) first = c;
    };
    if (features[one.feature].is_number()) return each_change(one, arrive);
    for (int32_t c = 0; c < features[one.feature].n_classes(); ++c) arrive(c, states[one.first + c]);
  }

  std::span<const FeatureStates> below_of(int32_t node) const {
    return {below.data() + nodes[node].first_below, size_t(nodes[node].n_below)};
  }
  const FeatureStates* find_below(int32_t node, int32_t feature) const {
    for (const FeatureStates& one : below_of(node))
      if (one.feature == feature) return &one;
    return nullptr;
  }

 private:
  struct OnPath {
    PassedNumbers passed;
    std::vector<uint16_t> outside;  // [class of categories]: edges of the path that do not let it pass
    int32_t n_edges = 0;
    double z = 1;
  };

  const ForestCodes& codes_;
  const ForestView& forest_;
  int64_t first_;
  double most_cells_;
  std::vector<int32_t> feature_of_, n_left_;  // [node]; intervals that go left
  std::vector<OnPath> path_;
  int32_t n_path_ = 0;
  std::vector<uint8_t> renumbered_;

  int64_t in_forest(int32_t node) const { return first_ + part.nodes[node]; }
  bool missing_left(int32_t node) const { return forest_.default_left[in_forest(node)]; }

  bool collect_features(int32_t tree) {
    std::vector<int32_t> of_column(codes_.columns.size(), -1);
    std::vector<IntervalStarts> starts;  // [feature]
    for (int32_t node = 0; node < int32_t(nodes.size()); ++node) {
      if (!is_split(node)) continue;
      const int32_t column = codes_.column_of(tree, forest_.feature[in_forest(node)]);
      if (column < 0) return false;
      if (of_column[column] < 0) {
        of_column[column] = int32_t(features.size());
        features.push_back({column, {0}, {}});
        starts.emplace_back(codes_.columns[column].n_codes);
      }
      feature_of_[node] = of_column[column];
      if (forest_.is_categorical(in_forest(node))) continue;
      n_left_[node] = codes_.boundary(in_forest(node), codes_.columns[column]);
      starts[feature_of_[node]].add(n_left_[node]);
    }
    for (size_t f = 0; f < features.size(); ++f) {
      features[f].first_code = starts[f].take();
      if (codes_.columns[features[f].column].categories) tell_apart(int32_t(f));
    }
    for (int32_t node = 0; node < int32_t(nodes.size()); ++node)
      if (is_split(node) && !forest_.is_categorical(in_forest(node)))
        n_left_[node] = starts[feature_of_[node]].n_below(n_left_[node]);
    return true;
  }

  // Categories that no split of the tree tells apart are one class.
  void tell_apart(int32_t f) {
    TreeFeature& feature = features[f];
    const int32_t n = codes_.columns[feature.column].n_codes;
    feature.class_of.assign(n, 0);
    int32_t n_classes = 1;
    std::vector<int32_t> moved;
    for (int32_t node = 0; node < int32_t(nodes.size()); ++node) {
      if (feature_of_[node] != f) continue;
      moved.assign(2 * n_classes, -1);
      int32_t found = 0;
      for (int32_t code = 0; code < n; ++code) {
        int32_t& to = moved[2 * feature.class_of[code] + codes_.goes_left(in_forest(node), code)];
        if (to < 0) to = found++;
        feature.class_of[code] = to;
      }
      n_classes = found;
    }
    feature.first_code.assign(n_classes, -1);
    for (int32_t code = n - 1; code >= 0; --code) feature.first_code[feature.class_of[code]] = code;
  }

  void visit(int32_t node) {
    NodeStates& me = nodes[node];
    me.n_path = me.most = n_path_;
    me.first_below = int32_t(below.size());
    me.fits = true;
    if (!is_split(node)) return;
    OnPath& on = path_[feature_of_[node]];
    me.z_above = on.z;
    me.split_above = on.n_edges > 0;
    const PassedNumbers above = on.passed;
    const bool is_number = features[feature_of_[node]].is_number();
    for (int side = 0; side < 2; ++side) {
      n_path_ += on.n_edges++ == 0;
      on.z = me.z_above * ratio(node, side);
      if (is_number)
        on.passed = beyond(above, node, side);
      else
        pass_edge(node, side, 1);
      visit(child(node, side));
      if (!is_number) pass_edge(node, side, -1);
      on.passed = above;
      on.z = me.z_above;
      n_path_ -= --on.n_edges == 0;
      me.most = std::max(me.most, nodes[child(node, side)].most);
    }
    me.n_leaves = nodes[child(node, 0)].n_leaves + nodes[child(node, 1)].n_leaves;
    if (node >= part.root) merge(node);
  }

  void pass_edge(int32_t node, int side, int change) {
    std::vector<uint16_t>& outside = path_[feature_of_[node]].outside;
    each_outside(node, side, [&](int32_t c) { outside[c] = uint16_t(outside[c] + change); });
  }

  // The features below a node from those below its children.
  void merge(int32_t node) {
    NodeStates& me = nodes[node];
    const NodeStates &left = nodes[child(node, 0)], &right = nodes[child(node, 1)];
    me.first_below = int32_t(below.size());
    me.fits = left.fits && right.fits;
    if (!me.fits) return;
    const int32_t own = feature_of_[node];
    int32_t l = 0, r = 0;
    bool is_done = false;
    for (;;) {
      const int32_t a = l < left.n_below ? below[left.first_below + l].feature : INT32_MAX;
      const int32_t b = r < right.n_below ? below[right.first_below + r].feature : INT32_MAX;
      const int32_t next = std::min({a, b, is_done ? INT32_MAX : own});
      if (next == INT32_MAX) break;
      const FeatureStates* of_left = a == next ? &below[left.first_below + l++] : nullptr;
      const FeatureStates* of_right = b == next ? &below[right.first_below + r++] : nullptr;
      is_done |= next == own;
      const FeatureStates joined = next == own ? split(node, of_left, of_right)
                                   : !of_left  ? *of_right
                                   : !of_right ? *of_left
                                               : join(*of_left, *of_right);
      me.fits &= joined.n_inside <= kMostInside;
      me.cells *= joined.n_states();
      below.push_back(joined);
      ++me.n_below;
      me.n_shared += joined.on_path;
      me.n_states += joined.n_states();
    }
    me.fits &= me.cells <= most_cells_;
    me.work = left.work + right.work + me.cells;
  }

  FeatureStates join(FeatureStates left, FeatureStates right) {
    if (features[left.feature].is_number()) {
      FeatureStates joined = left;
      joined.like_missing = left.like_missing.shared(right.like_missing);
      return count(joined, add_bounds(left.feature, &left, &right));
    }
    const int32_t n = features[left.feature].n_classes();
    renumbered_.assign(size_t(left.n_inside + 1) * (right.n_inside + 1), 0);
    return number(
        left.feature, left.on_path,
        [&, n_right = right.n_inside + 1](int32_t c) -> uint8_t* {
          const uint8_t l = states[left.first + c];
          return l ? &renumbered_[l * n_right + states[right.first + c]] : nullptr;
        },
        n);
  }

  // The feature that the node itself splits.
  FeatureStates split(int32_t node, const FeatureStates* of_left, const FeatureStates* of_right) {
    const int32_t f = feature_of_[node], n = features[f].n_classes();
    if (features[f].is_number()) return split_number(node, of_left, of_right);
    const int64_t first[2] = {of_left ? of_left->first : -1, of_right ? of_right->first : -1};
    const std::vector<uint16_t>& outside = path_[f].outside;
    renumbered_.assign(2 * 256, 0);
    return number(
        f, path_[f].n_edges > 0,
        [&](int32_t c) -> uint8_t* {
          if (outside[c]) return nullptr;
          const int side = !goes_left(node, c);
          return &renumbered_[side * 256 + (first[side] < 0 ? 0 : states[first[side] + c])];
        },
        n);
  }

  FeatureStates split_number(int32_t node, const FeatureStates* of_left, const FeatureStates* of_right) {
    const int32_t f = feature_of_[node], bound = n_left_[node];
    const PassedNumbers& passed = path_[f].passed;
    FeatureStates result{f, 0, path_[f].n_edges > 0, 0, passed};
    const int side = missing_left(node) ? 0 : 1;
    const FeatureStates* of_side = side ? of_right : of_left;
    result.like_missing = of_side ? of_side->like_missing : beyond(passed, node, side).intervals;
    const int64_t first = add_bounds(f, of_left, of_right);
    if (passed.intervals.first < bound && bound < passed.intervals.end)
      bounds[first + bound / 64] |= uint64_t(1) << bound % 64;
    return count(result, first);
  }

  // Where the bounds of both start.
  int64_t add_bounds(int32_t feature, const FeatureStates* left, const FeatureStates* right) {
    const int64_t first = int64_t(bounds.size());
    const int32_t n_words = words_of_bounds(features[feature].missing());
    bounds.resize(first + n_words);
    for (int32_t w = 0; w < n_words; ++w)
      bounds[first + w] = (left ? bounds[left->first + w] : 0) | (right ? bounds[right->first + w] : 0);
    return first;
  }

  FeatureStates count(FeatureStates one, int64_t first) const {
    one.first = first;
    const int32_t n_words = words_of_bounds(features[one.feature].missing());
    one.n_inside = one.passed.intervals.is_empty() ? 0 : count_bounds(&bounds[first], n_words) + 1;
    one.n_inside += one.passed.missing && one.like_missing.is_empty();
    one.n_inside = std::min(one.n_inside, kMostInside + 1);
    return one;
  }

  // Numbers the states of classes in the order in which they come; `place` says where a class's number is kept, null
  // outside of the path.
  template <class Place>
  FeatureStates number(int32_t feature, bool on_path, const Place& place, int32_t n_classes) {
    const int64_t first = int64_t(states.size());
    states.resize(first + n_classes);
    int32_t n_inside = 0;
    for (int32_t c = 0; c < n_classes; ++c) {
      uint8_t* known = place(c);
      if (known && *known == 0) {
        if (n_inside < kMostInside + 1) ++n_inside;
        *known = uint8_t(n_inside);
      }
      states[first + c] = known ? *known : 0;
    }
    return {feature, n_inside, on_path, first};
  }
};

}  // namespace glasswood
