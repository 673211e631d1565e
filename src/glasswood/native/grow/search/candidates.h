// Where the candidates of a threshold search stand in a list of rows in the order of a feature's ranks: the same
// positions on CPU and GPUs. A list answers rank(position) and next_change(at, last): the first position from `at` on,
// before `last`, whose rank differs from the one before it; `last` if there is none.
#pragma once
#include "common/lanes.h"

namespace glasswood {

constexpr int kGrid = 32;  // most candidates of one look

// next_change() where every rank can be read.
template <class Ranks>
GLASSWOOD_INLINE int64_t next_change(const Ranks& ranks, int64_t at, int64_t last) {
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

GLASSWOOD_INLINE int n_targets(int64_t first, int64_t last) {
  const int64_t span = last - first;
  return int(span - 1 < kGrid ? span - 1 : kGrid);
}

// About evenly spaced, strictly between first and last.
GLASSWOOD_INLINE int64_t grid_target(int64_t first, int64_t last, int j) {
  return first + (last - first) * (j + 1) / (n_targets(first, last) + 1);
}

// The grid's targets, each moved on to the next change of rank, which `moved_on(j)` tells, and beyond the candidate
// before it. Writes the candidates, of which there may be kGrid, and returns how many. They may lie where `moved_on`
// reads.
template <class List, class MovedOn>
GLASSWOOD_INLINE int find_candidates(const List& list, int64_t first, int64_t last, const MovedOn& moved_on,
                                     int32_t* candidates) {
  const int most = n_targets(first, last);
  int n = 0;
  for (int j = 0; j < most; ++j) {
    const bool taken = n && candidates[n - 1] >= grid_target(first, last, j);
    const int64_t at = taken ? list.next_change(candidates[n - 1] + 1, last) : moved_on(j);
    if (at >= last) break;
    candidates[n++] = int32_t(at);
  }
  return n;
}

// Whether ranks change between the neighbours of candidate j elsewhere than at the candidate.
template <class List>
GLASSWOOD_INLINE bool has_more_candidates(const List& list, int64_t first, int64_t last, const int32_t* candidates,
                                          int n, int j) {
  const int64_t lower = j ? candidates[j - 1] : first, upper = j + 1 < n ? candidates[j + 1] : last;
  return list.next_change(lower + 1, candidates[j]) < candidates[j] ||
         list.next_change(candidates[j] + 1, upper) < upper;
}

}  // namespace glasswood
