// Where a sweep cuts a list of rows in the order of an attribute's ranks: the same positions on cores and GPUs. A list
// answers rank(position) and next_change(at, last): the first position from `at` on, before `last`, whose rank differs
// from the one before it; `last` if there is none.
#pragma once
#include "common/lanes.h"

namespace silva {

constexpr int kGrid = 32;  // most cuts of one look

// next_change() where every rank can be read.
template <class Ranks>
SILVA_INLINE int64_t next_change(const Ranks& ranks, int64_t at, int64_t last) {
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

SILVA_INLINE int n_targets(int64_t first, int64_t last) {
  const int64_t span = last - first;
  return int(span - 1 < kGrid ? span - 1 : kGrid);
}

// About evenly spaced, strictly between first and last.
SILVA_INLINE int64_t grid_target(int64_t first, int64_t last, int j) {
  return first + (last - first) * (j + 1) / (n_targets(first, last) + 1);
}

// The grid's targets, each moved on to the next change of rank, which `moved_on(j)` tells, and beyond the cut before
// it. Writes the cuts, of which there may be kGrid, and returns how many. They may lie where `moved_on` reads.
template <class List, class MovedOn>
SILVA_INLINE int find_cuts(const List& list, int64_t first, int64_t last, const MovedOn& moved_on, int32_t* cuts) {
  const int most = n_targets(first, last);
  int n = 0;
  for (int j = 0; j < most; ++j) {
    const bool taken = n && cuts[n - 1] >= grid_target(first, last, j);
    const int64_t at = taken ? list.next_change(cuts[n - 1] + 1, last) : moved_on(j);
    if (at >= last) break;
    cuts[n++] = int32_t(at);
  }
  return n;
}

// Whether ranks change between the neighbours of cut j elsewhere than at the cut.
template <class List>
SILVA_INLINE bool has_more_cuts(const List& list, int64_t first, int64_t last, const int32_t* cuts, int n, int j) {
  const int64_t lower = j ? cuts[j - 1] : first, upper = j + 1 < n ? cuts[j + 1] : last;
  return list.next_change(lower + 1, cuts[j]) < cuts[j] || list.next_change(cuts[j] + 1, upper) < upper;
}

}  // namespace silva
