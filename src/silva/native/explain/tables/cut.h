// Where a tree is cut into subtrees: a dynamic programme over its nodes, each either a root or left to its children.
#pragma once
#include <cmath>

#include "explain/tables/pairs.h"
#include "explain/tables/plan.h"
#include "explain/tables/states.h"

namespace silva {

// What a subtree costs, in cycles: a row's key and add, a state's and a cell's share of the build. Figures of one
// AVX-512 core; n_rows is fixed, so that the cut, and with it every bit of the values, depends on the forest alone.
// Cuts made for 2,000 to 4,000 rows are within 15 % of the best for 500 to 20,000.
struct CutCosts {
  double n_rows = 6000;
  double add = 1.3;             // a row's look-up and add
  double vector = 0;            // a row's share of each vector of a state
  double step = 0.1;            // a row's share of one step of a key
  double state = 6, cell = 28;  // of one vector
  double walk = 1.0;            // a row, split and quadrature point of the walk
  double total = 8;             // a row and slot of a chunk: its sum goes to the feature's total
  // Of a subtree: states, numbers of its table, cells of all its splits together, features.
  double most_states = kMostStates, most_numbers = 1e18, most_cells = 1e18;
  int32_t most_lanes = kMostLanes;
  bool of_pairs = false;
};

// Vectors of 16 lanes take twice the caches: their states cost rows, too.
inline CutCosts cpu_costs(bool has_long_vectors) {
  CutCosts costs;
  if (has_long_vectors) costs.add = 2.5, costs.state = 40;
  return costs;
}

// Interactions are asked for fewer rows, of longer states.
inline CutCosts pair_costs() {
  CutCosts costs;
  costs.n_rows = 2000;
  costs.add = 2, costs.vector = 1.5, costs.state = 12, costs.cell = 60;
  costs.walk = 4, costs.total = 2.5;
  costs.most_lanes = kMostPairSlots;
  costs.of_pairs = true;
  return costs;
}

struct TreeCut {
  std::vector<int32_t> roots;  // nodes, from the left; empty: nothing to add
  double cost = 0;             // of the tables, n_rows rows
  double walk = 0;             // of the walk
  double n_states = 0;
};

class TreeCutter {
 public:
  TreeCutter(const TreeStates& states, const CutCosts& costs, int32_t width)
      : states_(states), costs_(costs), width_(width) {
    const int32_t n_nodes = int32_t(states.nodes.size());
    best_.assign(n_nodes, kInfinite);
    is_root_.assign(n_nodes, false);
    for (int32_t node = n_nodes - 1; node >= 0; --node) {
      const double own = cost_of(node);
      if (!states.is_split(node)) {
        best_[node] = own;
        is_root_[node] = true;
        continue;
      }
      const double halves = best_[states.child(node, 0)] + best_[states.child(node, 1)];
      is_root_[node] = own <= halves;
      best_[node] = std::min(own, halves);
    }
  }

  TreeCut cut() const {
    TreeCut result;
    result.cost = best_[0];
    const int32_t n_splits = int32_t(best_.size() / 2);
    result.walk = costs_.walk * costs_.n_rows * n_splits * std::max(1, (states_.nodes[0].most + 1) / 2) * width_;
    std::vector<int32_t> waiting{0};
    while (!waiting.empty() && states_.is_split(0)) {
      const int32_t node = waiting.back();
      waiting.pop_back();
      if (is_root_[node]) {
        result.roots.push_back(node);
        result.n_states += states_of(node);
        continue;
      }
      waiting.push_back(states_.child(node, 1));
      waiting.push_back(states_.child(node, 0));
    }
    return result;
  }

 private:
  static constexpr double kInfinite = 1e300;
  const TreeStates& states_;
  CutCosts costs_;
  int32_t width_;
  std::vector<double> best_;
  std::vector<char> is_root_;

  int32_t n_shared(int32_t node) const {
    int32_t n = 0;
    for (const FeatureStates& one : states_.below_of(node)) n += one.on_path;
    return n;
  }

  double states_of(int32_t node) const {
    const NodeStates& at = states_.nodes[node];
    return std::ldexp(at.cells, at.n_path - n_shared(node));
  }

  double cost_of(int32_t node) const {
    const NodeStates& at = states_.nodes[node];
    const double n_states = at.fits ? states_of(node) : kInfinite;
    const int32_t n_lanes = at.n_path + at.n_below - n_shared(node);
    if (n_states > costs_.most_states || n_states * n_lanes > costs_.most_numbers) return kInfinite;
    if (n_lanes > costs_.most_lanes || at.work > costs_.most_cells) return kInfinite;
    double n_steps = 2.0 * (at.n_path - n_shared(node));
    for (const FeatureStates& one : states_.below_of(node)) n_steps += one.n_states();
    const double n_vectors = costs_.of_pairs ? pair_vectors(n_lanes) : 1;
    const double row = (costs_.add + costs_.vector * n_vectors) * width_ + costs_.step * n_steps;
    return costs_.n_rows * row + width_ * n_vectors * (costs_.state * n_states + costs_.cell * at.work);
  }
};

}  // namespace silva
