// From a forest to the plan of its subtree tables.
#pragma once
#include <array>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "common/threads/team.h"
#include "explain/tables/layout.h"
#include "explain/tables/pairs.h"
#include "explain/tables/slot_set.h"

namespace glasswood {

// What a plan has of each tree, in the order of TreeArray.
inline auto tree_arrays(TablePlan& plan) {
  return std::tie(plan.subtrees, plan.splits, plan.cells, plan.bits, plan.factors, plan.steps, plan.lane_player,
                  plan.leaves, plan.leaf_lanes, plan.leaf_shares, plan.axis_states, plan.unmet);
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
  kAxisArray,
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
    subtree.first_axis += place[kAxisArray];
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
    to.most_unmet = std::max(to.most_unmet, tree->most_unmet);
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

// The totals that an output's chunks share: those players, or pairs of players, that any of them has.
class OutputTotalsPlanner {
 public:
  explicit OutputTotalsPlanner(TablePlan& plan) : plan_(plan) {}

  // Where the sums of chunks of these players start in sum_total.
  int64_t add(const std::vector<int32_t>& players) {
    const int64_t first = int64_t(plan_.sum_total.size());
    const bool of_pairs = plan_.content == TableContent::kPairs;
    for (size_t i = 0; i < players.size(); ++i)
      for (size_t j = i; j < (of_pairs ? players.size() : i + 1); ++j)
        plan_.sum_total.push_back(total_of(players[i], players[j]));
    return first;
  }

 private:
  TablePlan& plan_;
  std::unordered_map<int64_t, int32_t> known_;

  int32_t total_of(int32_t a, int32_t b) {
    if (a > b) std::swap(a, b);
    const auto [found, is_new] = known_.try_emplace(int64_t(a) << 32 | b, int32_t(known_.size()));
    if (is_new) plan_.totals.push_back({a, b});
    return found->second;
  }
};

struct PlanOptions {
  int64_t table_bytes;  // most for all tables
  int32_t real_bytes;   // of a value
  bool forced;          // tables wherever they can be, whatever the costs and the budget
  CutCosts costs;
  bool by_subtree = false;  // lanes stay the subtree's own, and there are no chunks
  TableGame game = TableGame::kCovers;
  bool for_row = false;  // tables of single rows: none are built anew, smaller ones are better than none
};

class TablePlanner {
 public:
  TablePlanner(const ForestCodes& codes, const PlanOptions& options, const Team& team)
      : codes_(codes), forest_(codes.forest), options_(options) {
    trees_.resize(forest_.n_trees());
    first_leaf_.assign(1, 0);
    for (int32_t tree = 0; tree < forest_.n_trees(); ++tree)
      first_leaf_.push_back(first_leaf_.back() + (n_nodes(tree) + 1) / 2);
    plan_trees(team);
    choose_trees();
    merge_all(team);
    add_gains();
    if (!options.forced && !pays(n_sums(kept_) + n_sums(rebuilt_))) {
      for (PlannedTree& tree : trees_) tree.place = Place::kWalked;
      merge_all(team);
    }
    trees_.clear();
  }

  // Trees that keep their tables.
  TablePlan take() { return std::move(kept_); }
  // Whether tables save more than `n_sums` sums of chunks cost a row. Where these are thousands (Fashion-MNIST: 784
  // features, 10 classes), they cost more than the tables gain, which no tree's own costs know.
  bool pays(double n_sums) const {
    const TablePlan plan = empty_plan();
    const double total = plan.is_wide ? options_.costs.total : options_.costs.in_order;
    return gain_ > options_.costs.n_rows * total * n_sums * plan.width;
  }
  // The share of the walk of all trees that tables save.
  double share_saved() const { return gain_ / walk_; }
  // Trees whose tables exceed the budget, to be built anew for each call, a batch of chunks at a time.
  TablePlan take_rebuilt() { return std::move(rebuilt_); }

  // Most of a batch: between build and pass it stays in the cache.
  static int64_t batch_bytes(int64_t table_bytes) { return std::min<int64_t>(8 << 20, table_bytes / 4); }

 private:
  enum class Place { kWalked, kKept, kRebuilt };
  struct PlannedTree {
    TablePlan plan;
    TreeCut cut;
    double bytes = 0;
    bool is_planned = false;
    Place place = Place::kWalked;
  };
  // A chunk is to stay in the second-level cache beside a block of rows; few trees keep float32 sums exact enough.
  static constexpr int64_t kChunkBytes = 512 << 10;
  static constexpr int32_t kChunkSubtrees = 64, kChunkTrees = 32;
  static constexpr size_t kOpenSets = 64;
  static constexpr double kMostSqueezed = 2;  // budgets of tables that are made smaller to fit into one
  static constexpr int kSqueezes = 3;

  const ForestCodes& codes_;
  const ForestView& forest_;
  PlanOptions options_;
  TablePlan kept_, rebuilt_;
  std::vector<PlannedTree> trees_;
  std::vector<int64_t> first_leaf_;
  double gain_ = 0, walk_ = 0;

  int64_t n_nodes(int32_t tree) const { return forest_.tree_offsets[tree + 1] - forest_.tree_offsets[tree]; }
  TablePlan empty_plan() const {
    const size_t n_players = codes_.players.size();
    TablePlan plan;
    plan.width = forest_.width;
    plan.is_wide = of_pairs() || n_players > size_t(kMostLanes);
    plan.lanes = lanes();
    plan.content = of_pairs() ? TableContent::kPairs : TableContent::kValues;
    return plan;
  }

  bool of_pairs() const { return options_.costs.of_pairs(); }
  int32_t lanes() const { return of_pairs() ? kPairLanes : kValueLanes; }
  int64_t vector_bytes() const { return int64_t(lanes()) * options_.real_bytes; }

  void plan_trees(const Team& team) {
    const auto plan_all = [&] { share_out(team, forest_.n_trees(), [&](int32_t tree, int32_t) { plan_tree(tree); }); };
    plan_all();
    // Interactions and single rows build no tables anew: smaller ones cost less than the walk of trees that have no
    // room.
    const double budget = double(options_.table_bytes);
    const bool is_squeezed = options_.for_row || (of_pairs() && !options_.forced);
    if (!is_squeezed || bytes_that_gain() > kMostSqueezed * budget) return;
    for (int i = 0; i < kSqueezes && bytes_that_gain() > budget; ++i) {
      options_.costs.state *= 2;
      trees_.assign(forest_.n_trees(), {});
      plan_all();
    }
  }

  double bytes_that_gain() const {
    double bytes = 0;
    for (const PlannedTree& tree : trees_)
      if (tree.is_planned && (options_.forced || tree.cut.cost < tree.cut.walk)) bytes += tree.bytes;
    return bytes;
  }

  void plan_tree(int32_t tree) {
    PlannedTree& out = trees_[tree];
    if (forest_.is_linear() || n_nodes(tree) > kMostNodes || !is_shallow(tree)) return;
    const StatesOfParts of(codes_, tree);
    if (!of.are_planned) return;
    out.cut = TreeCutter(forest_, tree, of, options_.costs, forest_.width).cut(options_.forced);
    out.is_planned = n_nodes(tree) == 1 || !out.cut.roots.empty();
    lay_out(tree, of, out);
    out.bytes = bytes_of(out);
  }

  void lay_out(int32_t tree, const StatesOfParts& of, PlannedTree& out) const {
    std::vector<int32_t> leaf_of(n_nodes(tree), -1);
    int32_t leaf = int32_t(first_leaf_[tree]);
    for (int64_t node = 0; node < n_nodes(tree); ++node)
      if (!forest_.is_split(forest_.tree_offsets[tree] + node)) leaf_of[node] = leaf++;
    std::optional<TreeLayout> layout;
    int32_t part = -1;
    reserve(of, out);
    for (const SubtreeRoot& root : out.cut.roots) {
      if (root.part != part) layout.emplace(codes_, of.states[root.part], tree, leaf_of, options_.game, out.plan);
      part = root.part;
      layout->add(root);
    }
  }

  void reserve(const StatesOfParts& of, PlannedTree& out) const {
    int64_t n_leaves = 0, n_unmet = 0, n_lanes = 0, n_leaf_lanes = 0, n_steps = 0;
    for (const SubtreeRoot& root : out.cut.roots) {
      const NodeStates& at = of.states[root.part].nodes[root.place];
      const int32_t n_above = at.n_path - at.n_shared;
      n_leaves += at.n_leaves, n_unmet += int64_t(at.n_leaves) * at.n_states;
      n_lanes += at.n_below + n_above, n_leaf_lanes += int64_t(at.n_leaves) * (at.n_below + n_above);
      n_steps += 2 * n_above + at.n_states + 2 * at.n_below;
    }
    out.plan.subtrees.reserve(out.cut.roots.size());
    out.plan.lane_player.reserve(n_lanes);
    out.plan.steps.reserve(n_steps);
    if (options_.game == TableGame::kCovers) return;
    out.plan.leaves.reserve(n_leaves);
    out.plan.leaf_lanes.reserve(n_leaf_lanes);
    out.plan.unmet.reserve(n_unmet);
  }

  double bytes_of(const PlannedTree& tree) const {
    double numbers = 0;
    for (const Subtree& one : tree.plan.subtrees)
      numbers += one.by_points         ? double(numbers_by_points(one))
                 : options_.by_subtree ? double(one.n_states) * options_.costs.n_numbers(one.n_lanes)
                                       : double(table_vectors(one.n_states, state_vectors(one.n_lanes)) * lanes());
    return numbers * options_.real_bytes * forest_.width;
  }

  static int64_t numbers_by_points(const Subtree& one) {
    return point_numbers(one.by_points, one.n_lanes - one.n_above, one.n_above, one.n_cells);
  }

  int32_t state_vectors(int32_t n_lanes) const {
    return of_pairs() ? pair_vectors(n_lanes) : (n_lanes + kValueLanes - 1) / kValueLanes;
  }
  // Tables begin with a line of the cache.
  static int64_t table_vectors(int64_t n_states, int32_t state_vectors) { return (n_states * state_vectors + 1) & ~1; }

  static constexpr int64_t kMostNodes = 1 << 17;

  bool is_shallow(int32_t tree) const {
    const int64_t first = forest_.tree_offsets[tree];
    std::vector<int32_t> depth(n_nodes(tree), 0);
    for (int64_t node = 0; node < n_nodes(tree); ++node) {
      if (!forest_.is_split(first + node)) continue;
      if (depth[node] >= kDeepest) return false;
      depth[forest_.left[first + node]] = depth[forest_.left[first + node] + 1] = depth[node] + 1;
    }
    return true;
  }

  // Those that gain most a byte are kept, until the budget is full.
  void choose_trees() {
    std::vector<int32_t> order;
    for (int32_t tree = 0; tree < forest_.n_trees(); ++tree) {
      PlannedTree& one = trees_[tree];
      if (!one.is_planned) continue;
      if (options_.forced || one.cut.cost < one.cut.walk) order.push_back(tree);
    }
    const auto gain = [&](int32_t t) {
      return (trees_[t].cut.walk - trees_[t].cut.cost) / std::max(trees_[t].bytes, 1.0);
    };
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return gain(a) > gain(b); });
    const bool rebuilds = !fit(order) && std::any_of(order.begin(), order.end(),
                                                     [&](int32_t tree) { return gains_rebuilt(trees_[tree]); });
    const bool has_background = options_.game == TableGame::kBackground;
    double left = double(options_.table_bytes);
    if (rebuilds) left -= has_background ? left / 2 : double(batch_bytes(options_.table_bytes));
    for (const int32_t tree : order) {
      PlannedTree& one = trees_[tree];
      if (one.bytes <= left)
        left -= one.bytes, one.place = Place::kKept;
      else if (rebuilds && gains_rebuilt(one))
        one.place = Place::kRebuilt;
    }
  }

  bool gains_rebuilt(const PlannedTree& tree) const {
    const bool may_gain = options_.game == TableGame::kBackground || options_.costs.rebuild_rows > 0;
    if (!may_gain || options_.by_subtree || options_.for_row || !is_rebuildable(tree)) return false;
    return options_.forced || TreeCutter::gains_rebuilt(tree.cut, options_.costs, forest_.width);
  }

  bool fit(const std::vector<int32_t>& order) const {
    double bytes = 0;
    for (const int32_t tree : order) bytes += trees_[tree].bytes;
    return bytes <= double(options_.table_bytes);
  }

  // Whether a batch holds any chunk with one of the tree's subtrees.
  bool is_rebuildable(const PlannedTree& tree) const {
    int64_t most = kChunkBytes;
    for (const Subtree& one : tree.plan.subtrees) most = std::max(most, one.n_states * most_state_bytes());
    return most * forest_.width <= batch_bytes(options_.table_bytes);
  }

  int64_t most_state_bytes() const { return vector_bytes() * state_vectors(of_pairs() ? kMostPairSlots : kMostLanes); }

  void merge_all(const Team& team) {
    rebuilt_ = merged(Place::kRebuilt, team);
    kept_ = merged(Place::kKept, team);
    for (int32_t tree = 0; tree < forest_.n_trees(); ++tree) add_walked(tree);
  }

  TablePlan merged(Place place, const Team& team) {
    std::vector<TablePlan*> trees;
    for (int32_t output = 0; output < forest_.n_outputs(); ++output)
      for (int32_t tree = 0; tree < forest_.n_trees(); ++tree)
        if (trees_[tree].place == place && forest_.tree_output[tree] == output) trees.push_back(&trees_[tree].plan);
    TablePlan plan = empty_plan();
    merge_plans(trees, plan, team);
    if (!options_.by_subtree) lay_out_chunks(plan);
    return plan;
  }

  void lay_out_chunks(TablePlan& plan) const {
    const auto all = std::move(plan.subtrees);
    plan.subtrees = {};
    plan.subtrees.reserve(all.size());
    for (auto first = all.begin(), last = first; plan.first_total.size() <= size_t(forest_.n_outputs()); first = last) {
      const int32_t output = int32_t(plan.first_total.size()) - 1;
      last = std::find_if(first, all.end(), [&](const Subtree& one) { return one.output != output; });
      std::vector<Subtree> added(first, last);
      OutputTotalsPlanner totals(plan);
      for (const SlotSet& set : slot_sets(added, plan)) add_chunks(plan, set, added, totals.add(set.players));
      plan.first_total.push_back(int64_t(plan.totals.size()));
    }
  }

  void add_walked(int32_t tree) {
    const PlannedTree& one = trees_[tree];
    if (one.place != Place::kWalked && !one.cut.is_partial) return;
    kept_.walked_trees.push_back(tree);
    if (one.place == Place::kWalked) return;
    for (const int32_t node : one.cut.covered) kept_.cut_nodes.push_back(forest_.tree_offsets[tree] + node);
  }

  void add_gains() {
    for (const PlannedTree& tree : trees_) {
      walk_ += tree.cut.walk;
      if (tree.place != Place::kWalked) gain_ += tree.cut.walk - tree.cut.cost;
    }
  }

  // Numbers that a row adds in all chunks.
  static double n_sums(const TablePlan& plan) {
    double result = 0;
    for (const TableChunk& chunk : plan.chunks) result += chunk.n_sums;
    return result;
  }

  // Shares the subtrees out to sets of at most as many players as a state has room for, each to the one that gains
  // fewest.
  std::vector<SlotSet> slot_sets(const std::vector<Subtree>& subtrees, const TablePlan& plan) const {
    const int32_t n_players = int32_t(codes_.players.size());
    std::vector<SlotSet> sets;
    if (!plan.is_wide) {
      sets.emplace_back(capacity_of(n_players), n_players);
      for (int32_t player = 0; player < n_players; ++player) sets[0].take_in(player);
    }
    for (int32_t s = 0; s < int32_t(subtrees.size()); ++s) {
      const std::span<const int32_t> players{plan.lane_player.data() + subtrees[s].first_lane,
                                             size_t(subtrees[s].n_lanes)};
      const size_t capacity = capacity_of(subtrees[s].n_lanes);
      const bool fits_all = !plan.is_wide && capacity == sets[0].capacity;
      const auto has_capacity = [&](const SlotSet& one) { return one.capacity == capacity; };
      SlotSet* set = fits_all ? &sets[0] : find_set(last_of(sets, kOpenSets), players, has_capacity);
      if (!set) set = &sets.emplace_back(capacity, n_players);
      for (const int32_t player : players) set->take_in(player);
      set->subtrees.push_back(s);
    }
    return sets;
  }

  // The most slots that take no more vectors.
  size_t capacity_of(int32_t n_lanes) const {
    return size_t(of_pairs() ? pair_capacity(n_lanes) : state_vectors(n_lanes) * kValueLanes);
  }

  void add_chunks(TablePlan& plan, const SlotSet& set, std::vector<Subtree>& subtrees, int64_t first_sum) const {
    const int32_t first_slot = int32_t(plan.slot_player.size()), n_slots = int32_t(set.players.size());
    const int32_t n_vectors = state_vectors(int32_t(set.capacity));
    const int32_t n_sums = of_pairs() ? n_pairs(n_slots) : n_slots;
    plan.slot_player.insert(plan.slot_player.end(), set.players.begin(), set.players.end());
    int32_t last_tree = -1, n_trees = 0;
    bool is_open = false;
    for (const int32_t s : set.subtrees) {
      Subtree& subtree = subtrees[s];
      n_trees += subtree.tree != last_tree;
      last_tree = subtree.tree;
      if (!is_open || !fits(plan.chunks.back(), subtree, n_trees)) {
        plan.chunks.push_back({int32_t(plan.subtrees.size()), 0, first_slot, n_slots, subtree.output, n_vectors,
                               plan.n_vectors, 0, first_sum, n_sums, 0});
        n_trees = 1, is_open = true;
      }
      move_lanes(plan, subtree, set);
      subtree.first_vector = plan.n_vectors;
      plan.n_vectors += table_vectors(subtree.n_states, n_vectors);
      plan.chunks.back().n_vectors += table_vectors(subtree.n_states, n_vectors);
      plan.most_subtrees = std::max(plan.most_subtrees, ++plan.chunks.back().n_subtrees);
      plan.subtrees.push_back(subtree);
    }
  }

  bool fits(const TableChunk& chunk, const Subtree& subtree, int32_t n_trees) const {
    return (chunk.n_vectors + int64_t(subtree.n_states) * chunk.state_vectors) * vector_bytes() <= kChunkBytes &&
           n_trees <= kChunkTrees && chunk.n_subtrees < kChunkSubtrees;
  }

  // From the subtree's own lanes to the chunk's slots.
  void move_lanes(TablePlan& plan, Subtree& subtree, const SlotSet& set) const {
    const auto slot_of = [&](int32_t lane) {
      return int32_t(set.slot_of[plan.lane_player[subtree.first_lane + lane]]);
    };
    const auto moved = [&](uint32_t lanes) {
      uint32_t result = 0;
      for (int32_t lane = 0; lane < subtree.n_lanes; ++lane)
        if (lanes >> lane & 1) result |= 1u << slot_of(lane);
      return result;
    };
    subtree.lanes = moved(subtree.lanes);
    for (int32_t i = 0; i < subtree.n_splits; ++i) {
      SubtreeSplit& split = plan.splits[subtree.first_split + i];
      split.lane = slot_of(split.lane);
      for (uint32_t& absent : split.absent) absent = moved(absent);
    }
    const int32_t n_factors = options_.game == TableGame::kCovers ? subtree.n_shared + subtree.n_above : 0;
    for (int32_t i = 0; i < n_factors; ++i) {
      PathFactor& factor = plan.factors[subtree.first_factor + i];
      factor.lane = slot_of(factor.lane);
    }
    for (int32_t i = 0; i < subtree.n_leaves; ++i) {
      const SubtreeLeaf& leaf = plan.leaves[subtree.first_leaf + i];
      uint8_t* lanes = plan.leaf_lanes.data() + leaf.first_lane;
      for (int32_t p = 0; p < leaf.n_positions; ++p) lanes[p] = uint8_t(slot_of(lanes[p]));
    }
  }
};

}  // namespace glasswood
