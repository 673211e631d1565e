// Lays out the leaves of subtrees for games by leaves: which of a leaf's conditions a state does not meet.
#pragma once
#include "explain/tables/leaf_games/cell_conditions.h"
#include "explain/tables/plan.h"
#include "explain/tables/states.h"

namespace glasswood {

class LeafLayout {
 public:
  // Only games of the covers ask for the shares of leaves.
  LeafLayout(const TreeStates& states, bool has_shares, TablePlan& plan)
      : states_(states), has_shares_(has_shares), plan_(plan) {}

  // `shared` and `above`: features of the path to the root that no split below tests, in the order of their states; the
  // latter are alone of their players. `z` are products of the path's cover ratios by lane, `lane_of` is by feature of
  // the tree, `leaf_of` by node.
  void add(int32_t root, const std::vector<int32_t>& shared, const std::vector<int32_t>& above,
           const std::vector<double>& z, const std::vector<int32_t>& lane_of, const std::vector<int32_t>& leaf_of,
           Subtree& subtree) {
    subtree.first_leaf = int64_t(plan_.leaves.size());
    shared_ = shared, above_ = above, share_ = z;
    n_states_ = states_.nodes[root].n_states + 2 * int32_t(shared.size());
    subtree.first_axis = int64_t(plan_.axis_states.size());
    for (const FeatureStates& one : states_.below_of(root)) plan_.axis_states.push_back(uint16_t(one.n_states()));
    plan_.axis_states.resize(plan_.axis_states.size() + shared.size(), 2);
    subtree.n_axes = int32_t(int64_t(plan_.axis_states.size()) - subtree.first_axis);
    find_classes(root);
    visit(root, root, lane_of, leaf_of);
    subtree.n_leaves = int32_t(int64_t(plan_.leaves.size()) - subtree.first_leaf);
    plan_.most_unmet = std::max(plan_.most_unmet, (int64_t(subtree.n_leaves) + kLeafLanes) * subtree.n_cells);
    int64_t n_patterns = 0;
    for (int64_t i = subtree.first_leaf; i < int64_t(plan_.leaves.size()); ++i)
      n_patterns += int64_t(1) << plan_.leaves[i].n_positions;
    plan_.most_patterns = std::max(plan_.most_patterns, n_patterns);
    plan_.most_leaves = std::max(plan_.most_leaves, subtree.n_leaves);
    plan_.most_states = std::max(plan_.most_states, subtree.n_states);
  }

 private:
  const TreeStates& states_;
  bool has_shares_;
  TablePlan& plan_;
  std::vector<int32_t> shared_, above_;
  int32_t n_states_ = 0;       // of all axes
  std::vector<double> share_;  // [lane]: of the path to the node that is visited
  // For the states of the features below the root, one feature behind the other.
  std::vector<int32_t> class_of_state_;      // a class of codes in each; -1: outside of the path
  std::vector<int32_t> n_unmet_;             // edges from the root that it does not meet, one more outside of the path
  std::vector<int32_t> first_state_;         // [feature of the tree]
  std::vector<int32_t> n_edges_;             // [feature of the tree]: edges from the root that test it
  std::vector<const FeatureStates*> below_;  // [feature of the tree] that splits below the root test

  void find_classes(int32_t root) {
    class_of_state_.clear();
    first_state_.resize(states_.features.size());
    below_.resize(states_.features.size());
    n_edges_.assign(states_.features.size(), 0);
    for (const FeatureStates& one : states_.below_of(root)) {
      const size_t first = class_of_state_.size();
      first_state_[one.feature] = int32_t(first);
      below_[one.feature] = &one;
      class_of_state_.resize(first + one.n_states());
      states_.find_classes(one, class_of_state_.data() + first);
      if (one.on_path) class_of_state_[first] = -1;
    }
    n_unmet_.clear();
    for (const int32_t c : class_of_state_) n_unmet_.push_back(c < 0);
  }

  void take_edge(const FeatureStates& one, int32_t node, int side, int32_t change) {
    n_edges_[one.feature] += change;
    const int32_t* c = class_of_state_.data() + first_state_[one.feature];
    int32_t* n_unmet = n_unmet_.data() + first_state_[one.feature];
    if (!states_.features[one.feature].is_number()) {
      for (int32_t s = 0; s < one.n_states(); ++s)
        n_unmet[s] += c[s] >= 0 && states_.goes_left(node, c[s]) == (side == 1) ? change : 0;
      return;
    }
    const NumberSplit split = states_.number_split(node);
    for (int32_t s = 0; s < one.n_states(); ++s)
      n_unmet[s] += (c[s] >= 0) & (split.goes_left(c[s]) == (side == 1)) ? change : 0;
  }

  void visit(int32_t node, int32_t root, const std::vector<int32_t>& lane_of, const std::vector<int32_t>& leaf_of) {
    if (!states_.is_split(node)) return add_leaf(root, leaf_of[node], lane_of);
    const FeatureStates& one = *below_[states_.feature_of(node)];
    double& share = share_[lane_of[one.feature]];
    const double above = share;
    for (int side = 0; side < 2; ++side) {
      take_edge(one, node, side, 1);
      if (has_shares_) share = above * states_.ratio(node, side);
      visit(states_.child(node, side), root, lane_of, leaf_of);
      take_edge(one, node, side, -1);
    }
    share = above;
  }

  void add_leaf(int32_t root, int32_t leaf, const std::vector<int32_t>& lane_of) {
    SubtreeLeaf one{leaf, 0, 0, 0, int64_t(plan_.leaf_lanes.size()), int64_t(plan_.unmet.size())};
    plan_.unmet.resize(one.first_unmet + n_states_);
    uint16_t* to = plan_.unmet.data() + one.first_unmet;
    for (const FeatureStates& feature : states_.below_of(root)) {
      const bool is_tested = feature.on_path || n_edges_[feature.feature] > 0;
      const uint16_t bit = is_tested ? bit_of(lane_of[feature.feature], one) : uint16_t(0);
      const int32_t *n_unmet = n_unmet_.data() + first_state_[feature.feature], n = feature.n_states();
      for (int32_t s = 0; s < n; ++s) *to++ = n_unmet[s] ? bit : uint16_t(0);
    }
    for (const int32_t feature : shared_) {
      *to++ = bit_of(lane_of[feature], one);
      *to++ = 0;
    }
    one.n_positions = one.n_below + int32_t(above_.size());
    for (const int32_t feature : above_) plan_.leaf_lanes.push_back(uint8_t(lane_of[feature]));
    for (int32_t p = 0; has_shares_ && p < one.n_positions; ++p)
      plan_.leaf_shares.push_back(share_[plan_.leaf_lanes[one.first_lane + p]]);
    plan_.leaves.push_back(one);
  }

  // The bit of the position of a lane's player, which is added if the leaf has none.
  uint16_t bit_of(int32_t lane, SubtreeLeaf& leaf) const {
    const uint8_t* lanes = plan_.leaf_lanes.data() + leaf.first_lane;
    int32_t position = 0;
    while (position < leaf.n_below && lanes[position] != lane) ++position;
    if (position == leaf.n_below) {
      plan_.leaf_lanes.push_back(uint8_t(lane));
      ++leaf.n_below;
    }
    return uint16_t(1 << position);
  }
};

}  // namespace glasswood
