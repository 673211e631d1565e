// Path-dependent margins of all coalitions: an unknown player counts as its share of the training rows at each split.
//
// A leaf of value v adds v Π (r + (o - r) z) over the players of its path to the margin, where r is the product of the
// cover ratios of the player's splits on the path, o is 1 if the row meets them all and 0 otherwise, and z is 1 for
// known players: 2^(players of the path) monomials a leaf, and one sum over subsets a row.
#pragma once
#include "common/leaf_patterns.h"
#include "explain/coalitions/subsets.h"
#include "explain/leaves.h"

namespace glasswood {

class PathAverages {
 public:
  // `first_leaf` [tree]: place of its first leaf among a row's masks; positions of the trees' visits are bits.
  PathAverages(const ForestView& forest, const std::vector<PatternTree>& trees, const std::vector<int64_t>& first_leaf)
      : width_(forest.width),
        n_outputs_(forest.n_outputs()),
        base_(forest.base_score.begin(), forest.base_score.end()) {
    std::vector<int32_t> leaf_of(forest.feature.size(), -1);
    for (int32_t node = 0, leaf = 0; node < int32_t(leaf_of.size()); ++node)
      if (!forest.is_split(node)) leaf_of[node] = leaf++;
    first_.push_back(0);
    for (size_t tree = 0; tree < trees.size(); ++tree) {
      int64_t place = first_leaf[tree];
      std::vector<PatternTree::Visit> above(trees[tree].depth + 1);
      for (const PatternTree::Visit& visit : trees[tree].visits) {
        above[visit.depth] = visit;
        if (visit.player >= 0) continue;
        add_path(forest, above, visit.depth);
        place_.push_back(place++);
        output_.push_back(width_ > 1 ? 0 : forest.tree_output[tree]);
        for (int64_t o = 0; o < width_; ++o)
          value_.push_back(forest.tree_weight[tree] * forest.leaf_value[leaf_of[visit.node] * width_ + o]);
      }
    }
  }

  // Of one row: [output][coalition] of `d` players; `masks` by place of the leaf; room for 2^d numbers and sets.
  template <class Mask>
  void write(const Mask* masks, int d, double* cubes, double* number, int64_t* set) const {
    const int64_t size = int64_t(1) << d;
    std::fill_n(cubes, n_outputs_ * size, 0.0);
    for (int64_t o = 0; o < n_outputs_; ++o) cubes[o * size] = base_[o];
    for (size_t leaf = 0; leaf < place_.size(); ++leaf) {
      int64_t n = 1;
      number[0] = 1, set[0] = 0;
      for (int64_t at = first_[leaf]; at < first_[leaf + 1]; ++at, n *= 2) {
        const double ratio = ratio_[at], rest = (masks[place_[leaf]] >> bit_[at] & 1 ? 0.0 : 1.0) - ratio;
        for (int64_t i = 0; i < n; ++i) {
          number[n + i] = number[i] * rest, set[n + i] = set[i] | int64_t(1) << bit_[at];
          number[i] *= ratio;
        }
      }
      for (int64_t o = 0; o < width_; ++o) {
        double* const to = cubes + (output_[leaf] + o) * size;
        const double value = value_[leaf * width_ + o];
        for (int64_t i = 0; i < n; ++i) to[set[i]] += value * number[i];
      }
    }
    for (int64_t o = 0; o < n_outputs_; ++o) sum_over_subsets(cubes + o * size, d);
  }

 private:
  int64_t width_, n_outputs_;
  std::vector<double> base_, ratio_, value_;     // [output], [condition], [leaf][output]
  std::vector<int64_t> first_, place_, output_;  // [leaf + 1], [leaf], [leaf]
  std::vector<int32_t> bit_;                     // [condition]

  void add_path(const ForestView& forest, const std::vector<PatternTree::Visit>& above, int32_t depth) {
    const int64_t first = first_.back();
    for (int32_t level = 0; level < depth; ++level) {
      const double ratio = cover_ratio(forest, above[level].node, above[level + 1].node);
      const auto begin = bit_.begin() + first, found = std::find(begin, bit_.end(), above[level].position);
      if (found != bit_.end()) {
        ratio_[found - bit_.begin()] *= ratio;
        continue;
      }
      bit_.push_back(above[level].position);
      ratio_.push_back(ratio);
    }
    first_.push_back(int64_t(bit_.size()));
  }
};

}  // namespace glasswood
