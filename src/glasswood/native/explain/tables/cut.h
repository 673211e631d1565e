// Where a tree is cut into subtrees: a dynamic programme over its nodes, each either a root or left to its children. A
// tree has tables as a whole, or in part: the walk then takes the tree with its subtrees' roots for leaves.
#pragma once
#include <algorithm>
#include <cmath>

#include "explain/tables/pairs.h"
#include "explain/tables/plan.h"
#include "explain/tables/states.h"

namespace glasswood {

// What a table by points costs in place of one by states (docs/internals/tables.md): its entries are of cells alone,
// and a row multiplies them by the factors of its path.
struct PointCosts {
  double row = 0;           // of a look-up; 0: there are no such tables
  double below = 0;         // more for each vector of an entry of four points
  double above = 0;         // more for each feature of the path alone
  double number = 0;        // of the table
  double most_numbers = 0;  // of a table
};

// What a subtree costs, in cycles: a row's key and add, a state's and a cell's share of the build. Figures of one
// AVX-512 core; n_rows is fixed, so that the cut, and with it every bit of the values, depends on the forest alone.
// Cuts made for 2,000 to 4,000 rows are within 15 % of the best for 500 to 20,000.
struct CutCosts {
  double n_rows = 6000;
  double add = 1.3;             // a row's look-up and add
  double vector = 0;            // a row's more for each vector of an entry
  double wide = 0;              // a row's more for entries of more features than `narrow`
  double step = 0.1;            // a row's share of one step of a key
  double state = 6, cell = 28;  // of one vector
  double walk = 1.0;            // a row, split and quadrature point of the walk
  double total = 8;             // a row and sum of a chunk, which goes to a total of its own
  double in_order = 1;          // the same where totals lie as sums do
  // Limits of a subtree: states, numbers of its table, cells of all its splits together, features.
  double most_states = kMostStates, most_numbers = 1e18, most_cells = 1e18;
  int32_t most_lanes = kMostLanes, narrow = kMostLanes;
  int32_t value_lanes = kMostLanes;  // of a vector of values
  int32_t pair_lanes = 0;            // numbers of a vector of pairs; 0: of values
  // Rebuild a tree's tables per call only if they pay off for at least this many rows; 0: never.
  double rebuild_rows = 0, rebuild_add = 0, rebuild_state = 0;
  double rebuild_more = 0;  // of an entry's second vector, a row and a state alike
  PointCosts points;

  bool of_pairs() const { return pair_lanes > 0; }
  double n_vectors(int32_t n_lanes) const {
    return of_pairs() ? pair_vectors(n_lanes, pair_lanes) : (n_lanes + value_lanes - 1) / value_lanes;
  }
  // Numbers of a state's entry beside others of its kind; those of pairs are filled up to four.
  double n_numbers(int32_t n_lanes) const {
    return of_pairs() ? (n_pairs(pair_capacity(n_lanes, pair_lanes)) + 3) / 4 * 4 : n_lanes;
  }
};

inline CutCosts cpu_costs() {
  CutCosts costs;
  costs.add = 0, costs.vector = 1.3, costs.state = 12;
  costs.value_lanes = kValueLanes;
  costs.rebuild_rows = 2000, costs.rebuild_add = 3, costs.rebuild_state = 12, costs.rebuild_more = 5;
  return costs;
}

// Interactions are asked for fewer rows, of longer states.
inline CutCosts pair_costs() {
  CutCosts costs;
  costs.n_rows = 2000;
  costs.add = 2, costs.vector = 1.5, costs.state = 12, costs.cell = 60;
  costs.walk = 4, costs.total = 2.5;
  costs.most_lanes = kMostPairSlots;
  costs.pair_lanes = kPairLanes;
  return costs;
}

// Entries of groups of features cost more to build, and none are built anew for each call.
inline CutCosts group_costs(CutCosts costs) {
  costs.state *= 2.5;
  costs.rebuild_rows = 0;
  return costs;
}

// A node by its place in one of its tree's parts; by_points: as in Subtree.
struct SubtreeRoot {
  int32_t part = -1, place = 0, by_points = 0;
};

struct TreeCut {
  std::vector<SubtreeRoot> roots;  // from the left; empty: nothing to add
  std::vector<int32_t> covered;    // of a tree in part: the highest nodes all of whose leaves are below roots
  bool is_partial = false;         // leaves that are below none are walked
  double cost = 0;                 // of the tables, and of the walk of what is left, n_rows rows
  double walk = 0;                 // of the walk of the whole tree
  double n_states = 0;
  // Look-ups and states of second vectors.
  double more_vectors = 0, more_states = 0;
};

// What tables of the subtrees of a part of a tree cost.
class SubtreeCosts {
 public:
  static constexpr double kInfinite = 1e300;
  static constexpr int32_t kMostPower = 40;  // of features on the path alone: more have too many states as well

  SubtreeCosts(const TreeStates& states, const CutCosts& costs, int32_t width)
      : states_(states), costs_(costs), width_(width) {}

  double vectors_of(int32_t node) const { return costs_.n_vectors(lanes_of(node)); }
  double states_of(int32_t node) const {
    const NodeStates& at = states_.nodes[node];
    return at.cells * double(int64_t(1) << std::min(at.n_path - at.n_shared, kMostPower));
  }

  // Quadrature points of a table by points, as kernels have them.
  int32_t points_of(int32_t node) const {
    const int32_t most = states_.nodes[node].most;
    return most > 12 ? 8 : most > 8 ? 6 : 4;
  }

  // kInfinite where there can be none.
  double by_states(int32_t node) const {
    const NodeStates& at = states_.nodes[node];
    const double n_states = at.fits ? states_of(node) : kInfinite;
    const int32_t n_lanes = lanes_of(node);
    if (n_states > costs_.most_states || n_lanes > costs_.most_lanes || at.work > costs_.most_cells) return kInfinite;
    if (n_states * costs_.n_numbers(n_lanes) > costs_.most_numbers) return kInfinite;
    const double n_vectors = vectors_of(node);
    const double add = costs_.add + costs_.vector * n_vectors + (n_lanes > costs_.narrow ? costs_.wide : 0);
    const double row = add * width_ + costs_.step * n_steps(node);
    return costs_.n_rows * row + width_ * n_vectors * (costs_.state * n_states + costs_.cell * at.work);
  }
  double by_points(int32_t node) const {
    const PointCosts& costs = costs_.points;
    const NodeStates& at = states_.nodes[node];
    const int32_t n_above = at.n_path - at.n_shared, n_points = points_of(node);
    if (costs.row == 0 || n_above == 0 || !at.fits || states_of(node) > kMostStates) return kInfinite;
    if (lanes_of(node) > kMostLanes || at.work > costs_.most_cells) return kInfinite;
    const double size = double(point_numbers(n_points, at.n_below, n_above, int64_t(at.cells)));
    if (size > costs.most_numbers) return kInfinite;
    const double products = n_points / 4.0 * (costs.below * (at.n_below + 1) + costs.above * n_above);
    const double row = (costs.row + products) * width_ + costs_.step * n_steps(node);
    return costs_.n_rows * row + width_ * (costs.number * size + costs_.cell * at.work);
  }

 private:
  const TreeStates& states_;
  const CutCosts& costs_;
  int32_t width_;

  int32_t lanes_of(int32_t node) const {
    const NodeStates& at = states_.nodes[node];
    return at.n_path + at.n_below - at.n_shared;
  }

  double n_steps(int32_t node) const {
    const NodeStates& at = states_.nodes[node];
    return 2.0 * (at.n_path - at.n_shared) + at.n_states;
  }
};

// A tree's parts, and the states of each.
struct StatesOfParts {
  std::vector<TreePart> parts;
  std::vector<TreeStates> states;
  bool are_planned = true;

  StatesOfParts(const ForestCodes& codes, int32_t tree) : parts(TreeParts(codes.forest, tree).take()) {
    for (const TreePart& part : parts) {
      states.emplace_back(codes, tree, part, kMostStates);
      are_planned &= states.back().is_planned;
      if (!are_planned) return;
    }
  }
  int32_t n_points() const {
    int32_t most = 1;
    for (size_t i = 0; i < parts.size(); ++i) most = std::max(most, states[i].nodes[parts[i].root].most);
    return (most + 1) / 2;
  }
};

class TreeCutter {
 public:
  TreeCutter(const ForestView& forest, int32_t tree, const StatesOfParts& of, const CutCosts& costs, int32_t width)
      : forest_(forest),
        first_(forest.tree_offsets[tree]),
        of_(of),
        costs_(costs),
        width_(width),
        walk_(costs.walk * costs.n_rows * of.n_points() * width),
        whole_(forest.tree_offsets[tree + 1] - first_),
        partial_(whole_.size()),
        place_(whole_.size()) {
    for (int32_t part = 0; part < int32_t(of.parts.size()); ++part)
      for (int32_t place = of.parts[part].root; place < int32_t(of.parts[part].nodes.size()); ++place)
        if (of.parts[part].is_own(place)) place_[of.parts[part].nodes[place]] = {part, place, 0};
    for (int32_t node = int32_t(whole_.size()) - 1; node >= 0; --node) decide(node);
  }

  // With `forced`, in part only where the whole tree cannot have tables.
  TreeCut cut(bool forced) const {
    TreeCut result;
    const double whole = whole_[0].cost, partial = partial_[0].cost - walk_;
    result.is_partial = forced ? whole >= SubtreeCosts::kInfinite : !partial_[0].is_root && partial < whole;
    result.cost = result.is_partial ? partial : whole;
    result.walk = walk_ * double(whole_.size() / 2);
    if (!is_split(0)) return result;
    if (result.is_partial)
      add_covered(0, result);
    else
      add_roots(0, result);
    return result;
  }

  // For trees that have tables as a whole.
  static bool gains_rebuilt(const TreeCut& cut, const CutCosts& costs, int32_t width) {
    if (cut.is_partial) return false;
    const double row = costs.rebuild_add * double(cut.roots.size()) + costs.rebuild_more * cut.more_vectors;
    const double build = costs.rebuild_state * cut.n_states + costs.rebuild_more * cut.more_states;
    return width * (costs.rebuild_rows * row + build) < cut.walk * costs.rebuild_rows / costs.n_rows;
  }

 private:
  // What all below a node costs at least, and whether the node is a root then, or of trees in part covered by roots: to
  // the walk it is a leaf.
  struct Choice {
    double cost = SubtreeCosts::kInfinite;
    bool is_root = false;
  };
  const ForestView& forest_;
  int64_t first_;
  const StatesOfParts& of_;
  CutCosts costs_;
  int32_t width_;
  double walk_;                          // of a leaf, or of a root that is one
  std::vector<Choice> whole_, partial_;  // [node]
  std::vector<SubtreeRoot> place_;       // [node]; part -1: above all parts, and no root

  bool is_split(int32_t node) const { return forest_.is_split(first_ + node); }
  int32_t left(int32_t node) const { return forest_.left[first_ + node]; }
  SubtreeCosts costs_of(const SubtreeRoot& root) const { return {of_.states[root.part], costs_, width_}; }

  void decide(int32_t node) {
    SubtreeRoot& root = place_[node];
    double own = SubtreeCosts::kInfinite;
    if (root.part >= 0) {
      const SubtreeCosts costs = costs_of(root);
      const double by_states = costs.by_states(root.place), by_points = costs.by_points(root.place);
      own = std::min(by_states, by_points);
      if (by_points < by_states) root.by_points = costs.points_of(root.place);
    }
    if (!is_split(node)) {
      whole_[node] = {own, own < SubtreeCosts::kInfinite};
      partial_[node] = {walk_, false};
      return;
    }
    const auto better = [&](const std::vector<Choice>& of, double as_root) {
      const double halves = of[left(node)].cost + of[left(node) + 1].cost;
      return as_root <= halves ? Choice{as_root, as_root < SubtreeCosts::kInfinite} : Choice{halves, false};
    };
    whole_[node] = better(whole_, own);
    partial_[node] = better(partial_, whole_[node].cost + walk_);
  }

  void add_roots(int32_t node, TreeCut& cut) const {
    if (!whole_[node].is_root) {
      add_roots(left(node), cut);
      add_roots(left(node) + 1, cut);
      return;
    }
    const SubtreeRoot& root = place_[node];
    cut.roots.push_back(root);
    const double n_states = costs_of(root).states_of(root.place), more = costs_of(root).vectors_of(root.place) - 1;
    cut.n_states += n_states, cut.more_vectors += more, cut.more_states += more * n_states;
  }

  void add_covered(int32_t node, TreeCut& cut) const {
    if (partial_[node].is_root) {
      cut.covered.push_back(node);
      add_roots(node, cut);
    } else if (is_split(node)) {
      add_covered(left(node), cut);
      add_covered(left(node) + 1, cut);
    }
  }
};

}  // namespace glasswood
