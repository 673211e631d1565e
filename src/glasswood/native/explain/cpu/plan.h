// Builds the tables of explain/cpu/shap.h and explain/cpu/interactions.h from a forest.
#pragma once
#include <cmath>
#include <map>

#include "common/forest.h"
#include "common/forest_view.h"
#include "common/players.h"
#include "explain/cpu/quadrature.h"
#include "explain/cpu/task.h"
#include "explain/leaves.h"

namespace glasswood {

template <class Real>
struct ExplainPlan {
  Coding coding;
  std::vector<ShapNode<Real>> nodes;
  std::vector<ShapTree> trees;
  std::vector<int32_t> slot_player;
  std::vector<Real> inverse, deltas, points, leaf_value;
  std::vector<CategorySet> sets;
  std::vector<uint32_t> words;
  std::vector<double> expected_value;
  std::vector<LinearTerm<Real>> terms;
  std::vector<LinearEntry<Real>> entries;  // of interactions
  std::vector<LinearLeaf> models;          // [leaf]; empty: constant leaves
  std::vector<LoneLeaf> lone_leaves;
  std::vector<int32_t> total_of;  // [output][player]: place of its total; 0, which stays 0, where no tree knows it
  int32_t n_totals = 1;
  int32_t width, n_outputs, n_players, max_slots = 0, max_depth = 0, max_terms = 0, max_entries = 0;
  bool interactions;  // whether deltas was built: two rows of K a split

  ExplainPlan(const ForestView& forest, const Players& players, bool interactions)
      : coding(forest),
        words(forest.set_words.begin(), forest.set_words.end()),
        expected_value(forest.base_score.begin(), forest.base_score.end()),
        width(forest.width),
        n_outputs(forest.n_outputs()),
        n_players(players.n),
        interactions(interactions) {}
};

template <class Real>
class ExplainPlanBuilder {
 public:
  ExplainPlanBuilder(const ForestView& forest, const Players& players, ExplainPlan<Real>& plan)
      : forest_(forest), players_(players), plan_(plan), leaf_of_(forest.feature.size(), -1), path_(players.n) {
    int64_t leaf = 0;
    for (size_t node = 0; node < forest.feature.size(); ++node)
      if (!forest.is_split(node)) leaf_of_[node] = leaf++;
    center_leaves();
    if (forest.is_linear()) plan.models.resize(forest.leaf_value.size());
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree) add_tree(tree);
    std::vector<int32_t> ends;  // of the trees' records
    for (const ShapTree& tree : plan_.trees) ends.push_back(tree.root);
    ends.push_back(int32_t(plan_.nodes.size()));
    std::stable_sort(plan_.trees.begin(), plan_.trees.end(), [](const ShapTree& a, const ShapTree& b) {
      return a.output != b.output ? a.output < b.output : a.n_points < b.n_points;
    });
    share_slots(ends);
    place_totals();
  }

 private:
  // A player on the current path: its edges' product of cover ratios, and the depth of the latest edge.
  struct OnPath {
    double z = 1;
    int32_t depth = 0;
    int32_t slot = -1;
  };
  // What a split's record takes from the walk before its children are known.
  struct Pending {
    int64_t node;
    int32_t record;
    int32_t depth;
    OnPath before;
    int side = 0;
    double reach;  // product of all cover ratios above
    int32_t n_distinct;
  };

  const ForestView& forest_;
  const Players& players_;
  ExplainPlan<Real>& plan_;
  std::vector<int64_t> leaf_of_;
  std::vector<OnPath> path_;
  std::vector<int32_t> on_path_;  // players that the splits above the one at work test
  std::vector<double> centered_;  // [leaf][width]: weighted value minus the tree's middle
  std::vector<int32_t> height_;   // [record]
  std::vector<char> distinct_;    // [record]: no split from there on has a player that was split above
  std::map<int32_t, int64_t> first_point_;

  // Where most splits of a tree have a slot of their own, adding its sums to the totals takes as long as a sixth of its
  // walk: neighbours of one output then count slots, and sum, together.
  void share_slots(const std::vector<int32_t>& ends) {
    if (plan_.interactions || plan_.width > 1 || forest_.is_linear()) return;
    constexpr int kMostSharing = 4;
    const auto splits_of = [&](const ShapTree& tree) {
      return *std::upper_bound(ends.begin(), ends.end(), tree.root) - tree.root;
    };
    const auto can_share = [&](const ShapTree& tree) { return 2 * tree.n_slots > splits_of(tree); };
    const std::vector<int32_t> players = std::move(plan_.slot_player);
    plan_.slot_player.clear();
    for (size_t first = 0, end; first < plan_.trees.size(); first = end) {
      ShapTree group = plan_.trees[first];
      const size_t most = first + (can_share(group) ? kMostSharing : 1);
      group.first_slot = int32_t(plan_.slot_player.size()), group.n_slots = 0;
      for (end = first; end < std::min(most, plan_.trees.size()); ++end) {
        const ShapTree& tree = plan_.trees[end];
        if (end > first && (tree.output != group.output || !can_share(tree))) break;
        for (int32_t at = tree.root, last = at + splits_of(tree); at < last; ++at)
          plan_.nodes[at].slot = slot_of(players[tree.first_slot + plan_.nodes[at].slot], group);
      }
      forget_slots(group);
      for (size_t t = first; t < end; ++t) {
        plan_.trees[t].first_slot = group.first_slot, plan_.trees[t].n_slots = group.n_slots;
        plan_.trees[t].n_sharing = t == first ? int32_t(end - first) : 0;
      }
      plan_.max_slots = std::max(plan_.max_slots, group.n_slots);
    }
  }

  void place_totals() {
    const int64_t P = plan_.n_players;
    plan_.total_of.assign(plan_.n_outputs * P, 0);
    const auto use = [&](int32_t output, int32_t player) { plan_.total_of[output * P + player] = 1; };
    for (const ShapTree& tree : plan_.trees)
      for (int32_t slot = 0; slot < tree.n_slots; ++slot)
        for (int32_t o = 0; o < plan_.width; ++o) use(tree.output + o, plan_.slot_player[tree.first_slot + slot]);
    for (const LoneLeaf& lone : plan_.lone_leaves)
      for (int64_t at = plan_.models[lone.leaf].first; at < plan_.models[lone.leaf].end; ++at)
        use(lone.output, plan_.terms[at].player);
    for (int32_t& place : plan_.total_of)
      if (place) place = plan_.n_totals++;
  }

  void center_leaves() {
    WeightedLeaves leaves(forest_, sizeof(Real) == sizeof(float));
    for (int32_t tree = 0; tree < forest_.n_trees(); ++tree)
      for (int32_t o = 0; o < plan_.width; ++o)
        plan_.expected_value[forest_.tree_output[tree] + o] += leaves.middle[int64_t(tree) * plan_.width + o];
    centered_ = std::move(leaves.values);
    if (plan_.width > 1) plan_.leaf_value.assign(centered_.begin(), centered_.end());
  }

  double ratio_of(int64_t node, int64_t child) const { return cover_ratio(forest_, node, child); }
  int64_t child_of(int64_t node, int32_t tree, int side) const {
    return forest_.tree_offsets[tree] + forest_.left[node] + side;
  }

  void expect(int32_t tree, int64_t node, double reach) {
    for (int32_t o = 0; o < plan_.width; ++o)
      plan_.expected_value[forest_.tree_output[tree] + o] += reach * centered_[leaf_of_[node] * plan_.width + o];
  }

  int32_t slot_of(int32_t player, ShapTree& out) {
    OnPath& state = path_[player];
    if (state.slot < 0) {
      state.slot = out.n_slots++;
      plan_.slot_player.push_back(player);
    }
    return state.slot;
  }

  // The model of a leaf below the path's edges.
  void add_model(int32_t tree, int64_t leaf, ShapTree& out) {
    const int64_t first = forest_.linear_offsets[leaf], end = forest_.linear_offsets[leaf + 1];
    const int64_t first_term = int64_t(plan_.terms.size()), first_entry = int64_t(plan_.entries.size());
    if (plan_.interactions)
      for (const int32_t player : on_path_) entry_of(player, first_entry, out);
    for (int64_t at = first; at < end; ++at) {
      const int32_t f = forest_.linear_feature[at], player = players_.of(f), slot = slot_of(player, out);
      const OnPath& on = path_[player];
      const int32_t entry = plan_.interactions ? entry_of(player, first_entry, out) : 0;
      plan_.terms.push_back({f, player, slot, on.depth, Real(on.z), forest_.linear_category[at],
                             forest_.linear_coefficient[at], forest_.linear_mean[at], entry});
    }
    plan_.models[leaf] = {first_term,
                          first_term + end - first,
                          first_entry,
                          int64_t(plan_.entries.size()),
                          forest_.leaf_value[leaf],
                          value_at_means(forest_, leaf),
                          forest_.tree_weight[tree],
                          forest_.leaf_range[2 * leaf],
                          forest_.leaf_range[2 * leaf + 1],
                          forest_.leaf_missing.empty() ? kNoValue : forest_.leaf_missing[leaf]};
    plan_.max_terms = std::max(plan_.max_terms, int32_t(end - first));
    plan_.max_entries = std::max(plan_.max_entries, int32_t(plan_.entries.size() - first_entry));
  }

  // Number of a player's entry among those of a leaf; new ones are added.
  int32_t entry_of(int32_t player, int64_t first, ShapTree& out) {
    const int32_t slot = slot_of(player, out);
    for (size_t at = first; at < plan_.entries.size(); ++at)
      if (plan_.entries[at].slot == slot) return int32_t(at - first);
    plan_.entries.push_back({slot, path_[player].depth, Real(path_[player].z)});
    return int32_t(plan_.entries.size() - 1 - first);
  }

  Pending open(int32_t tree, int64_t node, int32_t depth, double reach, int32_t n_distinct, ShapTree& out) {
    const int32_t player = players_.of(forest_.feature[node]), record = int32_t(plan_.nodes.size());
    ShapNode<Real> entry{};
    entry.feature = forest_.feature[node];
    entry.slot = slot_of(player, out);
    const OnPath state = path_[player];
    entry.flags = split_flags(forest_, node);
    entry.previous = state.depth;
    entry.z_above = Real(state.z);
    entry.threshold = Real(plan_.coding.encoded[node]);
    if (forest_.is_categorical(node)) {
      entry.set = int32_t(plan_.sets.size());
      plan_.sets.push_back(category_set_of(forest_, node));
    }
    for (int side = 0; side < 2; ++side) {
      const int64_t child = child_of(node, tree, side);
      const double ratio = ratio_of(node, child);
      entry.ratio[side] = Real(ratio);
      entry.z[side] = Real(state.z * ratio);
      if (forest_.is_split(child)) continue;
      entry.flags |= kLeftIsLeaf << side;
      entry.child[side] = int32_t(leaf_of_[child]);
      if (plan_.width == 1) entry.value[side] = Real(centered_[leaf_of_[child]]);
      expect(tree, child, reach * ratio);
      if (!forest_.is_linear()) continue;
      path_[player].z = state.z * ratio, path_[player].depth = depth + 1;
      if (state.depth == 0) on_path_.push_back(player);
      add_model(tree, leaf_of_[child], out);
      if (state.depth == 0) on_path_.pop_back();
      path_[player] = state;
    }
    if (state.depth == 0 && (entry.flags & kLeftIsLeaf) && (entry.flags & kRightIsLeaf)) {
      const double left = entry.value[0], right = entry.value[1], z0 = entry.z[0], z1 = entry.z[1];
      entry.ratio[0] = Real((1 - z0) * left - z1 * right);
      entry.ratio[1] = Real((1 - z1) * right - z0 * left);
    }
    plan_.nodes.push_back(entry);
    height_.push_back(1);
    distinct_.push_back(state.depth == 0);
    plan_.max_depth = std::max(plan_.max_depth, depth + 1);
    return {node, record, depth, state, 0, reach, n_distinct + (state.depth == 0)};
  }

  // Depth first with a stack of our own: a chain may be millions of splits deep.
  void add_tree(int32_t tree) {
    const int64_t root = forest_.tree_offsets[tree];
    ShapTree out{
        int32_t(plan_.nodes.size()), forest_.tree_output[tree], 0, int32_t(plan_.slot_player.size()), 0, 1, 0, 0, 0};
    if (!forest_.is_split(root)) return add_lone_leaf(tree, root, out);
    int32_t most_distinct = 0;
    std::vector<Pending> stack{open(tree, root, 0, 1.0, 0, out)};
    while (!stack.empty()) {
      Pending& top = stack.back();
      most_distinct = std::max(most_distinct, top.n_distinct);
      OnPath& state = path_[players_.of(forest_.feature[top.node])];
      if (top.side == 2) {
        if (state.depth > 0 && top.before.depth == 0) on_path_.pop_back();
        state = top.before;
        if (stack.size() > 1) link(stack[stack.size() - 2], top.record);
        stack.pop_back();
        continue;
      }
      const int side = top.side++;
      const int64_t child = child_of(top.node, tree, side);
      if (!forest_.is_split(child)) continue;
      const double ratio = ratio_of(top.node, child);
      if (state.depth == 0) on_path_.push_back(players_.of(forest_.feature[top.node]));
      state.z = top.before.z * ratio;
      state.depth = top.depth + 1;
      stack.push_back(open(tree, child, top.depth + 1, top.reach * ratio, top.n_distinct, out));
    }
    finish(out, forest_.is_linear() ? most_distinct / 2 + 1 : (most_distinct + 1) / 2);
  }

  // A tree without splits: its model's terms are its SHAP values.
  void add_lone_leaf(int32_t tree, int64_t root, ShapTree& out) {
    expect(tree, root, 1.0);
    if (!forest_.is_linear()) return;
    add_model(tree, leaf_of_[root], out);
    plan_.lone_leaves.push_back({int32_t(leaf_of_[root]), out.output});
    forget_slots(out);
  }

  void forget_slots(const ShapTree& tree) {
    for (int32_t slot = 0; slot < tree.n_slots; ++slot) path_[plan_.slot_player[tree.first_slot + slot]] = OnPath{};
  }

  void link(const Pending& parent, int32_t child) {
    const int side = parent.side - 1;
    plan_.nodes[parent.record].child[side] = child;
    height_[parent.record] = std::max(height_[parent.record], height_[child] + 1);
    distinct_[parent.record] &= distinct_[child];
    if (height_[child] <= kLowHeight) plan_.nodes[parent.record].flags |= kLeftIsLow << side;
    if (distinct_[child] && height_[child] <= kFormHeight)
      plan_.nodes[parent.record].flags |= height_[child] << (kFormHeightShift + kFormHeightBits * side);
  }

  int64_t first_point_of(int32_t n_points) {
    const auto [found, is_new] = first_point_.try_emplace(n_points, int64_t(plan_.points.size()));
    if (!is_new) return found->second;
    const std::vector<double> quadrature = gauss_legendre(n_points);
    for (const double value : quadrature) plan_.points.push_back(Real(value));
    for (int degree = 0; degree <= kFormHeight; ++degree)
      for (int i = 0; i <= degree; ++i)
        for (int32_t k = 0; k < n_points; ++k)
          plan_.points.push_back(Real(std::pow(quadrature[k], i) * std::pow(1 - quadrature[k], degree - i)));
    return found->second;
  }

  void finish(ShapTree& out, int32_t n_points) {
    out.n_points = n_points;
    out.first_point = first_point_of(n_points);
    out.first_inverse = int64_t(plan_.inverse.size());
    out.first_delta = int64_t(plan_.deltas.size());
    const std::vector<Real> t(plan_.points.begin() + out.first_point,
                              plan_.points.begin() + out.first_point + n_points);
    int32_t rows = 0;
    for (size_t record = out.root; record < plan_.nodes.size(); ++record) {
      ShapNode<Real>& node = plan_.nodes[record];
      const double z_above = node.z_above;
      if (node.previous > 0) {
        node.inverse = rows++;
        for (int32_t k = 0; k < n_points; ++k) plan_.inverse.push_back(Real(1 / (z_above + (1 - z_above) * t[k])));
      }
      for (int side = 0; plan_.interactions && side < 2; ++side)
        for (int32_t k = 0; k < n_points; ++k) {
          const double z = node.z[side];
          plan_.deltas.push_back(Real((z_above - z) / ((z + (1 - z) * t[k]) * (z_above + (1 - z_above) * t[k]))));
        }
    }
    forget_slots(out);
    plan_.max_slots = std::max(plan_.max_slots, out.n_slots);
    plan_.trees.push_back(out);
  }
};

template <class Real>
ExplainPlan<Real> plan_explanation(const ForestView& forest, const Players& players, bool interactions) {
  ExplainPlan<Real> plan(forest, players, interactions);
  ExplainPlanBuilder<Real>(forest, players, plan);
  return plan;
}

}  // namespace glasswood
