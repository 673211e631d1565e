// Path-dependent margins of all coalitions: an unknown player counts as its share of the training rows at each split.
//
// A leaf of value v adds v Π (o z + r (1 - z)) over the players of its path to the margin, where r is the product of
// the cover ratios of the player's splits on the path, o is 1 if the row meets them all and 0 otherwise, and z is 1 for
// known players. In y = 1 - z a player that the row does not meet is one term, r y, and one that it meets two, 1 - (1 -
// r) y: 2^(players met) monomials a leaf, and one sum over subsets a row.
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
  void write(const Mask* masks, int d, double* cubes, double* number, int32_t* set) const {
    const int64_t size = int64_t(1) << d;
    std::fill_n(cubes, n_outputs_ * size, 0.0);
    for (int64_t o = 0; o < n_outputs_; ++o) cubes[o * size] = base_[o];
    for (size_t leaf = 0; leaf < place_.size(); ++leaf) {
      const uint64_t mask = masks[place_[leaf]];
      int64_t n = 1;
      double unmet = 1;
      number[0] = 1, set[0] = int32_t(mask);
      for (int64_t at = first_[leaf]; at < first_[leaf + 1]; ++at) {
        if (mask >> bit_[at] & 1) {
          unmet *= ratio_[at];
          continue;
        }
        const double rest = ratio_[at] - 1;
        const int32_t bit = int32_t(1) << bit_[at];
        for (int64_t i = 0; i < n; ++i) number[n + i] = number[i] * rest, set[n + i] = set[i] | bit;
        n *= 2;
      }
      for (int64_t o = 0; o < width_; ++o) {
        double* const to = cubes + (output_[leaf] + o) * size;
        const double value = value_[leaf * width_ + o] * unmet;
        for (int64_t i = 0; i < n; ++i) to[set[i]] += value * number[i];
      }
    }
    for (int64_t o = 0; o < n_outputs_; ++o) {
      sum_over_subsets(cubes + o * size, d);
      std::reverse(cubes + o * size, cubes + (o + 1) * size);  // from unknown players to known ones
    }
  }

  // Of one row while players join, [chain][players that have joined][output]; ranks [chain][player] of all that are
  // used.
  template <class Mask>
  void write_chains(const Mask* masks, const int32_t* ranks, int64_t n_chains, int64_t n_players, int64_t n_steps,
                    double* to) const {
    std::fill_n(to, n_chains * n_steps * n_outputs_, 0.0);
    std::vector<std::pair<int32_t, int64_t>> joining;
    std::vector<double> unknown;  // products of the ratios of the players from the i-th on
    for (int64_t chain = 0; chain < n_chains; ++chain, ranks += n_players, to += n_steps * n_outputs_) {
      for (size_t leaf = 0; leaf < place_.size(); ++leaf) {
        joining.clear();
        for (int64_t at = first_[leaf]; at < first_[leaf + 1]; ++at) joining.emplace_back(ranks[player_[at]], at);
        std::sort(joining.begin(), joining.end());
        unknown.assign(joining.size() + 1, 1.0);
        for (size_t i = joining.size(); i-- > 0;) unknown[i] = unknown[i + 1] * ratio_[joining[i].second];
        add_step(leaf, to, unknown[0]);
        for (size_t i = 0; i < joining.size(); ++i) {
          double* const step = to + (joining[i].first + 1) * n_outputs_;
          if (uint64_t(masks[place_[leaf]]) >> bit_[joining[i].second] & 1) {
            add_step(leaf, step, -unknown[i]);
            break;
          }
          add_step(leaf, step, unknown[i + 1] - unknown[i]);
        }
      }
      for (int64_t o = 0; o < n_outputs_; ++o) to[o] += base_[o];
      for (int64_t i = n_outputs_; i < n_steps * n_outputs_; ++i) to[i] += to[i - n_outputs_];
    }
  }

 private:
  int64_t width_, n_outputs_;
  std::vector<double> base_, ratio_, value_;     // [output], [condition], [leaf][output]
  std::vector<int64_t> first_, place_, output_;  // [leaf + 1], [leaf], [leaf]
  std::vector<int32_t> bit_, player_;            // [condition]

  void add_step(size_t leaf, double* to, double share) const {
    for (int64_t o = 0; o < width_; ++o) to[output_[leaf] + o] += value_[leaf * width_ + o] * share;
  }

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
      player_.push_back(above[level].player);
      ratio_.push_back(ratio);
    }
    first_.push_back(int64_t(bit_.size()));
  }
};

}  // namespace glasswood
