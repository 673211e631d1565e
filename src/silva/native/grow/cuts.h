// Where a sweep cuts a list of rows in the order of an attribute's ranks: the same positions on cores and GPUs. A list
// answers next_change(at, last): the first position from `at` on, before `last`, whose rank differs from the one before
// it; `last` if there is none.
#pragma once
#include <cstdint>
#include <vector>

namespace silva {

constexpr int kGrid = 32;  // most cuts of one look

// next_change() where every rank can be read.
template <class Ranks>
int64_t next_change(const Ranks& ranks, int64_t at, int64_t last) {
  if (at >= last) return last;
  const int32_t before = ranks(at - 1);
  if (ranks(at) != before) return at;
  int64_t low = at, step = 1;
  while (low + step < last && ranks(low + step) == before) low += step, step *= 2;
  int64_t high = low + step < last ? low + step : last;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (ranks(middle) == before ? low : high) = middle;
  }
  return high;
}

inline int n_targets(int64_t first, int64_t last) {
  const int64_t span = last - first;
  return int(span - 1 < kGrid ? span - 1 : kGrid);
}

// About evenly spaced, strictly between first and last.
inline int64_t grid_target(int64_t first, int64_t last, int j) {
  return first + (last - first) * (j + 1) / (n_targets(first, last) + 1);
}

// The grid's targets, each moved on to the next change of rank and beyond the cut before it.
template <class List>
std::vector<int> find_cuts(const List& list, int64_t first, int64_t last) {
  const int most = n_targets(first, last);
  std::vector<int> cuts;
  for (int j = 0; j < most; ++j) {
    const int64_t target = grid_target(first, last, j);
    const bool taken = !cuts.empty() && cuts.back() >= target;
    const int64_t at = list.next_change(taken ? cuts.back() + 1 : target, last);
    if (at >= last) break;
    cuts.push_back(int(at));
  }
  return cuts;
}

// Whether ranks change between the neighbours of cut j elsewhere than at the cut.
template <class List>
bool has_more_cuts(const List& list, int64_t first, int64_t last, const std::vector<int>& cuts, int j) {
  const int64_t lower = j ? cuts[j - 1] : first, upper = j + 1 < int(cuts.size()) ? cuts[j + 1] : last;
  return list.next_change(lower + 1, cuts[j]) < cuts[j] || list.next_change(cuts[j] + 1, upper) < upper;
}

}  // namespace silva
