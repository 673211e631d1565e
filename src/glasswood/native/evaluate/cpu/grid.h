// Margins of rows whose values in a column or two become those of each point of a grid: partial dependence. A row walks
// a tree once for many points: only splits of these columns send points to both sides, and each leaf adds its value to
// the points that reach it. Sums have the order, and so the bits, of a prediction a point. Where only the mean over
// rows is asked for, a node has the list of the rows that reach it, and a leaf adds its value times their number.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "evaluate/cpu/encode.h"
#include "evaluate/cpu/plan_tasks.h"

namespace glasswood {

// Points of a grid that share their walks, a bit each.
constexpr int kPointWords = 2, kMostPoints = 64 * kPointWords;

struct PointSet {
  std::array<uint64_t, kPointWords> word{};

  static PointSet first(int n) {
    PointSet all;
    for (int i = 0; i < n; ++i) all.set(i);
    return all;
  }
  void set(int point) { word[point >> 6] |= uint64_t(1) << (point & 63); }
  bool any() const {
    uint64_t together = 0;
    for (const uint64_t bits : word) together |= bits;
    return together != 0;
  }
  PointSet among(const PointSet& others) const {
    PointSet result;
    for (int i = 0; i < kPointWords; ++i) result.word[i] = word[i] & others.word[i];
    return result;
  }
  PointSet without(const PointSet& others) const {
    PointSet result;
    for (int i = 0; i < kPointWords; ++i) result.word[i] = word[i] & ~others.word[i];
    return result;
  }
  // Neighbours together: of a number's grid a leaf has one run.
  void add(double value, double* sums) const {
    for (int i = 0; i < kPointWords; ++i)
      for (uint64_t rest = word[i]; rest;) {
        const int begin = std::countr_zero(rest), n = std::countr_one(rest >> begin);
        double* sum = sums + 64 * i + begin;
        for (int point = 0; point < n; ++point) sum[point] += value;
        rest = begin + n < 64 ? rest >> (begin + n) << (begin + n) : 0;
      }
  }
};

// A forest beside some points of a grid: which of them reach each node if the row's own values allow it.
template <bool Packed>
class GridWalk {
 public:
  // points: rows of the forest's features, of which only the changed columns count.
  GridWalk(const EvaluatePlan& plan, const std::vector<int32_t>& columns, const RowSource& points, int64_t first_point,
           int n_points)
      : forest_(plan.view()),
        coding_(plan.coding.view()),
        classes_(plan.classes.view()),
        turn_(plan.node.size(), kOwnValue),
        points_(plan.node.size()),
        n_points_(n_points) {
    std::vector<uint8_t> is_changed(plan.coding.flags.size(), 0);
    for (const int32_t column : columns) is_changed[column] = 1;
    std::vector<float> codes(int64_t(coding_.n_features) * n_points);
    encode_tile(coding_, classes_, points, first_point, n_points, n_points, n_points, codes.data());
    for (int tree = 0; tree < forest_.n_trees; ++tree) {
      const EvaluateTree nodes = tree_at(forest_, tree);
      const int64_t first = forest_.tree_first[tree];
      points_[first] = PointSet::first(n_points);
      for (uint32_t at = 0; first + at < forest_.tree_first[tree + 1]; ++at) {
        const uint32_t left = left_of(nodes, at);
        if (left == at) continue;
        PointSet* children = points_.data() + first + left;
        const PointSet here = points_[first + at];
        children[0] = children[1] = here;
        if (!is_changed[uint32_t(nodes.node[at].word) & uint32_t(NodeWord<Packed>::kFeature)]) continue;
        PointSet right;
        for (int point = 0; point < n_points; ++point) {
          const auto value = [&](uint32_t feature) { return codes[int64_t(feature) * n_points + point]; };
          if (step<Packed, true, true>(forest_, nodes, at, value) != left) right.set(point);
        }
        children[0] = here.without(right), children[1] = here.among(right);
        turn_[first + at] = !children[1].any() ? kLeft : !children[0].any() ? kRight : kBoth;
      }
    }
  }

  // out: [row][output][point], `stride` points apart.
  void add(const RowSource& rows, int64_t first_row, int n_rows, double* out, int64_t stride) const {
    const int64_t row_size = forest_.n_outputs * stride;
    std::vector<float> tile(int64_t(coding_.n_features) * n_rows);
    encode_tile(coding_, classes_, rows, first_row, n_rows, n_rows, n_rows, tile.data());
    for (int row = 0; row < n_rows; ++row)
      for (int output = 0; output < forest_.n_outputs; ++output)
        std::fill_n(out + row * row_size + output * stride, n_points_, forest_.base_score[output]);
    std::vector<RowAtNode> here(kTogether * n_points_ + 1), next(here.size());  // one behind the last is overwritten
    for (int tree = 0; tree < forest_.n_trees; ++tree)
      for (int row = 0; row < n_rows; row += kTogether)
        add_tree(tree, tile.data(), n_rows, row, std::min(row + kTogether, n_rows), out, stride, here, next);
  }

  // Rows of a tile that reach a node: a range of their list.
  struct Visit {
    uint32_t at, begin, end;
  };

  // Adds what the rows of a tile sum up to in a tree; out: [output][point]. A split of the rows' own values divides
  // their range in place, one of the grid's hands it to both sides, which reorder it and no more.
  void add_sums(int tree, const float* tile, int n_rows, const double* weights, std::vector<uint32_t>& list,
                std::vector<Visit>& waiting, double* out, int64_t stride) const {
    const EvaluateTree nodes = tree_at(forest_, tree);
    const int64_t first = forest_.tree_first[tree];
    list.resize(n_rows);
    std::iota(list.begin(), list.end(), 0);
    uint32_t* rows = list.data();
    waiting.assign(1, {0, 0, uint32_t(n_rows)});
    while (!waiting.empty()) {
      const auto [at, begin, end] = waiting.back();
      waiting.pop_back();
      const uint32_t left = left_of(nodes, at);
      if (left == at) {
        double total = end - begin;
        if (weights) {
          total = 0;
          for (uint32_t i = begin; i < end; ++i) total += weights[rows[i]];
        }
        add_leaf(tree, first + at, out, stride, total);
        continue;
      }
      const Turn turn = turn_[first + at];
      uint32_t left_end = turn == kRight ? begin : end, right_begin = turn == kLeft ? end : begin;
      if (turn == kOwnValue) {
        left_end = begin;
        for (uint32_t i = begin; i < end; ++i) {
          const uint32_t row = rows[i];
          rows[i] = rows[left_end], rows[left_end] = row;
          const auto value = [&](uint32_t feature) { return tile[int64_t(feature) * n_rows + row]; };
          left_end += step<Packed, true, true>(forest_, nodes, at, value) == left;
        }
        right_begin = left_end;
      }
      if (right_begin < end) waiting.push_back({left + 1, right_begin, end});
      if (begin < left_end) waiting.push_back({left, begin, left_end});
    }
  }

 private:
  static constexpr int kTogether = 32;  // rows whose walks go on side by side, so that they wait for memory together
  enum Turn : uint8_t { kOwnValue, kLeft, kRight, kBoth };

  struct RowAtNode {
    uint32_t at;
    int32_t row;
  };

  EvaluateTables forest_;
  RowCoding coding_;
  ClassCoding classes_;
  std::vector<Turn> turn_;        // [node]: what decides
  std::vector<PointSet> points_;  // [node]
  int n_points_;

  static uint32_t left_of(const EvaluateTree& nodes, uint32_t at) {
    if constexpr (Packed)
      return uint32_t(nodes.node[at].word) >> NodeWord<Packed>::kLeftBit;
    else
      return uint32_t(nodes.left[at]);
  }

  // Level by level. A second child is always written, and overwritten where nobody goes: no branch depends on a split.
  void add_tree(int tree, const float* tile, int n_rows, int first_row, int last_row, double* out, int64_t stride,
                std::vector<RowAtNode>& here, std::vector<RowAtNode>& next) const {
    const EvaluateTree nodes = tree_at(forest_, tree);
    const int64_t first = forest_.tree_first[tree], row_size = forest_.n_outputs * stride;
    const Turn* turns = turn_.data() + first;
    int64_t n_here = 0;
    for (int row = first_row; row < last_row; ++row) here[n_here++] = {0, row};
    while (n_here) {
      RowAtNode* written = next.data();
      for (const RowAtNode* walk = here.data(); walk < here.data() + n_here; ++walk) {
        const uint32_t at = walk->at, left = left_of(nodes, at);
        const int32_t row = walk->row;
        if (left == at) {
          add_leaf(tree, first + at, out + row * row_size, stride, 1);
          continue;
        }
        const auto value = [&](uint32_t feature) { return tile[int64_t(feature) * n_rows + row]; };
        const uint32_t own = step<Packed, true, true>(forest_, nodes, at, value);
        const Turn turn = turns[at];
        *written++ = {turn == kOwnValue ? own : left + (turn == kRight), row};
        *written = {left + 1, row};
        written += turn == kBoth;
      }
      n_here = written - next.data();
      std::swap(here, next);
    }
  }

  void add_leaf(int tree, int64_t node, double* out, int64_t stride, double times) const {
    const double* value = forest_.value + node * forest_.width;
    if (forest_.width == 1) return points_[node].add(times * value[0], out + forest_.tree_output[tree] * stride);
    for (int k = 0; k < forest_.width; ++k) points_[node].add(times * value[k], out + k * stride);
  }
};

template <bool Packed>
void margins_on_grid(const EvaluatePlan& plan, const RowSource& rows, const std::vector<int32_t>& columns,
                     const RowSource& points, double* out, int n_threads) {
  constexpr int64_t kCache = 1 << 21, kMostRows = 4096;  // bytes of sums that a task has, and rows that share a tree
  const int64_t stride = points.n_rows, n_outputs = int64_t(plan.base_score.size());
  for (int64_t first = 0; first < points.n_rows; first += kMostPoints) {
    const int n_points = int(std::min<int64_t>(kMostPoints, points.n_rows - first));
    const GridWalk<Packed> walk(plan, columns, points, first, n_points);
    int64_t together = std::clamp(kCache / (n_points * n_outputs * int64_t(sizeof(double))), int64_t(16), kMostRows);
    together = std::clamp(rows.n_rows / (4 * n_threads), std::min<int64_t>(64, together), together);
    const BorrowedTeam threads(n_threads);
    share_out(threads.team(), (rows.n_rows + together - 1) / together, [&](int64_t task, int32_t) {
      const int64_t row = task * together;
      walk.add(rows, row, int(std::min(together, rows.n_rows - row)), out + row * n_outputs * stride + first, stride);
    });
  }
}

// Sums over the rows, [output][point]; weights: one a row, or null for 1. Threads take trees, whose sums are added up
// in their order, tile by tile.
template <bool Packed>
void sums_on_grid(const EvaluatePlan& plan, const RowSource& rows, const std::vector<int32_t>& columns,
                  const RowSource& points, const double* weights, double* out, int n_threads) {
  constexpr int64_t kTileRows = 1 << 15, kTileNumbers = 1 << 24, kEncoded = 512;
  constexpr int kTreesTogether = 256;
  const EvaluateTables forest = plan.view();
  const RowCoding coding = plan.coding.view();
  const ClassCoding classes = plan.classes.view();
  const int64_t n_outputs = forest.n_outputs, stride = points.n_rows;
  const int64_t most_rows = std::clamp(kTileNumbers / std::max(coding.n_features, 1), kEncoded, kTileRows);
  const double total = weights ? std::accumulate(weights, weights + rows.n_rows, 0.0) : double(rows.n_rows);
  for (int64_t k = 0; k < n_outputs; ++k) std::fill_n(out + k * stride, stride, total * forest.base_score[k]);
  const BorrowedTeam threads(n_threads);
  std::vector<std::vector<uint32_t>> lists(n_threads);
  std::vector<std::vector<typename GridWalk<Packed>::Visit>> waiting(n_threads);
  std::vector<float> tile;
  std::vector<double> sums;
  for (int64_t first = 0; first < stride; first += kMostPoints) {
    const int n_points = int(std::min<int64_t>(kMostPoints, stride - first));
    const int64_t size = n_outputs * n_points;
    const GridWalk<Packed> walk(plan, columns, points, first, n_points);
    for (int64_t row = 0; row < rows.n_rows; row += most_rows) {
      const int n_rows = int(std::min(most_rows, rows.n_rows - row));
      tile.resize(int64_t(coding.n_features) * n_rows);
      share_out(threads.team(), (n_rows + kEncoded - 1) / kEncoded, [&](int64_t task, int32_t) {
        const int lane = int(task * kEncoded), n = std::min(int(kEncoded), n_rows - lane);
        encode_tile(coding, classes, rows, row + lane, n, n, n_rows, tile.data() + lane);
      });
      for (int tree = 0; tree < forest.n_trees; tree += kTreesTogether) {
        const int n_trees = std::min(kTreesTogether, forest.n_trees - tree);
        sums.assign(n_trees * size, 0);
        share_out(threads.team(), n_trees, [&](int64_t task, int32_t thread) {
          walk.add_sums(tree + int(task), tile.data(), n_rows, weights ? weights + row : nullptr, lists[thread],
                        waiting[thread], sums.data() + task * size, n_points);
        });
        for (int task = 0; task < n_trees; ++task)
          for (int64_t k = 0; k < n_outputs; ++k)
            for (int point = 0; point < n_points; ++point)
              out[k * stride + first + point] += sums[task * size + k * n_points + point];
      }
    }
  }
}

}  // namespace glasswood
