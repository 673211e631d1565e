// Which cells of a subtree's splits the states of few rows need.
#pragma once
#include "common/arena.h"
#include "explain/tables/kernels.h"
#include "explain/tables/plan.h"
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace glasswood {
namespace {

// Some cells of a split, or the first n.
struct CellList {
  const uint16_t* cells;
  int n;
  GLASSWOOD_INLINE int64_t operator[](int i) const { return cells ? cells[i] : i; }
};

struct WantedStates {
  uint16_t* states;  // of the rows, each once, rising
  mutable int n_states;

  WantedStates() = default;
  WantedStates(const TableArrays& plan, int n_rows, Arena& arena) {
    states = arena.take<uint16_t>(n_rows);
    cells_ = arena.take<uint16_t>(plan.most_x);
    n_cells_ = arena.take<int32_t>(plan.most_x);
    seen_ = arena.take<char>(plan.most_x > kMostStates ? plan.most_x : kMostStates);
  }

  CellList cells(const SubtreeSplit& split, int index) const { return {cells_ + split.first_x, n_cells_[index]}; }

  void find(const Subtree& subtree, const TableArrays& plan, const uint16_t* keys, int n_rows) const {
    find_states(subtree.n_states, keys, n_rows);
    if (subtree.n_splits == 0) return;
    __builtin_memset(seen_, 0, subtree.n_x);
    __builtin_memset(n_cells_, 0, sizeof(int32_t) * subtree.n_splits);
    const SubtreeSplit* splits = plan.splits + subtree.first_split;
    const int root = subtree.n_splits - 1;
    for (int i = 0; i < n_states; ++i) add(splits, root, states[i] % subtree.n_cells);
    for (int index = root; index >= 0; --index) find_below(splits, index, plan.cells + splits[index].first_cell);
  }

 private:
  // Rows mark their states, and none waits for the row before it. Marks are then read 64 at a time.
  void find_states(int n_marks, const uint16_t* keys, int n_rows) const {
    char* marks = seen_;
    uint16_t* to = states;
    __builtin_memset(marks, 0, (n_marks + 63) / 64 * 64);
    for (int row = 0; row < n_rows; ++row) marks[keys[row] / kKeyScale] = 1;
    int n = 0;
    for (int first = 0; first < n_marks; first += 64)
      for (uint64_t marked = marked_of(marks + first); marked; marked &= marked - 1)
        to[n++] = uint16_t(first + __builtin_ctzll(marked));
    n_states = n;
  }

  // A bit each of 64 marks.
  static GLASSWOOD_INLINE uint64_t marked_of(const char* marks) {
#if defined(__AVX512BW__)
    const __m512i all = _mm512_loadu_si512(marks);
    return _mm512_test_epi8_mask(all, all);
#else
    uint64_t result = 0;
    for (int i = 0; i < 8; ++i) {
      uint64_t eight;
      __builtin_memcpy(&eight, marks + 8 * i, sizeof(eight));
      result |= (eight * 0x0102040810204080u >> 56) << 8 * i;
    }
    return result;
#endif
  }

  uint16_t* cells_;  // of each split from its first_x on
  int32_t* n_cells_;
  char* seen_;

  void add(const SubtreeSplit* splits, int index, int cell) const {
    const int at = splits[index].first_x;
    if (!seen_[at + cell]) cells_[at + n_cells_[index]++] = uint16_t(cell);
    seen_[at + cell] = 1;
  }

  void find_below(const SubtreeSplit* splits, int index, const Cell* cells) const {
    const SubtreeSplit& split = splits[index];
    for (int i = 0; i < n_cells_[index]; ++i)
      for (int side = 0; side < 2; ++side)
        if (split.child[side] >= 0) add(splits, split.child[side], cells[cells_[split.first_x + i]].child[side]);
  }
};

}  // namespace
}  // namespace glasswood
