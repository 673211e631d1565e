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
    leaf_of_ = leaf_of.data(), lane_of_ = lane_of.data();
    find_axes(root);
    visit(root);
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
  // The states of a feature, as bits.
  struct StateBits {
    uint64_t words[4] = {};
    void set(int32_t state) { words[state / 64] |= uint64_t(1) << state % 64; }
    // `bit` for each of n states that is none of them, else 0. Nobody can foretell which, hence no branch.
    uint16_t* write_others(int32_t n, uint16_t bit, uint16_t* to) const {
      for (int32_t first = 0; first < n; first += 64) {
        uint64_t rest = ~words[first / 64];
        for (const uint16_t* end = to + std::min(n - first, 64); to < end; rest >>= 1)
          *to++ = uint16_t(-(rest & 1)) & bit;
      }
      return to;
    }
  };
  static_assert(64 * 4 > kMostInside);

  // A feature that splits below the root test.
  struct Axis {
    const FeatureStates* states;
    int32_t lane;
    int32_t first_class;   // into class_of_state_
    int32_t n_edges;       // from the root that test it
    bool has_own_missing;  // whether missing numbers have a state of their own, the last
    StateBits met;         // states that meet all of these edges and are inside of the path
  };

  const TreeStates& states_;
  bool has_shares_;
  TablePlan& plan_;
  std::vector<int32_t> shared_, above_;
  int32_t n_states_ = 0;                 // of all axes
  std::vector<double> share_;            // [lane]: of the path to the node that is visited
  std::vector<Axis> axes_;               // features below the root
  std::vector<int32_t> axis_of_;         // [feature of the tree]
  std::vector<int32_t> class_of_state_;  // of the axes, one behind the other: a class of codes in each state
  const int32_t* leaf_of_ = nullptr;     // [node]
  const int32_t* lane_of_ = nullptr;     // [feature of the tree]

  void find_axes(int32_t root) {
    axes_.clear(), class_of_state_.clear();
    axis_of_.resize(states_.features.size());
    for (const FeatureStates& one : states_.below_of(root)) {
      const int32_t first = int32_t(class_of_state_.size()), n = one.n_states();
      class_of_state_.resize(first + n);
      const int32_t* classes = class_of_state_.data() + first;
      states_.find_classes(one, class_of_state_.data() + first);
      const TreeFeature& feature = states_.features[one.feature];
      axis_of_[one.feature] = int32_t(axes_.size());
      axes_.push_back({&one, lane_of_[one.feature], first, 0, classes[n - 1] == feature.missing()});
      for (int32_t s = one.on_path; s < n; ++s) axes_.back().met.set(s);
    }
  }

  // States of a feature inside of the path that go left at a split. Those of numbers lie in the order of their classes.
  StateBits find_left(const Axis& axis, int32_t node) const {
    const FeatureStates& one = *axis.states;
    const int32_t *classes = class_of_state_.data() + axis.first_class, n = one.n_states();
    StateBits result;
    int32_t s = one.on_path;
    if (!states_.features[one.feature].is_number()) {
      for (; s < n; ++s)
        if (states_.goes_left(node, classes[s])) result.set(s);
      return result;
    }
    const NumberSplit split = states_.number_split(node);
    for (; s < n && classes[s] < split.n_left; ++s) result.set(s);
    if (axis.has_own_missing && split.missing_left) result.set(n - 1);
    return result;
  }

  void visit(int32_t node) {
    if (!states_.is_split(node)) return add_leaf(leaf_of_[node]);
    Axis& axis = axes_[axis_of_[states_.feature_of(node)]];
    const StateBits left = find_left(axis, node), met = axis.met;
    double& share = share_[axis.lane];
    const double above = share;
    ++axis.n_edges;
    for (int side = 0; side < 2; ++side) {
      for (int w = 0; w < 4; ++w) axis.met.words[w] = met.words[w] & (side ? ~left.words[w] : left.words[w]);
      if (has_shares_) share = above * states_.ratio(node, side);
      visit(states_.child(node, side));
    }
    --axis.n_edges;
    axis.met = met;
    share = above;
  }

  void add_leaf(int32_t leaf) {
    SubtreeLeaf one{leaf, 0, 0, 0, int64_t(plan_.leaf_lanes.size()), int64_t(plan_.unmet.size())};
    plan_.unmet.resize(one.first_unmet + n_states_);
    uint16_t* to = plan_.unmet.data() + one.first_unmet;
    for (const Axis& axis : axes_) {
      const bool is_tested = axis.states->on_path || axis.n_edges > 0;
      const uint16_t bit = is_tested ? bit_of(axis.lane, one) : uint16_t(0);
      to = axis.met.write_others(axis.states->n_states(), bit, to);
    }
    for (const int32_t feature : shared_) {
      *to++ = bit_of(lane_of_[feature], one);
      *to++ = 0;
    }
    one.n_positions = one.n_below + int32_t(above_.size());
    for (const int32_t feature : above_) plan_.leaf_lanes.push_back(uint8_t(lane_of_[feature]));
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
