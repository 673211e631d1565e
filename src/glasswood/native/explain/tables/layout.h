// Lays the subtrees of a tree out as plain arrays.
#pragma once
#include "explain/tables/cut.h"
#include "explain/tables/leaf_games/leaf_layout.h"

namespace glasswood {

class TreeLayout {
 public:
  // Lanes are a subtree's own features in their order; of tables by points those of its splits first.
  // Lays out a part of the tree; `leaf_of` is indexed by the tree's nodes.
  TreeLayout(const ForestCodes& codes, const TreeStates& states, int32_t tree, const std::vector<int32_t>& leaf_of,
             TableGame game, TablePlan& plan)
      : codes_(codes),
        states_(states),
        tree_(tree),
        game_(game),
        plan_(plan),
        leaves_(states, game == TableGame::kLeafCovers, plan) {
    parent_.assign(states.nodes.size(), -1);
    for (int32_t node = 0; node < int32_t(states.nodes.size()); ++node) {
      leaf_of_.push_back(leaf_of[states.part.nodes[node]]);
      if (states.is_split(node)) parent_[states.child(node, 0)] = parent_[states.child(node, 1)] = node;
    }
    lane_of_.assign(states.features.size(), -1);
  }

  void add(const SubtreeRoot& chosen) {
    const int32_t root = chosen.place;
    Subtree subtree{};
    subtree.by_points = chosen.by_points;
    subtree.tree = tree_;
    subtree.output = codes_.forest.tree_output[tree_];
    subtree.n_points = std::max(1, (states_.nodes[root].most + 1) / 2);
    subtree.leaf = leaf_of_[root];
    subtree.first_step = int64_t(plan_.steps.size());
    subtree.first_split = int64_t(plan_.splits.size());
    subtree.first_bits = int64_t(plan_.bits.size());
    collect_path(root);
    assign_lanes(root, subtree);
    stride_ = 1;
    base_ = 0;
    for (const FeatureStates& one : states_.below_of(root))
      add_key(one, [&](int32_t c) { return states_.states[one.first + c]; });
    if (game_ != TableGame::kCovers) add_above(root, true, shared_);
    subtree.n_cells = stride_;
    add_above(root, false, above_);
    subtree.n_above = int32_t(above_.size());
    subtree.n_states = stride_;
    subtree.base = base_;
    subtree.n_steps = int32_t(int64_t(plan_.steps.size()) - subtree.first_step);
    if (game_ == TableGame::kCovers)
      add_covers(root, subtree);
    else
      leaves_.add(root, shared_, above_, shares_by_lane(subtree), lane_of_, leaf_of_, subtree);
    plan_.subtrees.push_back(subtree);
  }

 private:
  struct PathFeature {
    int32_t feature;
    double z;
    PassedNumbers passed;
    int64_t outside;  // [class] of outside_
  };

  const ForestCodes& codes_;
  const TreeStates& states_;
  int32_t tree_;
  TableGame game_;
  TablePlan& plan_;
  LeafLayout leaves_;
  std::vector<int32_t> leaf_of_, parent_, lane_of_;
  std::vector<int32_t> above_;   // features of the path alone
  std::vector<int32_t> shared_;  // those of them whose player has another feature here
  std::vector<int32_t> features_, n_of_lane_, class_of_state_;
  std::vector<double> shares_;     // [lane]
  std::vector<PathFeature> path_;  // by feature
  std::vector<char> outside_;
  int32_t stride_ = 1, n_x_ = 0;
  uint16_t base_ = 0;

  void collect_path(int32_t root) {
    path_.clear();
    outside_.clear();
    for (int32_t child = root, node = parent_[root]; node >= 0; child = node, node = parent_[node]) {
      const int32_t f = states_.feature_of(node), n = states_.features[f].n_classes();
      const int side = child - states_.child(node, 0);
      auto found = std::find_if(path_.begin(), path_.end(), [&](const PathFeature& one) { return one.feature == f; });
      const bool is_number = states_.features[f].is_number();
      if (found == path_.end()) {
        found = path_.insert(found, {f, 1.0, {{0, n - 1}}, int64_t(outside_.size())});
        if (!is_number) outside_.resize(outside_.size() + n, 0);
      }
      found->z *= states_.ratio(node, side);
      if (is_number)
        found->passed = states_.beyond(found->passed, node, side);
      else
        states_.each_outside(node, side, [&](int32_t c) { outside_[found->outside + c] = true; });
    }
    std::sort(path_.begin(), path_.end(),
              [](const PathFeature& a, const PathFeature& b) { return a.feature < b.feature; });
  }

  void assign_lanes(int32_t root, Subtree& subtree) {
    subtree.first_lane = int64_t(plan_.lane_player.size());
    std::vector<int32_t>& all = features_;
    all.clear();
    for (const FeatureStates& one : states_.below_of(root)) all.push_back(one.feature);
    for (const PathFeature& one : path_)
      if (!states_.find_below(root, one.feature)) all.push_back(one.feature);
    if (!subtree.by_points) std::sort(all.begin(), all.end());
    n_of_lane_.clear();
    for (const int32_t f : all) {
      const int32_t player = codes_.player_of[states_.features[f].column];
      const auto first = plan_.lane_player.begin() + subtree.first_lane;
      lane_of_[f] = int32_t(std::find(first, plan_.lane_player.end(), player) - first);
      if (lane_of_[f] < subtree.n_lanes) {
        ++n_of_lane_[lane_of_[f]];
        continue;
      }
      subtree.lanes |= 1u << lane_of_[f];
      plan_.lane_player.push_back(player);
      n_of_lane_.push_back(1);
      ++subtree.n_lanes;
    }
  }

  // Keys of the features of the path alone: those whose player has another feature here, or the others.
  void add_above(int32_t root, bool shared, std::vector<int32_t>& features) {
    features.clear();
    for (const PathFeature& one : path_) {
      const bool is_shared = game_ != TableGame::kCovers && n_of_lane_[lane_of_[one.feature]] > 1;
      if (states_.find_below(root, one.feature) || is_shared != shared) continue;
      const FeatureStates states{one.feature, 1, true, 0, one.passed, one.passed.intervals};
      add_key(states, [&](int32_t c) { return int32_t(!outside_[one.outside + c]); });
      features.push_back(one.feature);
    }
  }

  const std::vector<double>& shares_by_lane(const Subtree& subtree) {
    shares_.assign(subtree.n_lanes, 1.0);
    for (const PathFeature& one : path_) shares_[lane_of_[one.feature]] *= one.z;
    return shares_;
  }

  // The steps of a feature's share of the key: where its state changes along the line of its codes. `state` is that of
  // a class of categories.
  template <class State>
  void add_key(const FeatureStates& one, const State& state) {
    const TreeFeature& f = states_.features[one.feature];
    int32_t last = -1;
    const auto arrive = [&](int32_t code, int32_t now) {
      const int32_t weight = (now - std::max(last, 0)) * stride_ * kKeyScale;
      if (last < 0)
        base_ = uint16_t(base_ + weight);
      else if (now != last)
        plan_.steps.push_back({uint16_t(f.column), int16_t(code - 1 - kCodeBias), uint16_t(weight), 0});
      last = now;
    };
    const int32_t missing = f.missing();
    const auto arrive_in = [&](int32_t code, int32_t state) { arrive(code, one.index(uint8_t(state))); };
    if (f.is_number()) {
      states_.each_change(
          one, [&](int32_t c, int32_t now) { arrive_in(c == missing ? kMissingCode : f.first_code[c], now); });
    } else {
      for (int32_t code = 0; code < int32_t(f.class_of.size()); ++code) arrive_in(code, state(f.class_of[code]));
      arrive_in(kMissingCode, state(missing));
    }
    stride_ *= one.n_states();
  }

  void add_covers(int32_t root, Subtree& subtree) {
    add_factors(root, subtree);
    add_bits(root);
    n_x_ = 0;
    if (states_.is_split(root)) add_split(root, subtree.first_split);
    subtree.n_x = n_x_;
    subtree.n_splits = int32_t(int64_t(plan_.splits.size()) - subtree.first_split);
    plan_.most_x = std::max(plan_.most_x, n_x_);
    plan_.most_shared = std::max(plan_.most_shared, subtree.n_shared);
    plan_.most_above = std::max(plan_.most_above, subtree.n_above);
  }

  void add_factors(int32_t root, Subtree& subtree) {
    subtree.first_factor = int64_t(plan_.factors.size());
    for (const FeatureStates& one : states_.below_of(root)) {
      if (!one.on_path) continue;
      const auto found =
          std::find_if(path_.begin(), path_.end(), [&](const PathFeature& p) { return p.feature == one.feature; });
      plan_.factors.push_back({lane_of_[one.feature], 0, found->z});
      ++subtree.n_shared;
    }
    for (const PathFeature& one : path_)
      if (!states_.find_below(root, one.feature)) plan_.factors.push_back({lane_of_[one.feature], 0, one.z});
  }

  // Per cell of the root: which of the shared features are inside of the path.
  void add_bits(int32_t root) {
    std::vector<uint16_t> bits{0}, next;
    int32_t place = 0;
    for (const FeatureStates& one : states_.below_of(root)) {
      next.clear();
      for (int32_t s = 0; s < one.n_states(); ++s)
        for (const uint16_t other : bits) next.push_back(uint16_t(other | (one.on_path && s > 0) << place));
      place += one.on_path;
      bits.swap(next);
    }
    if (place) plan_.bits.insert(plan_.bits.end(), bits.begin(), bits.end());
  }

  // Children are counted from the subtree's first split.
  int32_t add_split(int32_t node, int64_t first) {
    const int32_t f = states_.feature_of(node);
    const NodeStates& at = states_.nodes[node];
    SubtreeSplit split{};
    split.lane = lane_of_[f];
    split.z_above = at.z_above;
    for (int side = 0; side < 2; ++side) {
      const int32_t child = states_.child(node, side);
      split.child[side] = states_.is_split(child) ? add_split(child, first) : -1;
      split.leaf[side] = leaf_of_[child];
      split.ratio[side] = states_.ratio(node, side);
      split.again |= uint32_t(states_.find_below(child, f) != nullptr) << side;
      for (const FeatureStates& one : states_.below_of(node))
        if (one.feature != f && !states_.find_below(child, one.feature))
          split.absent[side] |= 1u << lane_of_[one.feature];
    }
    split.n_cells = int32_t(at.cells);
    split.first_x = n_x_;
    n_x_ += split.n_cells;
    split.first_cell = int64_t(plan_.cells.size());
    add_cells(node);
    plan_.splits.push_back(split);
    return int32_t(int64_t(plan_.splits.size()) - 1 - first);
  }

  void add_cells(int32_t node) {
    const int64_t first = int64_t(plan_.cells.size());
    plan_.cells.resize(first + int64_t(states_.nodes[node].cells), Cell{});
    Cell* cells = plan_.cells.data() + first;
    int32_t stride[2] = {1, 1}, n_cells = 1;
    for (const FeatureStates& one : states_.below_of(node)) {
      const FeatureStates* of_child[2] = {states_.find_below(states_.child(node, 0), one.feature),
                                          states_.find_below(states_.child(node, 1), one.feature)};
      class_of_state_.resize(one.n_states());
      states_.find_classes(one, class_of_state_.data());
      for (int32_t s = one.n_states() - 1; s >= 0; --s) {
        const Cell more = cell_of(node, one, s, of_child, stride);
        for (int32_t i = 0; i < n_cells; ++i) cells[s * n_cells + i] = sum(cells[i], more);
      }
      for (int i = 0; i < 2; ++i)
        if (of_child[i]) stride[i] *= of_child[i]->n_states();
      n_cells *= one.n_states();
    }
  }

  // What a state of one feature adds to the places of a cell.
  Cell cell_of(int32_t node, const FeatureStates& one, int32_t state, const FeatureStates* const (&of_child)[2],
               const int32_t (&stride)[2]) const {
    const int32_t c = class_of_state_[state];
    const bool is_own = one.feature == states_.feature_of(node), is_inside = state + !one.on_path > 0;
    Cell result{{0, 0}, uint16_t(is_own && is_inside ? (states_.goes_left(node, c) ? 1 : 2) : 0), 0};
    for (int i = 0; i < 2; ++i)
      if (of_child[i] && c >= 0)
        result.child[i] = uint16_t(stride[i] * of_child[i]->index(states_.state_of(*of_child[i], c)));
    return result;
  }

  static Cell sum(const Cell& a, const Cell& b) {
    return {{uint16_t(a.child[0] + b.child[0]), uint16_t(a.child[1] + b.child[1])}, uint16_t(a.side + b.side), 0};
  }
};

}  // namespace glasswood
