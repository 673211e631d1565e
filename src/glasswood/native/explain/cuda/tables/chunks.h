// Which subtrees make a chunk: those of one output and kind whose features share slots, so that sums of chunks are few.
#pragma once
#include <numeric>
#include <ranges>

#include "explain/tables/pairs.h"
#include "explain/tables/plan.h"
#include "explain/tables/slot_set.h"

namespace glasswood {

constexpr int32_t kNarrowSlots = 8;  // whose sums are registers (explain/cuda/tables/add_tables.cu)

struct ChunkLimits {
  int32_t slots, subtrees;
  double cost;
  int32_t open;        // chunks that a subtree may join: the last ones
  int32_t pair_lanes;  // as in CutCosts
  bool in_sets;        // values: subtrees of few features make chunks of few slots

  // Subtrees of one kind make a chunk: of tables by points 2 and the points.
  int32_t kind_of(const Subtree& subtree) const {
    if (subtree.by_points) return 2 + subtree.by_points;
    return pair_lanes ? pair_vectors(subtree.n_lanes, pair_lanes) : in_sets && subtree.n_lanes > kNarrowSlots ? 2 : 1;
  }
  int32_t most_slots(const Subtree& subtree) const {
    if (pair_lanes) return pair_capacity(subtree.n_lanes, pair_lanes);
    return in_sets && kind_of(subtree) == 1 ? kNarrowSlots : slots;
  }
};

// The subtrees of a plan by chunk. Each joins the chunk that gains fewest features, of several the last: by the forest
// alone.
class ChunkOrder {
 public:
  std::vector<int32_t> order;  // of subtrees
  std::vector<int32_t> ends;   // of chunks, in the order
  int64_t n_slots = 0;         // of all chunks

  ChunkOrder(const TablePlan& plan, int32_t n_players, const ChunkLimits& limits)
      : plan_(plan), n_players_(n_players), limits_(limits) {
    std::vector<int32_t> all(plan.subtrees.size());
    std::iota(all.begin(), all.end(), 0);
    std::stable_sort(all.begin(), all.end(), [&](int32_t a, int32_t b) { return kind_of(a) < kind_of(b); });
    const auto output = [&](size_t i) { return plan.subtrees[all[i]].output; };
    for (size_t i = 0; i < all.size(); ++i) {
      if (i > 0 && (output(i) != output(i - 1) || kind_of(all[i]) != kind_of(all[i - 1]))) close_all();
      Chunk* chunk = find(all[i]);
      add(chunk ? *chunk : open(all[i]), all[i]);
    }
    close_all();
  }

  // The cost of a row's share in a chunk: its key and its lanes, or vectors of pairs.
  static double cost_of(const Subtree& subtree, const ChunkLimits& limits) {
    if (subtree.by_points) return kPointCost * subtree.n_lanes;
    return 4 + (limits.pair_lanes ? kPairCost * limits.kind_of(subtree) : subtree.n_lanes);
  }

 private:
  struct Chunk : SlotSet {
    double cost = 0;
  };
  static constexpr double kPairCost = 12, kPointCost = 6;

  const TablePlan& plan_;
  int32_t n_players_;
  ChunkLimits limits_;
  std::vector<Chunk> chunks_;  // of one output

  std::span<const int32_t> players_of_subtree(int32_t s) const {
    return {plan_.lane_player.data() + plan_.subtrees[s].first_lane, size_t(plan_.subtrees[s].n_lanes)};
  }

  int32_t kind_of(int32_t s) const { return limits_.kind_of(plan_.subtrees[s]); }

  Chunk& open(int32_t s) {
    if (int32_t(chunks_.size()) >= limits_.open) chunks_[chunks_.size() - limits_.open].slot_of = {};
    return chunks_.emplace_back(Chunk{{size_t(limits_.most_slots(plan_.subtrees[s])), n_players_}});
  }

  Chunk* find(int32_t s) {
    const double cost = cost_of(plan_.subtrees[s], limits_);
    const auto may_join = [&](const Chunk& chunk) {
      return int32_t(chunk.subtrees.size()) < limits_.subtrees && chunk.cost + cost / 2 <= limits_.cost;
    };
    return find_set(std::views::reverse(last_of(chunks_, limits_.open)), players_of_subtree(s), may_join);
  }

  void add(Chunk& chunk, int32_t s) {
    for (const int32_t player : players_of_subtree(s)) chunk.take_in(player);
    chunk.cost += cost_of(plan_.subtrees[s], limits_);
    chunk.subtrees.push_back(s);
  }

  void close_all() {
    for (const Chunk& chunk : chunks_) {
      order.insert(order.end(), chunk.subtrees.begin(), chunk.subtrees.end());
      ends.push_back(int32_t(order.size()));
      n_slots += int64_t(chunk.players.size());
    }
    chunks_.clear();
  }
};

}  // namespace glasswood
