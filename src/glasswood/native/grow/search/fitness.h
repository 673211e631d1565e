// What the search minimises.
#pragma once
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "grow/data/tree.h"

namespace glasswood {

// What the fitness counts as parameters: of splits; features and leaves.
struct Size {
  double splits = 0;
  int features = 0, leaves = 0;
};

// Errors are sums of squares of the standardised target, whose total is n.
struct Fitness {
  bool bic = true;
  double n = 1;
  double alpha = 0.001;     // weighted: price of a parameter
  double penalty = 1;       // BIC: factor of ln n
  double split_weight = 1;  // parameters that a split counts for
  // Categories of each feature, 0 of numbers; empty: there are none.
  std::vector<int> levels;

  // Parameters that a split counts for among `n_levels` categories of its feature. A threshold is one of n places,
  // which two parameters of ln n each pay for; the sets of L categories are 2^(L - 1).
  double split_parameters(int n_levels) const {
    return split_weight * std::max(1.0, (n_levels - 1) * std::log(2.0) / std::log(std::max(n, 3.0)));
  }
  // The size of a tree with a split of a feature, or nothing, in place of the subtree at `without`.
  Size size_of(const GrowTree& tree, int without = -1, int feature = -1) const {
    Size size;
    std::vector<std::pair<int, int>> reached;  // by feature: ranks of the categories that come to a node
    for (const int n_levels : levels) reached.emplace_back(0, n_levels);
    add_subtree(tree, 0, without, feature, reached, size);
    return size;
  }
  double parameters(const Size& size) const { return size.splits + size.features + (bic ? size.leaves : 0); }
  double parameter_price() const { return bic ? penalty * std::log(n) : alpha; }
  double floored(double error) const { return std::max(error, 1e-12 * n); }

  // BIC, or formula (2) of the paper with the error in units of the target's variance.
  double operator()(double error, const Size& size) const {
    const double fit = bic ? n * std::log(floored(error) / n) : 1 - 1 / (1 + error / n);
    return fit + parameter_price() * parameters(size);
  }
  // What the fitness may rise by if root mean squared errors rise by a part of them.
  double margin(double error, double part) const {
    const double further = floored(error) * (1 + part) * (1 + part);
    return bic ? 2 * n * std::log1p(part) : 1 / (1 + floored(error) / n) - 1 / (1 + further / n);
  }
  // The error that one parameter may cost at this level of error: the price of the fitness made linear.
  double price(double error) const {
    const double slope = bic ? n / floored(error) : 1 / (n * (1 + error / n) * (1 + error / n));
    return parameter_price() / slope;
  }

 private:
  void add_subtree(const GrowTree& tree, int v, int without, int feature, std::vector<std::pair<int, int>>& reached,
                   Size& size) const {
    const auto add_split = [&](int a) {
      const int n_levels = a < int(reached.size()) ? reached[a].second - reached[a].first : 0;
      size.splits += bic ? split_parameters(n_levels) : split_weight;
    };
    const GrowNode& node = tree[v];
    if (v == without) {
      if (feature >= 0) add_split(feature);
    } else if (node.is_leaf()) {
      ++size.leaves;
      size.features += node.model.count();
    } else {
      const int a = node.split.feature;
      add_split(a);
      const bool is_categorical = a < int(levels.size()) && levels[a] > 0;
      const std::pair<int, int> above = is_categorical ? reached[a] : std::pair(0, 0);
      if (is_categorical) reached[a].second = std::min(above.second, node.split.threshold);
      add_subtree(tree, node.left, without, feature, reached, size);
      if (is_categorical) reached[a] = {std::max(above.first, node.split.threshold), above.second};
      add_subtree(tree, node.right, without, feature, reached, size);
      if (is_categorical) reached[a] = above;
    }
  }
};

}  // namespace glasswood
