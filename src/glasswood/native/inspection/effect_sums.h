// Sums over rows for partial dependence of all features and pairs, from counts of rows at each leaf (count.h).
//
// The sum over rows of f(x_S, the row's other features) is that of f, plus for each feature in S its *main* part, plus
// for each pair in S its *joint* part. A leaf whose conditions on j the point meets as m_j (0 or 1), with N_U rows that
// miss the conditions of exactly the features in U, and value v, adds to them
//   main of j:        v (m_j (N + N_j) - N)
//   joint of j, k:    v (m_j m_k (N + N_j + N_k + N_jk) - m_j (N + N_j) - m_k (N + N_k) + N).
#pragma once
#include <algorithm>

#include "common/leaf_patterns.h"
#include "common/threads/team.h"
#include "inspection/kernels.h"

namespace glasswood {

// Where sums are written. Features and pairs that nobody asked for have no place.
struct EffectTarget {
  std::span<const int32_t> place;       // [feature]: among those asked for, or -1
  std::span<const int32_t> pair_place;  // [place][place], or -1
  std::span<const int32_t> n_points;    // [place]: of its grid
  std::span<const int64_t> first_main, first_joint;
  double* total;                 // [output]
  double *main, *joint;          // [place or pair][output][grid point of each feature]
  double *row_main, *row_joint;  // [place or pair][output][point]
};

// A tree for both walks: of all rows over bits, and of grids and points over patterns.
struct EffectTree {
  PatternTree pattern;
  std::vector<CountVisit> visits;
  int32_t most_positions = 0;
  int64_t n_counts = 0;

  EffectTree(const ForestView& forest, const Coding& coding, std::span<const int32_t> set_of, int32_t tree)
      : pattern(pattern_tree(forest, each_feature(forest.n_features), tree)) {
    std::vector<int32_t> entered(pattern.depth + 1), n_positions(pattern.depth + 2, 0);
    std::vector<size_t> open;  // splits of the path
    for (const PatternTree::Visit& from : pattern.visits) {
      while (open.size() > size_t(from.depth)) {
        visits[open.back()].next = int32_t(visits.size());
        open.pop_back();
      }
      CountVisit visit{};
      visit.depth = from.depth, visit.feature = -1, visit.category_set = -1, visit.is_left = from.is_left;
      if (from.depth > 0) {
        const int32_t before = n_positions[from.depth - 1];
        visit.entered = entered[from.depth - 1];
        visit.is_new = visit.entered == before;
        visit.n_positions = n_positions[from.depth] = before + visit.is_new;
      }
      most_positions = std::max(most_positions, visit.n_positions);
      if (forest.is_split(from.node)) {
        entered[from.depth] = from.position;
        visit.feature = forest.feature[from.node];
        visit.missing_left = forest.default_left[from.node];
        visit.threshold = coding.encoded[from.node];
        if (forest.is_categorical(from.node)) visit.category_set = set_of[from.node];
        open.push_back(visits.size());
      } else {
        visit.first_count = n_counts;
        n_counts += counts_of(visit.n_positions);
      }
      visits.push_back(visit);
    }
    for (const size_t split : open) visits[split].next = int32_t(visits.size());
  }
};

class EffectSums {
 public:
  EffectSums(const ForestView& forest, const InspectionKernels& kernels, const EffectTarget& target, int n_threads)
      : forest_(forest),
        kernels_(kernels),
        target_(target),
        coding_(forest),
        leaf_of_(forest.feature.size(), -1),
        workspaces_(n_threads) {
    std::vector<int32_t> set_of(forest.feature.size(), -1);
    int32_t n_leaves = 0;
    for (size_t node = 0; node < forest.feature.size(); ++node) {
      if (!forest.is_split(node)) leaf_of_[node] = n_leaves++;
      if (!forest.is_split(node) || !forest.is_categorical(node)) continue;
      set_of[node] = int32_t(sets_.size());
      sets_.push_back(category_set_of(forest, node));
    }
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree) trees_.emplace_back(forest, coding_, set_of, tree);
  }

  // weight: one a row, or null for 1. Sums have one order whatever the number of threads.
  void add(const RowSource& rows, const double* weight, const RowSource& grid, const RowSource& points,
           const Team& team) {
    constexpr int64_t kMostCounts = 1 << 23;
    for (int32_t first = 0, last; first < forest_.n_trees(); first = last) {
      int64_t n_counts = trees_[first].n_counts;
      for (last = first + 1; last < forest_.n_trees(); ++last) {
        if (n_counts + trees_[last].n_counts > kMostCounts) break;
        n_counts += trees_[last].n_counts;
      }
      count(rows, weight, first, last, team);
      add_grid(grid, first, last, team);
      add_points(points, first, last, team);
    }
    const int32_t n_outputs = forest_.n_outputs(), n_places = int32_t(target_.n_points.size());
    for (int32_t j = 0; j < n_places; ++j) {
      for (int32_t output = 0; output < n_outputs; ++output) add_up(main_of(j, output), 1, target_.n_points[j]);
      for (int32_t k = j + 1; k < n_places; ++k)
        if (const int32_t pair = target_.pair_place[j * n_places + k]; pair >= 0)
          for (int32_t output = 0; output < n_outputs; ++output)
            add_up(joint_of(pair, j, k, output), target_.n_points[j], target_.n_points[k]);
    }
  }

 private:
  struct Run {
    int32_t begin, end;
  };

  const ForestView& forest_;
  const InspectionKernels& kernels_;
  const EffectTarget& target_;
  Coding coding_;
  std::vector<int32_t> leaf_of_;  // [node]
  std::vector<CategorySet> sets_;
  std::vector<EffectTree> trees_;
  std::vector<std::vector<char>> workspaces_;  // [thread]
  std::vector<std::vector<double>> counts_;    // of the trees that are counted together

  void count(const RowSource& rows, const double* weight, int32_t first, int32_t last, const Team& team) {
    constexpr int64_t kTileRows = 1 << 15, kTileNumbers = 1 << 24, kEncoded = 512;
    const int64_t most_rows = std::clamp(kTileNumbers / std::max(forest_.n_features, 1), kEncoded, kTileRows);
    counts_.resize(last - first);
    for (int32_t tree = first; tree < last; ++tree) counts_[tree - first].assign(trees_[tree].n_counts, 0);
    std::vector<float> tile;
    for (int64_t row = 0; row < rows.n_rows; row += most_rows) {
      const int n_rows = int(std::min(most_rows, rows.n_rows - row));
      tile.resize(int64_t(forest_.n_features) * n_rows);
      share_out(team, (n_rows + kEncoded - 1) / kEncoded, [&](int64_t task, int32_t) {
        const int lane = int(task * kEncoded), n = std::min(int(kEncoded), n_rows - lane);
        encode_rows<float>(coding_.view(), rows, row + lane, n, n, n_rows, tile.data() + lane);
      });
      share_out(team, last - first, [&](int64_t number, int32_t thread) {
        const EffectTree& tree = trees_[first + number];
        CountTask task{tree.visits.data(),
                       int32_t(tree.visits.size()),
                       tree.pattern.depth,
                       tree.most_positions,
                       sets_.data(),
                       forest_.set_words.data(),
                       tile.data(),
                       n_rows,
                       n_rows,
                       weight ? weight + row : nullptr,
                       counts_[number].data(),
                       nullptr};
        std::vector<char>& workspace = workspaces_[thread];
        workspace.resize(std::max<size_t>(workspace.size(), kernels_.workspace(task) + 64));
        task.workspace = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
        kernels_.count(task);
      });
    }
  }

  // Calls leaf(counts, factor of an output's value, features, sets, rows, first row) with the rows' sets at each leaf.
  template <class Leaf>
  void walk(const RowSource& rows, int64_t together, int32_t first, int32_t last, const Team& team, const Leaf& leaf) {
    PatternRows patterns(forest_, coding_);
    for (int64_t row = 0; row < rows.n_rows; row += together) {
      patterns.encode(rows, row, std::min(together, rows.n_rows - row));
      for (int32_t tree = first; tree < last; ++tree) {
        if (has_ended(team, 0)) return;
        const double* counts = counts_[tree - first].data();
        patterns.walk(trees_[tree].pattern,
                      [&](int32_t, int32_t node, std::span<const int32_t> features, const uint64_t* sets) {
                        leaf(counts, tree, node, features, sets, patterns.n_rows(), row);
                        counts += counts_of(int64_t(features.size()));
                      });
      }
    }
  }

  // Calls add(output, value) for each output that the leaf adds to.
  template <class Add>
  void each_output(int32_t tree, int32_t node, const Add& add) const {
    const double* value = forest_.leaf_value.data() + int64_t(leaf_of_[node]) * forest_.width;
    const double weight = forest_.tree_weight[tree];
    if (forest_.width == 1) return add(forest_.tree_output[tree], weight * value[0]);
    for (int32_t output = 0; output < forest_.width; ++output) add(output, weight * value[output]);
  }

  // Calls pair(q, p, its place, whether q's place is the lower one, its count) for pairs that were asked for.
  template <class EachPair>
  void each_pair(std::span<const int32_t> features, const double* counts, const EachPair& each) const {
    const int32_t n_places = int32_t(target_.n_points.size());
    const double* joint = counts + 1 + features.size();
    for (size_t p = 0; p < features.size(); ++p)
      for (size_t q = 0; q < p; ++q, ++joint) {
        const int32_t a = target_.place[features[q]], b = target_.place[features[p]];
        if (a < 0 || b < 0) continue;
        const int32_t pair = target_.pair_place[std::min(a, b) * n_places + std::max(a, b)];
        if (pair >= 0) a < b ? each(q, p, pair, *joint) : each(p, q, pair, *joint);
      }
  }

  double* main_of(int32_t place, int32_t output) const {
    return target_.main + target_.first_main[place] + int64_t(output) * target_.n_points[place];
  }

  double* joint_of(int32_t pair, int32_t j, int32_t k, int32_t output) const {
    return target_.joint + target_.first_joint[pair] + int64_t(output) * target_.n_points[j] * target_.n_points[k];
  }

  // As differences, which are added up in the end: a box has four corners.
  void add_grid(const RowSource& grid, int32_t first, int32_t last, const Team& team) {
    std::vector<std::vector<Run>> runs;
    walk(grid, grid.n_rows, first, last, team,
         [&](const double* counts, int32_t tree, int32_t node, std::span<const int32_t> features, const uint64_t* sets,
             int64_t n, int64_t) {
           find_runs(features, sets, n, runs);
           each_output(tree, node, [&](int32_t output, double v) { target_.total[output] += v * counts[0]; });
           for (size_t p = 0; p < features.size(); ++p) {
             const int32_t j = target_.place[features[p]];
             if (j < 0) continue;
             each_output(tree, node, [&](int32_t output, double v) {
               const Run one[] = {{0, 1}}, all[] = {{0, target_.n_points[j]}};
               double* sums = main_of(j, output);
               add_box(sums, one, all, 1, target_.n_points[j], -v * counts[0]);
               add_box(sums, one, runs[p], 1, target_.n_points[j], v * (counts[0] + counts[1 + p]));
             });
           }
           each_pair(features, counts, [&](size_t p, size_t q, int32_t pair, double both) {
             const int32_t j = target_.place[features[p]], k = target_.place[features[q]];
             const int32_t n_j = target_.n_points[j], n_k = target_.n_points[k];
             const Run all_j[] = {{0, n_j}}, all_k[] = {{0, n_k}};
             const double none = counts[0], of_j = none + counts[1 + p], of_k = none + counts[1 + q];
             each_output(tree, node, [&](int32_t output, double v) {
               double* sums = joint_of(pair, j, k, output);
               add_box(sums, runs[p], runs[q], n_j, n_k, v * (of_j + of_k - none + both));
               add_box(sums, runs[p], all_k, n_j, n_k, -v * of_j);
               add_box(sums, all_j, runs[q], n_j, n_k, -v * of_k);
               add_box(sums, all_j, all_k, n_j, n_k, v * none);
             });
           });
         });
  }

  // Where points of each feature's grid meet the leaf's conditions.
  void find_runs(std::span<const int32_t> features, const uint64_t* sets, int64_t n,
                 std::vector<std::vector<Run>>& runs) const {
    runs.resize(std::max(runs.size(), features.size()));
    for (size_t p = 0; p < features.size(); ++p) {
      runs[p].clear();
      const int32_t place = target_.place[features[p]];
      if (place < 0) continue;
      const uint64_t* words = sets + int64_t(p / 64) * n;
      for (int32_t point = 0; point < target_.n_points[place]; ++point) {
        if (words[point] >> p % 64 & 1) continue;
        if (runs[p].empty() || runs[p].back().end != point) runs[p].push_back({point, point});
        runs[p].back().end = point + 1;
      }
    }
  }

  static void add_box(double* sums, std::span<const Run> rows, std::span<const Run> columns, int32_t n_rows,
                      int32_t n_columns, double value) {
    for (const Run& row : rows)
      for (const Run& column : columns)
        for (const auto& [at, sign] : {std::pair(row.begin, 1.0), std::pair(row.end, -1.0)}) {
          if (at == n_rows) continue;
          sums[int64_t(at) * n_columns + column.begin] += sign * value;
          if (column.end < n_columns) sums[int64_t(at) * n_columns + column.end] -= sign * value;
        }
  }

  static void add_up(double* sums, int32_t n_rows, int32_t n_columns) {
    for (int32_t row = 0; row < n_rows; ++row)
      for (int32_t column = 1; column < n_columns; ++column)
        sums[int64_t(row) * n_columns + column] += sums[int64_t(row) * n_columns + column - 1];
    for (int64_t at = n_columns; at < int64_t(n_rows) * n_columns; ++at) sums[at] += sums[at - n_columns];
  }

  void add_points(const RowSource& points, int32_t first, int32_t last, const Team& team) {
    if (points.n_rows == 0) return;
    int64_t together = points.n_rows;
    for (int32_t tree = first; tree < last; ++tree)
      together = std::min(together, PatternRows::rows_together({trees_[tree].pattern}, together));
    walk(points, together, first, last, team,
         [&](const double* counts, int32_t tree, int32_t node, std::span<const int32_t> features, const uint64_t* sets,
             int64_t n, int64_t row) {
           const auto missed = [&](size_t position, int64_t point) {
             return sets[int64_t(position / 64) * n + point] >> position % 64 & 1;
           };
           for (size_t p = 0; p < features.size(); ++p) {
             const int32_t j = target_.place[features[p]];
             if (j < 0) continue;
             each_output(tree, node, [&](int32_t output, double v) {
               double* sums = target_.row_main + (int64_t(j) * forest_.n_outputs() + output) * points.n_rows + row;
               const double met[2] = {v * counts[1 + p], -v * counts[0]};
               for (int64_t point = 0; point < n; ++point) sums[point] += met[missed(p, point)];
             });
           }
           each_pair(features, counts, [&](size_t p, size_t q, int32_t pair, double both) {
             each_output(tree, node, [&](int32_t output, double v) {
               double* sums = target_.row_joint + (int64_t(pair) * forest_.n_outputs() + output) * points.n_rows + row;
               // m_p m_q, m_p alone, m_q alone, neither.
               const double met[4] = {v * both, -v * counts[1 + p], -v * counts[1 + q], v * counts[0]};
               for (int64_t point = 0; point < n; ++point) sums[point] += met[missed(q, point) | missed(p, point) << 1];
             });
           });
         });
  }
};

}  // namespace glasswood
