// How many rows miss the conditions of which features at each leaf, up to two features: 64 rows a word.
//
// A walk has, for each feature of the path, the bits of the rows that miss its conditions. Rows that miss those of
// three features count at no leaf below; where few others are left and much is to come, these are moved together.
#pragma once
#include "common/arena.h"
#include "inspection/kernels.h"

namespace glasswood {
namespace {

constexpr int kBlockWords = 64, kBlockRows = 64 * kBlockWords;
constexpr int kWorthMoving = 16;  // visits of a subtree

// Rows of a block that one node of the path is about.
struct CountLevel {
  int32_t n_rows, n_words;
  const uint16_t* index;    // [row]: its number in the block; null: all of them
  const uint64_t** missed;  // [position][word]
  uint64_t* right;          // [word]: rows that the node's split sends right
  Arena arena;              // of deeper levels
};

inline uint64_t valid_rows(const CountLevel& level, int32_t word) {
  const int32_t rest = level.n_rows - 64 * word;
  return rest >= 64 ? ~uint64_t(0) : (uint64_t(1) << rest) - 1;
}

class Counter {
 public:
  explicit Counter(const CountTask& task, Arena arena) : task_(task) {
    levels_ = arena.take<CountLevel>(task.depth + 1);
    for (int32_t depth = 0; depth <= task.depth; ++depth) {
      const uint64_t** missed = arena.take<const uint64_t*>(task.most_positions + 1);
      if (arena.start) levels_[depth].missed = missed;
    }
    arena_ = arena;
  }

  // Rows that are moved together are a quarter as many each time.
  int64_t workspace() const {
    return arena_.used() + int64_t(task_.depth + 1) * 16 * kBlockWords +
           int64_t(task_.most_positions + 1) * 8 * kBlockWords + 2 * kBlockRows;
  }

  void count_block(int32_t first_row) {
    first_row_ = first_row;
    CountLevel& root = levels_[0];
    root.n_rows = task_.n_rows - first_row < kBlockRows ? task_.n_rows - first_row : kBlockRows;
    root.n_words = (root.n_rows + 63) / 64;
    root.index = nullptr;
    root.arena = arena_;
    for (int32_t i = 0; i < task_.n_visits;) {
      const CountVisit& visit = task_.visits[i];
      CountLevel& here = levels_[visit.depth];
      if (visit.depth > 0) enter(visit, levels_[visit.depth - 1], here);
      const bool any = find_alive(visit, here);
      if (visit.feature < 0) {
        if (any) count_leaf(visit, here);
      } else if (any) {
        if (visit.next - i >= kWorthMoving) move_together(visit, here);
        find_sides(visit, here);
      } else {
        i = visit.next;
        continue;
      }
      ++i;
    }
  }

 private:
  const CountTask& task_;
  CountLevel* levels_;
  Arena arena_{};
  int32_t first_row_ = 0;
  alignas(64) uint64_t any_[3][kBlockWords];  // rows that miss the conditions of at least 1, 2, 3 features
  alignas(64) uint64_t two_[kBlockWords];
  alignas(64) uint8_t side_[kBlockRows] = {};

  static void enter(const CountVisit& visit, const CountLevel& parent, CountLevel& here) {
    const uint64_t** missed = here.missed;
    here = parent;
    here.missed = missed;
    // The last position is new if the path splits for it first here; it is then none of the parent's.
    for (int32_t position = 0; position < visit.n_positions; ++position) missed[position] = parent.missed[position];
    uint64_t* made = here.arena.take<uint64_t>(here.n_words);
    const uint64_t* before = visit.is_new ? nullptr : parent.missed[visit.entered];
    for (int32_t word = 0; word < here.n_words; ++word)
      made[word] = (visit.is_left ? parent.right[word] : ~parent.right[word]) | (before ? before[word] : 0);
    missed[visit.entered] = made;
  }

  // Rows by how many features' conditions they miss; whether any misses those of two at most.
  bool find_alive(const CountVisit& visit, const CountLevel& here) {
    const int32_t n = here.n_words;
    for (auto& words : any_)
      for (int32_t word = 0; word < n; ++word) words[word] = 0;
    for (int32_t position = 0; position < visit.n_positions; ++position) {
      const uint64_t* missed = here.missed[position];
      for (int32_t word = 0; word < n; ++word) {
        const uint64_t one = any_[0][word], two = any_[1][word];
        any_[2][word] |= two & missed[word];
        any_[1][word] = two | (one & missed[word]);
        any_[0][word] = one | missed[word];
      }
    }
    uint64_t alive = 0;
    for (int32_t word = 0; word < n; ++word) alive |= ~any_[2][word] & valid_rows(here, word);
    return alive != 0;
  }

  void move_together(const CountVisit& visit, CountLevel& here) {
    int32_t n_rows = 0;
    for (int32_t word = 0; word < here.n_words; ++word)
      n_rows += __builtin_popcountll(~any_[2][word] & valid_rows(here, word));
    if (here.n_words == 1 || 4 * n_rows > here.n_rows) return;
    uint16_t* index = here.arena.take<uint16_t>(n_rows);
    const int32_t n_words = (n_rows + 63) / 64;
    for (int32_t position = 0; position < visit.n_positions; ++position) {
      uint64_t* moved = here.arena.take<uint64_t>(n_words);
      for (int32_t word = 0; word < n_words; ++word) moved[word] = 0;
      int32_t row = 0;
      for (int32_t word = 0; word < here.n_words; ++word)
        for (uint64_t rest = ~any_[2][word] & valid_rows(here, word); rest; rest &= rest - 1, ++row)
          moved[row / 64] |= (here.missed[position][word] >> __builtin_ctzll(rest) & 1) << row % 64;
      here.missed[position] = moved;
    }
    int32_t row = 0;
    for (int32_t word = 0; word < here.n_words; ++word)
      for (uint64_t rest = ~any_[2][word] & valid_rows(here, word); rest; rest &= rest - 1, ++row) {
        const int32_t old = 64 * word + __builtin_ctzll(rest);
        index[row] = here.index ? here.index[old] : uint16_t(old);
      }
    here.n_rows = n_rows, here.n_words = n_words, here.index = index;
  }

  template <class GoesRight>
  void decide(const CountVisit& visit, CountLevel& here, const GoesRight& goes_right) {
    const float* x = task_.tile + visit.feature * task_.stride + first_row_;
    if (here.index)
      for (int32_t row = 0; row < here.n_rows; ++row) side_[row] = goes_right(x[here.index[row]]);
    else
      for (int32_t row = 0; row < here.n_rows; ++row) side_[row] = goes_right(x[row]);
  }

  void find_sides(const CountVisit& visit, CountLevel& here) {
    const bool missing_right = !visit.missing_left;
    if (visit.category_set < 0) {
      const float threshold = visit.threshold;
      decide(visit, here, [=](float x) { return uint8_t((x >= threshold) | ((x != x) & missing_right)); });
    } else if (const CategorySet& set = task_.category_sets[visit.category_set];
               set.n_categories > 0 && set.n_categories <= 64) {
      // Without a branch or a load, so that rows fill vectors.
      const uint32_t low = task_.set_words[set.first_word];
      const uint32_t high = set.n_categories > 32 ? task_.set_words[set.first_word + 1] : 0;
      const float lowest = set.lowest, n = float(set.n_categories);
      const uint32_t others = set.others_left;
      decide(visit, here, [=](float x) {
        const bool is_category = (x >= lowest) & (x < n);
        const int32_t category = int32_t(is_category ? x : 0.0f);
        const uint32_t left = (category & 32 ? high : low) >> (category & 31) & 1;
        return uint8_t(((is_category ? left : others) ^ 1) & (x == x) | ((x != x) & missing_right));
      });
    } else {
      decide(visit, here,
             [&](float x) { return uint8_t(x != x ? missing_right : !category_goes_left(set, task_.set_words, x)); });
    }
    here.right = here.arena.take<uint64_t>(here.n_words);
    for (int32_t word = 0; word < here.n_words; ++word) {
      uint64_t bits = 0;
      for (int32_t byte = 0; byte < 8; ++byte) {
        uint64_t eight;
        __builtin_memcpy(&eight, side_ + 64 * word + 8 * byte, 8);
        bits |= eight * 0x0102040810204080 >> 56 << 8 * byte;  // the lowest bit of each
      }
      here.right[word] = bits;
    }
  }

  void count_leaf(const CountVisit& visit, const CountLevel& here) {
    const int32_t n = here.n_words;
    uint64_t* one = any_[0];
    double* counts = task_.counts + visit.first_count;
    for (int32_t word = 0; word < n; ++word) {
      const uint64_t missed = any_[0][word], valid = valid_rows(here, word);
      two_[word] = any_[1][word] & ~any_[2][word] & valid;
      one[word] = missed & ~any_[1][word] & valid;
      any_[1][word] = ~missed & valid;
    }
    counts[0] += sum(here, any_[1]);
    double* pair = counts + 1 + visit.n_positions;
    for (int32_t p = 0; p < visit.n_positions; ++p) {
      uint64_t* chosen = any_[1];
      for (int32_t word = 0; word < n; ++word) chosen[word] = one[word] & here.missed[p][word];
      counts[1 + p] += sum(here, chosen);
      uint64_t* of_two = any_[2];
      for (int32_t word = 0; word < n; ++word) of_two[word] = two_[word] & here.missed[p][word];
      for (int32_t q = 0; q < p; ++q, ++pair) {
        for (int32_t word = 0; word < n; ++word) chosen[word] = of_two[word] & here.missed[q][word];
        *pair += sum(here, chosen);
      }
    }
  }

  // Weight of the rows that are chosen.
  double sum(const CountLevel& here, const uint64_t* chosen) const {
    if (!task_.weight) {
      int64_t n = 0;
      for (int32_t word = 0; word < here.n_words; ++word) n += __builtin_popcountll(chosen[word]);
      return double(n);
    }
    double total = 0;
    for (int32_t word = 0; word < here.n_words; ++word)
      for (uint64_t rest = chosen[word]; rest; rest &= rest - 1) {
        const int32_t row = 64 * word + __builtin_ctzll(rest);
        total += task_.weight[first_row_ + (here.index ? here.index[row] : row)];
      }
    return total;
  }
};

}  // namespace
}  // namespace glasswood
