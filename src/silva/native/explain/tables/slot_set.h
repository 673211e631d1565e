// Players of chunks that can share slots.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace silva {

struct SlotSet {
  size_t capacity;
  std::vector<int32_t> players;
  std::vector<int8_t> slot_of;  // [player]; -1: none
  std::vector<int32_t> subtrees;

  SlotSet(size_t capacity, int32_t n_players) : capacity(capacity), slot_of(n_players, -1) {}

  void take_in(int32_t player) {
    if (slot_of[player] >= 0) return;
    slot_of[player] = int8_t(players.size());
    players.push_back(player);
  }
};

// The one of the last sets that gains fewest; null: none has room.
inline SlotSet* find_set(std::vector<SlotSet>& sets, std::span<const int32_t> players, size_t capacity) {
  constexpr size_t kOpenSets = 64;
  SlotSet* best = nullptr;
  int64_t fewest = int64_t(capacity) + 1;
  for (size_t i = sets.size() > kOpenSets ? sets.size() - kOpenSets : 0; i < sets.size(); ++i) {
    if (sets[i].capacity != capacity) continue;
    const int64_t gained =
        std::count_if(players.begin(), players.end(), [&](int32_t player) { return sets[i].slot_of[player] < 0; });
    if (gained >= fewest || sets[i].players.size() + size_t(gained) > capacity) continue;
    best = &sets[i], fewest = gained;
  }
  return best;
}

}  // namespace silva
