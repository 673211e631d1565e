// Trees in which another column stands in for that of a split: one that divides the node's rows nearly as the split
// does (surrogate splits: Breiman, Friedman, Olshen and Stone 1984, 5.3). A search that has found the one column seldom
// looks at the other.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "grow/search/operators.h"

namespace glasswood {

constexpr int kSurrogateRows = 256;      // of a node that are looked at
constexpr size_t kSurrogates = 8;        // columns of a node, the closest ones
constexpr double kLeastAgreement = 0.5;  // part of the rows of the smaller side that a column tells from the others

struct Surrogate {
  double agreement;
  GrowSplit split;
  bool turned;  // the sides are exchanged
};

// The cut of a column that agrees best with the sides of these rows, which are pairs of rank and side (1: left).
inline Surrogate closest_cut(std::vector<std::pair<int32_t, int>>& rows, int feature, bool missing_left) {
  std::sort(rows.begin(), rows.end());
  int n_left = 0;
  for (const auto& row : rows) n_left += row.second;
  const int n = int(rows.size()), most = std::max(n_left, n - n_left);
  Surrogate best{0, {feature, 0, missing_left}, false};
  int left_below = 0;
  for (int i = 0; i + 1 < n; ++i) {
    left_below += rows[i].second;
    if (rows[i].first == rows[i + 1].first) continue;
    const int agreeing = left_below + (n - i - 1) - (n_left - left_below);
    for (const bool turned : {false, true}) {
      const double agreement = double((turned ? n - agreeing : agreeing) - most) / std::max(n - most, 1);
      if (agreement > best.agreement) best = {agreement, {feature, rows[i + 1].first, turned != missing_left}, turned};
    }
  }
  return best;
}

inline std::vector<Surrogate> surrogates_of(const OperatorContext& c, const GrowTree& tree, int v) {
  const GrowData& data = c.data();
  const GrowSplit& split = tree[v].split;
  all_boxes(data, tree, c.scratch.boxes);
  sample_rows(c.evaluator.rows(), data, c.scratch.boxes[v], kSurrogateRows, c.random, c.scratch.rows);
  if (c.scratch.rows.size() > kSurrogateRows) c.scratch.rows.resize(kSurrogateRows);
  std::vector<Surrogate> found;
  std::vector<std::pair<int32_t, int>> rows;
  for (int a = 0; a < data.n_features; ++a) {
    if (a == split.feature || data.n_distinct[a] < 2) continue;
    rows.clear();
    for (const int32_t row : c.scratch.rows)
      if (const int32_t rank = data.rank(row, a); rank >= 0)
        rows.emplace_back(rank, split.left(data.rank(row, split.feature)));
    const Surrogate closest = closest_cut(rows, a, split.missing_left);
    if (closest.agreement >= kLeastAgreement) found.push_back(closest);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Surrogate& a, const Surrogate& b) { return a.agreement > b.agreement; });
  if (found.size() > kSurrogates) found.resize(kSurrogates);
  return found;
}

// The tree with such a split in the node's place, at its best threshold.
inline GrowTree with_surrogate(const OperatorContext& c, const GrowTree& tree, int v, const Surrogate& surrogate) {
  const int first = surrogate.turned ? tree[v].right : tree[v].left,
            second = surrogate.turned ? tree[v].left : tree[v].right;
  GrowTree other = replaced(tree, v, [&](GrowTree& out) {
    return push_split(
        out, surrogate.split, [&] { return push_subtree(out, tree, first); },
        [&] { return push_subtree(out, tree, second); });
  });
  other = search_threshold(c, other, v);
  c.evaluator.evaluate(other, c.layer, c.scratch);
  return other;
}

}  // namespace glasswood
