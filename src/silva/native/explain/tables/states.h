// The states of a tree's nodes, bottom up: for each feature below a node, which of the tree's codes the splits below
// tell apart, given the path to the node.
#pragma once
#include <span>

#include "explain/leaves.h"
#include "explain/tables/codes.h"
#include "explain/tables/tree_part.h"

namespace silva {

// A feature of a tree in the codes that the tree's splits tell apart: intervals of numbers or classes of categories,
// then missing values.
struct TreeFeature {
  int32_t column;
  std::vector<int32_t> first_code;  // of each interval; of classes any code
  std::vector<int32_t> class_of;    // [code] of categories; empty: numbers
  int32_t n_classes() const { return int32_t(first_code.size()) + 1; }
  int32_t code_of(int32_t c) const { return c < int32_t(first_code.size()) ? first_code[c] : kMissingCode; }
};

// A feature that splits below a node test: states[class] is 0 outside of the path, else 1 ... n_inside.
struct FeatureStates {
  int32_t feature;  // of the tree
  int32_t n_inside;
  bool on_path;
  int64_t first;  // into the tree's states
  int32_t n_states() const { return n_inside + on_path; }
  // Number of the state among those that there are.
  int32_t index(uint8_t state) const { return int32_t(state) - !on_path; }
};

struct NodeStates {
  int32_t first_below = 0, n_below = 0;  // into `below`, by feature
  int32_t n_path = 0;                    // features on the path
  int32_t most = 0;                      // features on the longest path to a leaf
  bool fits = false;                     // cells of its splits are below the limit
  double cells = 1, work = 0;            // states of the features below; the same of all splits of the subtree
  double z_above = 1;                    // of the split's feature
  bool split_above = false;              // whether the path splits it
};

constexpr int32_t kMostInside = 254;
constexpr int32_t kDeepest = 500;  // trees beyond are left to the walk: the states are found by recursion

class TreeStates {
 public:
  std::vector<TreeFeature> features;
  std::vector<NodeStates> nodes;
  std::vector<FeatureStates> below;
  std::vector<uint8_t> states;
  const TreePart& part;

  // Of a part of a tree, whose places are the nodes; `most_cells` bounds the cells of a node.
  TreeStates(const ForestCodes& codes, int32_t tree, const TreePart& part, double most_cells)
      : part(part), codes_(codes), forest_(codes.forest), first_(forest_.tree_offsets[tree]), most_cells_(most_cells) {
    nodes.resize(part.nodes.size());
    feature_of_.assign(nodes.size(), -1);
    n_left_.assign(nodes.size(), 0);
    if (!collect_features(tree)) return;
    path_.resize(features.size());
    for (size_t f = 0; f < features.size(); ++f) path_[f].outside.assign(features[f].n_classes(), 0);
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
    if (c + 1 == feature.n_classes()) return forest_.default_left[in_forest(node)];
    if (feature.class_of.empty()) return c < n_left_[node];
    return codes_.goes_left(in_forest(node), feature.first_code[c]);
  }
  // Visits the classes of the split's feature that do not take a side.
  template <class Visit>
  void each_outside(int32_t node, int side, const Visit& visit) const {
    const TreeFeature& feature = features[feature_of_[node]];
    const int32_t n = int32_t(feature.first_code.size());
    if (feature.class_of.empty()) {
      for (int32_t c = side ? 0 : n_left_[node], end = side ? n_left_[node] : n; c < end; ++c) visit(c);
      if (goes_left(node, n) == (side == 1)) visit(n);
      return;
    }
    for (int32_t c = 0; c <= n; ++c)
      if (goes_left(node, c) == (side == 1)) visit(c);
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
    std::vector<uint16_t> outside;  // [class]: edges of the path that do not let it pass
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

  bool collect_features(int32_t tree) {
    std::vector<int32_t> of_column(codes_.columns.size(), -1);
    for (int32_t node = 0; node < int32_t(nodes.size()); ++node) {
      if (!is_split(node)) continue;
      const int32_t column = codes_.column_of(tree, forest_.feature[in_forest(node)]);
      if (column < 0) return false;
      if (of_column[column] < 0) {
        of_column[column] = int32_t(features.size());
        features.push_back({column, {0}, {}});
      }
      feature_of_[node] = of_column[column];
      if (forest_.is_categorical(in_forest(node))) continue;
      n_left_[node] = codes_.boundary(in_forest(node), codes_.columns[column]);
      if (n_left_[node] > 0 && n_left_[node] < codes_.columns[column].n_codes)
        features[feature_of_[node]].first_code.push_back(n_left_[node]);
    }
    for (size_t f = 0; f < features.size(); ++f) {
      auto& starts = features[f].first_code;
      std::sort(starts.begin(), starts.end());
      starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
      if (codes_.columns[features[f].column].categories) tell_apart(int32_t(f));
    }
    for (int32_t node = 0; node < int32_t(nodes.size()); ++node) {
      if (!is_split(node) || forest_.is_categorical(in_forest(node))) continue;
      const auto& starts = features[feature_of_[node]].first_code;
      n_left_[node] = int32_t(std::lower_bound(starts.begin(), starts.end(), n_left_[node]) - starts.begin());
    }
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
    for (int side = 0; side < 2; ++side) {
      n_path_ += on.n_edges++ == 0;
      on.z = me.z_above * ratio(node, side);
      pass_edge(node, side, 1);
      visit(child(node, side));
      pass_edge(node, side, -1);
      on.z = me.z_above;
      n_path_ -= --on.n_edges == 0;
      me.most = std::max(me.most, nodes[child(node, side)].most);
    }
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
    }
    me.fits &= me.cells <= most_cells_;
    me.work = left.work + right.work + me.cells;
  }

  FeatureStates join(FeatureStates left, FeatureStates right) {
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
    const int64_t first[2] = {of_left ? of_left->first : -1, of_right ? of_right->first : -1};
    const std::vector<uint16_t>& outside = path_[f].outside;
    const bool in_order = features[f].class_of.empty();
    renumbered_.assign(2 * 256, 0);
    return number(
        f, path_[f].n_edges > 0,
        [&](int32_t c) -> uint8_t* {
          if (outside[c]) return nullptr;
          const int side = in_order && c + 1 < n ? c >= n_left_[node] : !goes_left(node, c);
          return &renumbered_[side * 256 + (first[side] < 0 ? 0 : states[first[side] + c])];
        },
        n);
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

}  // namespace silva
