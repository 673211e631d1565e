// The plans of trees, put behind each other into one.
#pragma once
#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "common/threads/team.h"
#include "explain/tables/plan.h"

namespace silva {

// What a plan has of each tree, in the order of TreeArray.
inline auto tree_arrays(TablePlan& plan) {
  return std::tie(plan.subtrees, plan.splits, plan.cells, plan.bits, plan.factors, plan.steps, plan.lane_player,
                  plan.leaves, plan.leaf_lanes, plan.leaf_shares, plan.unmet);
}
enum TreeArray {
  kSubtreeArray,
  kSplitArray,
  kCellArray,
  kBitArray,
  kFactorArray,
  kStepArray,
  kLaneArray,
  kLeafArray,
  kLeafLaneArray,
  kLeafShareArray,
  kUnmetArray,
  kTreeArrays
};

// Where a tree's elements begin in each array of the whole plan.
using TreePlace = std::array<int64_t, kTreeArrays>;

inline void move_to_place(TablePlan& tree, const TreePlace& place) {
  for (SubtreeSplit& split : tree.splits) split.first_cell += place[kCellArray];
  for (SubtreeLeaf& leaf : tree.leaves) {
    leaf.first_lane += place[kLeafLaneArray];
    leaf.first_unmet += place[kUnmetArray];
  }
  for (Subtree& subtree : tree.subtrees) {
    subtree.first_split += place[kSplitArray];
    subtree.first_factor += place[kFactorArray];
    subtree.first_bits += place[kBitArray];
    subtree.first_step += place[kStepArray];
    subtree.first_lane += place[kLaneArray];
    subtree.first_leaf += place[kLeafArray];
  }
}

// Puts the trees into an empty plan and forgets them. Copies of large forests' plans take gigabytes, most of the time
// for pages that are new: all threads take their share, whoever ends the call, for what follows reads all of it.
inline void merge_plans(std::span<TablePlan* const> trees, TablePlan& to, const Team& team) {
  constexpr auto kEach = std::make_index_sequence<kTreeArrays>();
  std::vector<TreePlace> places;
  TreePlace place{};
  for (TablePlan* tree : trees) {
    places.push_back(place);
    [&]<size_t... i>(std::index_sequence<i...>) {
      ((place[i] += int64_t(std::get<i>(tree_arrays(*tree)).size())), ...);
    }(kEach);
    to.most_x = std::max(to.most_x, tree->most_x);
    to.most_shared = std::max(to.most_shared, tree->most_shared);
    to.most_above = std::max(to.most_above, tree->most_above);
    to.most_patterns = std::max(to.most_patterns, tree->most_patterns);
    to.most_leaves = std::max(to.most_leaves, tree->most_leaves);
    to.most_states = std::max(to.most_states, tree->most_states);
  }
  const auto arrays = tree_arrays(to);
  [&]<size_t... i>(std::index_sequence<i...>) { (std::get<i>(arrays).resize(place[i]), ...); }(kEach);
  const Team unwatched{team.pool, team.run, nullptr, nullptr};
  share_out(unwatched, int64_t(trees.size()), [&](int32_t t, int32_t) {
    move_to_place(*trees[t], places[t]);
    [&]<size_t... i>(std::index_sequence<i...>) {
      const auto from = tree_arrays(*trees[t]);
      (std::ranges::copy(std::get<i>(from), std::get<i>(arrays).begin() + places[t][i]), ...);
    }(kEach);
    *trees[t] = {};
  });
}

}  // namespace silva
