// Sets of players whose index is asked for (orders 1 to 4), and which of them a leaf's path has.
//
// The index of order r of S is the mean over coalitions T of the other players of
//   δ_S v(T) = Σ_{L ⊆ S} (−1)^(r − |L|) v(T ∪ L),
// with the weights t! (n − t − r)! / (n − r + 1)! (Shapley interaction index) or 2^(r − n) (Banzhaf interaction index)
// for |T| = t of n players: the derivative of the multilinear extension by the variables of S, its mean over the
// diagonal or its value in the middle (Grabisch and Roubens 1999).
#pragma once
#include <array>

#include "common/players.h"

namespace glasswood {

constexpr int kMostOrder = 4;

enum class IndexKind : int32_t { kShapley, kBanzhaf };

// A set whose players are all on a path.
struct PlacedSet {
  int32_t number;
  int32_t order;
  std::array<int32_t, kMostOrder> positions;
};

class PlayerSets {
 public:
  // [set][kMostOrder], padded with -1.
  PlayerSets(std::span<const int32_t> players, int32_t n_players)
      : players_(players.begin(), players.end()), of_first_(n_players) {
    for (int64_t set = 0; set < n_sets(); ++set) of_first_.at(players_[set * kMostOrder]).push_back(int32_t(set));
  }

  int64_t n_sets() const { return int64_t(players_.size()) / kMostOrder; }
  int32_t n_players() const { return int32_t(of_first_.size()); }

  // Those of the path; position_of has -1 for all players, and again afterwards.
  void find(std::span<const int32_t> path, std::vector<int32_t>& position_of, std::vector<PlacedSet>& found) const {
    found.clear();
    for (size_t position = 0; position < path.size(); ++position) position_of[path[position]] = int32_t(position);
    for (const int32_t player : path)
      for (const int32_t set : of_first_[player]) {
        const PlacedSet placed = place(set, position_of);
        if (placed.order > 0) found.push_back(placed);
      }
    for (const int32_t player : path) position_of[player] = -1;
  }

 private:
  std::vector<int32_t> players_;
  std::vector<std::vector<int32_t>> of_first_;  // [player]: sets whose first it is

  // The set on this path; its order is 0 if the path lacks a player.
  PlacedSet place(int32_t set, const std::vector<int32_t>& position_of) const {
    PlacedSet result{set, 0, {}};
    for (const int32_t* player = players_.data() + int64_t(set) * kMostOrder;
         result.order < kMostOrder && player[result.order] >= 0; ++result.order) {
      const int32_t position = position_of[player[result.order]];
      if (position < 0) return {set, 0, {}};
      result.positions[result.order] = position;
    }
    return result;
  }
};

inline bool has_bit(const uint64_t* set, int32_t bit) { return set[bit / 64] >> (bit % 64) & 1; }

}  // namespace glasswood
