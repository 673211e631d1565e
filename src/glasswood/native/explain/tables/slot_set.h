// Players of subtrees that can share slots: how chunks of tables are planned, on cores and on GPUs.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace glasswood {

struct SlotSet {
  size_t capacity;  // at most 127
  std::vector<int32_t> players;
  std::vector<int8_t> slot_of;  // [player]; -1: none
  std::vector<int32_t> subtrees;

  SlotSet(size_t capacity, int32_t n_players) : capacity(capacity), slot_of(n_players, -1) {}

  void take_in(int32_t player) {
    if (slot_of[player] >= 0) return;
    slot_of[player] = int8_t(players.size());
    players.push_back(player);
  }

  size_t n_without_slot(std::span<const int32_t> some) const {
    return size_t(std::count_if(some.begin(), some.end(), [&](int32_t player) { return slot_of[player] < 0; }));
  }
};

template <class Set>
std::span<Set> last_of(std::vector<Set>& sets, size_t n) {
  return std::span<Set>(sets).last(std::min(n, sets.size()));
}

// The set that the players enlarge least, of equals the first; null: none that they may join has room.
template <class Sets, class MayJoin>
auto* find_set(Sets&& sets, std::span<const int32_t> players, const MayJoin& may_join) {
  decltype(&*sets.begin()) best = nullptr;
  size_t fewest = players.size() + 1;
  for (auto& set : sets) {
    if (!may_join(set)) continue;
    const size_t gained = set.n_without_slot(players);
    if (gained < fewest && set.players.size() + gained <= set.capacity) best = &set, fewest = gained;
  }
  return best;
}

}  // namespace glasswood
