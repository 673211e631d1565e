// Rows pass all leaves of a forest: what a game makes of the distinct sets of conditions that rows do not meet.
//
// A game explains one leaf of weight 1 at a time, for one set after the other:
//   begin(tree)
//   open(leaf, path)                          how many numbers a set has; path: the players of its positions
//   play(set, numbers)                        fills them; whether any is not 0
//   add(numbers, at, totals)                  what the leaf adds to a row's totals
#pragma once
#include "common/leaf_patterns.h"
#include "common/threads/team.h"
#include "explain/patterns/set_table.h"

namespace glasswood {

inline int32_t set_size(const uint64_t* set, int32_t n_words) {
  int32_t size = 0;
  for (int32_t w = 0; w < n_words; ++w) size += std::popcount(set[w]);
  return size;
}

// A row at a leaf.
struct RowAtLeaf {
  int64_t row;
  const uint64_t* set;
  double weight, value;  // of the tree; of the leaf, times that
  int64_t output;
};

// Where explanations go, as in explain/cpu/task.h, of either type: a walk is compiled once for both.
struct PatternTarget {
  void* data;
  bool is_double;
  int64_t row_stride, feature_stride, second_stride, output_stride;

  void put(int64_t at, double value) const {
    if (is_double)
      static_cast<double*>(data)[at] = value;
    else
      static_cast<float*>(data)[at] = float(value);
  }
};

// Takes totals [entry][output] of a row to a result without a second axis.
inline auto vector_writer(const PatternTarget& out, int64_t n_outputs) {
  return [out, n_outputs](int64_t row, int64_t at, double value) {
    out.put(row * out.row_stride + at / n_outputs * out.feature_stride + at % n_outputs * out.output_stride, value);
  };
}

class LeafWalk {
 public:
  LeafWalk(ForestView forest, Players players)
      : forest_(std::move(forest)), players_(std::move(players)), coding_(forest_) {
    for (int32_t tree = 0; tree < forest_.n_trees(); ++tree) trees_.push_back(pattern_tree(forest_, players_, tree));
    leaf_of_.assign(forest_.feature.size(), -1);
    for (int32_t node = 0, leaf = 0; node < int32_t(leaf_of_.size()); ++node)
      if (!forest_.is_split(node)) leaf_of_[node] = leaf++;
  }

  const ForestView& forest() const { return forest_; }
  const Coding& coding() const { return coding_; }
  const std::vector<PatternTree>& trees() const { return trees_; }
  int32_t n_players() const { return players_.n; }
  int32_t n_outputs() const { return forest_.n_outputs(); }
  int32_t player_of(int32_t feature) const { return players_.of(feature); }
  int64_t leaf_of(int32_t node) const { return leaf_of_[node]; }

  // Explains blocks of rows: write(row, entry, value) takes the n_entries totals of a row, in units of 1 / `scale`.
  template <class Game, class Write>
  void explain(const RowSource& rows, int64_t n_entries, double scale, const Team& team, const Game& game,
               const Write& write) const {
    constexpr int64_t kTotals = 1 << 20;
    const int64_t size = std::max<int64_t>(1, n_entries);
    const int64_t most = std::min(PatternRows::rows_together(trees_, 256), std::max<int64_t>(1, kTotals / size));
    share_out(team, (rows.n_rows + most - 1) / most, [&](int64_t block, int32_t) {
      const int64_t first = block * most, n = std::min(most, rows.n_rows - first);
      std::vector<double> total(n * size, 0.0);
      PatternRows walked(forest_, coding_);
      walked.encode(rows, first, n);
      Game own = game;
      for (int32_t tree = 0; tree < int32_t(trees_.size()); ++tree)
        add_tree(tree, forest_.tree_weight[tree] / scale, first, walked, own, size, total.data());
      for (int64_t row = 0; row < n; ++row)
        for (int64_t at = 0; at < n_entries; ++at) write(first + row, at, total[row * size + at]);
    });
  }

 private:
  ForestView forest_;
  Players players_;
  Coding coding_;
  std::vector<PatternTree> trees_;
  std::vector<int32_t> leaf_of_;  // [node]

  // Rows that have the same set at a leaf are explained there once.
  template <class Game>
  void add_tree(int32_t tree, double weight, int64_t first_row, PatternRows& rows, Game& game, int64_t row_size,
                double* total) const {
    const int64_t n = rows.n_rows(), width = forest_.width;
    SetTable sets(trees_[tree].n_words);
    std::vector<int32_t> number(n);
    std::vector<double> numbers;
    std::vector<char> counts;
    game.begin(tree);
    rows.walk(trees_[tree], [&](int32_t leaf, int32_t node, std::span<const int32_t> path, const uint64_t* of_row) {
      const int64_t size = game.open(leaf, path);
      if (size == 0) return;
      sets.clear();
      for (int64_t row = 0; row < n; ++row) number[row] = sets.number_of(of_row + row, n);
      numbers.resize(sets.size() * size);
      counts.resize(sets.size());
      for (int32_t i = 0; i < sets.size(); ++i) counts[i] = game.play(sets[i], numbers.data() + i * size);
      const double* values = forest_.leaf_value.data() + leaf_of_[node] * width;
      for (int64_t row = 0; row < n; ++row)
        for (int64_t o = 0; counts[number[row]] && o < width; ++o)
          game.add(numbers.data() + number[row] * size,
                   RowAtLeaf{first_row + row, sets[number[row]], weight, values[o] * weight,
                             width > 1 ? o : forest_.tree_output[tree]},
                   total + row * row_size);
    });
  }
};

}  // namespace glasswood
