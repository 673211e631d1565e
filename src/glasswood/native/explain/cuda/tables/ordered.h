// A plan whose subtrees lie side by side as GPUs add them up: by chunk, chunks by kind, which are kernels of their own.
#pragma once
#include "explain/cuda/tables/chunks.h"
#include "explain/tables/planner.h"

namespace glasswood {

class OrderedPlan {
 public:
  // Subtrees side by side, and the players of their slots.
  struct Chunk {
    int32_t first, end;
    std::vector<int32_t> players;
  };

  TablePlan plan;
  std::vector<Chunk> chunks;

  OrderedPlan(const ForestCodes& codes, const CutCosts& costs, TablePlan made)
      : plan(std::move(made)), codes_(&codes), costs_(costs) {
    const ChunkOrder order = choose_order();
    UnsetVector<Subtree> ordered;
    ordered.reserve(plan.subtrees.size());
    for (const int32_t s : order.order) ordered.push_back(plan.subtrees[s]);
    plan.subtrees = std::move(ordered);
    int32_t first = 0;
    for (const int32_t end : order.ends) {
      chunks.push_back({first, end, players_between(first, end)});
      first = end;
    }
  }

  // Whether chunks of values may be sets of few slots; forests of more players have too many of them.
  static bool may_have_sets(const ForestCodes& codes) {
    constexpr size_t kMostPlayers = 32;
    return codes.players.size() > size_t(kNarrowSlots) && codes.players.size() <= kMostPlayers;
  }

  int32_t size() const { return int32_t(plan.subtrees.size()); }
  // Subtrees of one kind are added up by one kernel.
  int32_t kind_of(int32_t s) const { return limits_.kind_of(plan.subtrees[s]); }
  // Whether entries have a number for each slot of their chunk.
  bool is_narrow(int32_t s) const { return kind_of(s) == 1 && (is_by_player() || limits_.in_sets); }
  // Subtrees of wide chunks beside narrow ones, or by points beside others, that are not worth launches of their own.
  bool has_few_wide() const {
    return limits_.in_sets && are_few([](int32_t kind) { return kind == 2; });
  }
  bool has_few_by_points() const {
    return are_few([](int32_t kind) { return kind > 2; });
  }

  const Chunk& chunk_of(int32_t s) const {
    return *std::upper_bound(chunks.begin(), chunks.end(), s, [](int32_t at, const Chunk& c) { return at < c.end; });
  }
  int64_t slot_of(int32_t s, int32_t lane) const {
    const std::vector<int32_t>& players = chunk_of(s).players;
    return std::find(players.begin(), players.end(), player_of(s, lane)) - players.begin();
  }
  int32_t n_sums(const Chunk& chunk) const {
    const int32_t n = int32_t(chunk.players.size());
    return costs_.of_pairs() ? n_pairs(n) : n;
  }
  double n_sums() const {
    double result = 0;
    for (const Chunk& chunk : chunks) result += n_sums(chunk);
    return result;
  }

  // Leaves everything to the walk.
  void walk_all() {
    plan.subtrees.clear(), plan.cut_nodes.clear(), chunks.clear();
    plan.walked_trees.resize(codes_->forest.n_trees());
    std::iota(plan.walked_trees.begin(), plan.walked_trees.end(), 0);
  }

 private:
  // Chunks fill a GPU with few rows; more subtrees of one chunk would lose digits of float32 sums.
  static constexpr double kChunks = 128, kFewestSubtrees = 8;
  static constexpr int32_t kChunkSubtrees = 192, kChunkSlots = 24, kOpenChunks = 64;
  // Picoseconds of an H200 and a row: of a subtree, a sum, and a chunk, whose first tables nobody fetches ahead.
  static constexpr double kNarrowCost = 4, kWideCost = 8, kSumCost = 2, kChunkCost = 10;
  static constexpr double kSaves = 0.8;  // what sets of slots cost at most
  static constexpr double kFew = 0.05;   // subtrees that are not worth two launches

  const ForestCodes* codes_;
  CutCosts costs_;
  ChunkLimits limits_{};

  size_t n_players() const { return codes_->players.size(); }
  // Whether the players are so few that they are the slots of all chunks.
  bool is_by_player() const { return !costs_.of_pairs() && n_players() <= size_t(kNarrowSlots); }
  int32_t player_of(int32_t s, int32_t lane) const { return plan.lane_player[plan.subtrees[s].first_lane + lane]; }

  // In sets of few slots if that pays: sums are registers then, but there are more chunks and sums of them.
  ChunkOrder choose_order() {
    ChunkOrder wide = order(false);
    if (costs_.of_pairs() || !may_have_sets(*codes_)) return wide;
    const double cost = row_cost(wide);
    ChunkOrder sets = order(true);
    if (row_cost(sets) < kSaves * cost) return sets;
    limits_.in_sets = false;
    return wide;
  }

  template <class Test>
  bool are_few(const Test& test) const {
    int32_t n = 0;
    for (int32_t s = 0; s < size(); ++s) n += test(kind_of(s));
    return !costs_.of_pairs() && n > 0 && n < size() * kFew;
  }

  ChunkOrder order(bool in_sets) {
    limits_ = {kChunkSlots, kChunkSubtrees, 0, is_by_player() ? 1 : kOpenChunks, costs_.pair_lanes, in_sets};
    double total = 0;
    for (const Subtree& subtree : plan.subtrees) total += ChunkOrder::cost_of(subtree, limits_);
    limits_.cost = total * std::max(plan.width / kChunks, kFewestSubtrees / double(std::max(1, size())));
    return ChunkOrder(plan, int32_t(n_players()), limits_);
  }

  double row_cost(const ChunkOrder& order) const {
    double cost = kSumCost * double(order.n_slots) + kChunkCost * double(order.ends.size());
    for (int32_t s = 0; s < size(); ++s) cost += is_narrow(s) ? kNarrowCost : kWideCost;
    return cost;
  }

  std::vector<int32_t> players_between(int32_t first, int32_t end) const {
    std::vector<int32_t> players;
    std::vector<char> has(n_players(), is_by_player());
    for (int32_t player = 0; is_by_player() && player < int32_t(has.size()); ++player) players.push_back(player);
    for (int32_t s = first; s < end; ++s)
      for (int32_t lane = 0; lane < plan.subtrees[s].n_lanes; ++lane) {
        const int32_t player = player_of(s, lane);
        if (!has[player]) players.push_back(player);
        has[player] = true;
      }
    return players;
  }
};

}  // namespace glasswood
