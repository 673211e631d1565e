// The players of a game: features, or groups of features that a coalition knows together.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

namespace glasswood {

struct Players {
  std::vector<int32_t> of_feature;
  int32_t n = 0;

  int32_t of(int32_t feature) const { return of_feature[feature]; }
};

// Each feature by itself.
inline Players each_feature(int32_t n_features) {
  Players players{std::vector<int32_t>(n_features), n_features};
  std::iota(players.of_feature.begin(), players.of_feature.end(), 0);
  return players;
}

// From the player of each feature; each of 0 ... n - 1 has a feature.
inline Players players_of(std::span<const int32_t> of_feature, int32_t n_features) {
  if (int32_t(of_feature.size()) != n_features) throw std::invalid_argument("player_of has the wrong length");
  Players players{{of_feature.begin(), of_feature.end()}};
  for (const int32_t player : of_feature) {
    if (player < 0 || player >= n_features) throw std::invalid_argument("player_of holds numbers that are no players");
    players.n = std::max(players.n, player + 1);
  }
  return players;
}

}  // namespace glasswood
