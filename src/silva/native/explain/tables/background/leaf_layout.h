// Lays out the leaves of subtrees for tables of a background: which of a leaf's conditions a state does not meet.
#pragma once
#include "explain/tables/plan.h"
#include "explain/tables/states.h"

namespace silva {

class LeafLayout {
 public:
  LeafLayout(const TreeStates& states, TablePlan& plan) : states_(states), plan_(plan) {}

  // `above`: features of the path to the root that no split below tests, in the order of their states. `lane_of` is by
  // feature of the tree, `leaf_of` by node.
  void add(int32_t root, const std::vector<int32_t>& above, const std::vector<int32_t>& lane_of,
           const std::vector<int32_t>& leaf_of, Subtree& subtree) {
    subtree.first_leaf = int64_t(plan_.leaves.size());
    edges_.clear();
    find_classes(root);
    visit(root, root, above, lane_of, leaf_of);
    subtree.n_leaves = int32_t(int64_t(plan_.leaves.size()) - subtree.first_leaf);
    int64_t n_patterns = 0;
    for (int64_t i = subtree.first_leaf; i < int64_t(plan_.leaves.size()); ++i)
      n_patterns += int64_t(1) << plan_.leaves[i].n_positions;
    plan_.most_patterns = std::max(plan_.most_patterns, n_patterns);
    plan_.most_leaves = std::max(plan_.most_leaves, subtree.n_leaves);
    plan_.most_states = std::max(plan_.most_states, subtree.n_states);
  }

 private:
  struct Edge {
    int32_t node;
    bool goes_left;
  };

  const TreeStates& states_;
  TablePlan& plan_;
  std::vector<Edge> edges_;              // from the subtree's root
  std::vector<int32_t> class_of_state_;  // of the features below the root, one behind the other
  std::vector<uint16_t> unmet_, more_;

  // A class of codes in each state; -1: outside of the path.
  void find_classes(int32_t root) {
    class_of_state_.clear();
    for (const FeatureStates& one : states_.below_of(root)) {
      const size_t first = class_of_state_.size();
      class_of_state_.resize(first + one.n_states(), -1);
      for (int32_t c = states_.features[one.feature].n_classes() - 1; c >= 0; --c)
        if (const uint8_t state = states_.states[one.first + c]) class_of_state_[first + one.index(state)] = c;
    }
  }

  void visit(int32_t node, int32_t root, const std::vector<int32_t>& above, const std::vector<int32_t>& lane_of,
             const std::vector<int32_t>& leaf_of) {
    if (!states_.is_split(node)) return add_leaf(root, leaf_of[node], above, lane_of);
    for (int side = 0; side < 2; ++side) {
      edges_.push_back({node, side == 0});
      visit(states_.child(node, side), root, above, lane_of, leaf_of);
      edges_.pop_back();
    }
  }

  void add_leaf(int32_t root, int32_t leaf, const std::vector<int32_t>& above, const std::vector<int32_t>& lane_of) {
    SubtreeLeaf one{leaf, 0, 0, 0, int64_t(plan_.leaf_lanes.size()), int64_t(plan_.unmet.size())};
    unmet_.assign(1, 0);
    const int32_t* class_of = class_of_state_.data();
    for (const FeatureStates& feature : states_.below_of(root)) {
      const bool is_tested = feature.on_path || std::any_of(edges_.begin(), edges_.end(), [&](const Edge& edge) {
                               return states_.feature_of(edge.node) == feature.feature;
                             });
      const uint16_t bit = is_tested ? uint16_t(1 << one.n_below++) : uint16_t(0);
      more_.clear();
      for (int32_t s = 0; s < feature.n_states(); ++s) {
        const uint16_t added = meets(feature.feature, class_of[s]) ? uint16_t(0) : bit;
        for (const uint16_t known : unmet_) more_.push_back(uint16_t(known | added));
      }
      unmet_.swap(more_);
      class_of += feature.n_states();
      if (is_tested) plan_.leaf_lanes.push_back(uint8_t(lane_of[feature.feature]));
    }
    for (const int32_t feature : above) plan_.leaf_lanes.push_back(uint8_t(lane_of[feature]));
    one.n_positions = one.n_below + int32_t(above.size());
    plan_.unmet.insert(plan_.unmet.end(), unmet_.begin(), unmet_.end());
    plan_.leaves.push_back(one);
  }

  bool meets(int32_t feature, int32_t c) const {
    if (c < 0) return false;
    return std::all_of(edges_.begin(), edges_.end(), [&](const Edge& edge) {
      return states_.feature_of(edge.node) != feature || states_.goes_left(edge.node, c) == edge.goes_left;
    });
  }
};

}  // namespace silva
