// Values against a background without tables: at each leaf, over the patterns of the background.
//
// A leaf of value w, a row of the set Z and a pattern U of n rows out of m (sets of conditions that are not met), k of
// them: if Z and U share no position, the pair is the game "all of U known, none of Z", in which each position of U has
// (k - 1)! z! / (k + z)!, each of Z -k! (z - 1)! / (k + z)!, times w n / m. Otherwise nothing. Rows of a block that
// have the same set at a leaf are explained there once.
#pragma once
#include "explain/cpu/task.h"
#include "explain/patterns/background_patterns.h"

namespace silva {

// a! b! / (a + b + 1)! for a = 0, 1, ..., or b = 0, 1, ...: one table serves both.
class BetaRow {
 public:
  void set(int32_t a, int32_t most) {
    if (a == a_ && int32_t(beta_.size()) > most) return;
    a_ = a;
    beta_.assign(most + 1, 1.0 / (a + 1));
    for (int32_t b = 1; b <= most; ++b) beta_[b] = beta_[b - 1] * b / (a + b + 1);
  }
  double operator[](int32_t b) const { return beta_[b]; }

 private:
  int32_t a_ = -1;
  std::vector<double> beta_;
};

// Values or interactions of one leaf of weight 1 by position, in counts of background rows.
class PatternGame {
 public:
  // Patterns of one leaf.
  struct Patterns {
    const uint64_t* sets;
    const int64_t* count;
    int64_t n;
  };

  // Values [position]. Whether any pattern lets the row pass.
  bool explain(const Patterns& patterns, const uint64_t* set, int32_t n_words, int32_t n_positions, double* phi) {
    const int32_t z = set_size(set, n_words);
    with_.set(z, n_positions);
    if (z > 0) without_.set(z - 1, n_positions);
    std::fill_n(phi, n_positions, 0.0);
    double lost = 0;
    bool passes = false;
    for (int64_t i = 0; i < patterns.n; ++i) {
      const uint64_t* pattern = patterns.sets + i * n_words;
      if (shares_any(pattern, set, n_words)) continue;
      passes = true;
      const int32_t k = set_size(pattern, n_words);
      const double count = double(patterns.count[i]);
      if (z > 0) lost += count * without_[k];
      if (k == 0) continue;
      const double gained = count * with_[k - 1];
      each_of(pattern, n_words, [&](int32_t position) { phi[position] += gained; });
    }
    if (passes) each_of(set, n_words, [&](int32_t position) { phi[position] = -lost; });
    return passes;
  }

  // Halves of interactions [position][position], main effects on the diagonal.
  bool explain_pairs(const Patterns& patterns, const uint64_t* set, int32_t n_words, int32_t d, double* pairs) {
    std::vector<double> phi(d);
    const bool passes = explain(patterns, set, n_words, d, phi.data());
    std::fill_n(pairs, int64_t(d) * d, 0.0);
    const int32_t z = set_size(set, n_words);
    if (z > 1) both_without_.set(z - 2, d);
    for (int64_t i = 0; passes && i < patterns.n; ++i) {
      const uint64_t* pattern = patterns.sets + i * n_words;
      if (shares_any(pattern, set, n_words)) continue;
      const int32_t k = set_size(pattern, n_words);
      const double half = double(patterns.count[i]) / 2;
      each_of(pattern, n_words, [&](int32_t p) {
        if (k > 1) each_of(pattern, n_words, [&](int32_t q) { pairs[p * d + q] += half * with_[k - 2]; });
        each_of(set, n_words, [&](int32_t q) {
          pairs[p * d + q] -= half * without_[k - 1];
          pairs[q * d + p] -= half * without_[k - 1];
        });
      });
      each_of(set, n_words, [&](int32_t p) {
        if (z > 1) each_of(set, n_words, [&](int32_t q) { pairs[p * d + q] += half * both_without_[k]; });
      });
    }
    for (int32_t p = 0; p < d; ++p) {
      pairs[p * d + p] = phi[p];
      for (int32_t q = 0; q < d; ++q)
        if (q != p) pairs[p * d + p] -= pairs[p * d + q];
    }
    return passes;
  }

 private:
  BetaRow with_, without_, both_without_;  // [k] of z, z - 1 and z - 2 conditions that the row does not meet

  static bool shares_any(const uint64_t* a, const uint64_t* b, int32_t n_words) {
    uint64_t shared = 0;
    for (int32_t w = 0; w < n_words; ++w) shared |= a[w] & b[w];
    return shared != 0;
  }

  template <class Visit>
  static void each_of(const uint64_t* set, int32_t n_words, const Visit& visit) {
    for (int32_t w = 0; w < n_words; ++w)
      for (uint64_t rest = set[w]; rest; rest &= rest - 1) visit(64 * w + std::countr_zero(rest));
  }
};

class PatternWalk {
 public:
  PatternWalk(ForestView forest, const RowSource& rows, std::span<const int64_t> weight, int64_t total,
              const Team& team)
      : forest_(std::move(forest)), coding_(forest_), total_(double(total)) {
    for (int32_t tree = 0; tree < forest_.n_trees(); ++tree) trees_.push_back(pattern_tree(forest_, tree));
    leaf_of_.assign(forest_.feature.size(), -1);
    for (int32_t node = 0, leaf = 0; node < int32_t(leaf_of_.size()); ++node)
      if (!forest_.is_split(node)) leaf_of_[node] = leaf++;
    patterns_.resize(trees_.size());
    share_out(team, int64_t(trees_.size()), [&](int64_t tree, int32_t) {
      PatternCollector collector(forest_, coding_, trees_[tree]);
      collector.add(rows, weight);
      patterns_[tree] = collector.take();
    });
  }

  int32_t n_features() const { return forest_.n_features; }
  int32_t n_outputs() const { return forest_.n_outputs(); }
  int64_t n_bytes() const {
    int64_t result = 0;
    for (const TreePatterns& one : patterns_)
      result += 8 * int64_t(one.first.size() + one.sets.size() + one.count.size());
    return result;
  }

  // Writes values [row][feature][output].
  template <class Out>
  void values(const RowSource& rows, const ExplanationTarget<Out>& out, const Team& team) const {
    explain(
        rows, n_features(), team, [](PatternGame& game, const auto&... all) { return game.explain(all...); },
        [this](const double* phi, std::span<const int32_t> path, double value, int64_t output, double* to) {
          for (size_t p = 0; p < path.size(); ++p) to[path[p] * n_outputs() + output] += phi[p] * value;
        },
        [&](int64_t row, int64_t at, double value) {
          out.data[row * out.row_stride + at / n_outputs() * out.feature_stride +
                   at % n_outputs() * out.output_stride] = Out(value);
        },
        1);
  }

  // Writes interactions [row][place][feature][output]; places[f] is feature f's among those asked for, or -1.
  template <class Out>
  void interactions(const RowSource& rows, std::span<const int32_t> places, int64_t n_places,
                    const ExplanationTarget<Out>& out, const Team& team) const {
    const int64_t n = n_features(), k = n_outputs();
    explain(
        rows, n_places * n, team, [](PatternGame& game, const auto&... all) { return game.explain_pairs(all...); },
        [&](const double* pairs, std::span<const int32_t> path, double value, int64_t output, double* to) {
          for (size_t p = 0; p < path.size(); ++p)
            for (size_t q = 0; places[path[p]] >= 0 && q < path.size(); ++q)
              to[(places[path[p]] * n + path[q]) * k + output] += pairs[p * path.size() + q] * value;
        },
        [&](int64_t row, int64_t at, double value) {
          const int64_t pair = at / k;
          out.data[row * out.row_stride + pair / n * out.feature_stride + pair % n * out.second_stride +
                   at % k * out.output_stride] = Out(value);
        },
        2);
  }

 private:
  ForestView forest_;
  Coding coding_;
  double total_;
  std::vector<PatternTree> trees_;
  std::vector<int32_t> leaf_of_;  // [node]
  std::vector<TreePatterns> patterns_;

  // Explains blocks of rows: `play` fills what a leaf of weight 1 adds for a set, positions to the power `order` of
  // numbers, `add` takes it to a row's totals, `write` a total to the result.
  template <class Play, class Add, class Write>
  void explain(const RowSource& rows, int64_t n_entries, const Team& team, const Play& play, const Add& add,
               const Write& write, int order) const {
    constexpr int64_t kTotals = 1 << 20;
    const int64_t row_size = std::max<int64_t>(1, n_entries * n_outputs());
    const int64_t most = std::min(PatternRows::rows_together(trees_, 256), std::max<int64_t>(1, kTotals / row_size));
    share_out(team, (rows.n_rows + most - 1) / most, [&](int64_t block, int32_t) {
      const int64_t first = block * most, n = std::min(most, rows.n_rows - first);
      std::vector<double> total(n * row_size, 0.0);
      PatternRows walked(forest_, coding_);
      walked.encode(rows, first, n);
      for (int32_t tree = 0; tree < int32_t(trees_.size()); ++tree)
        add_tree(tree, walked, play, order,
                 [&](const double* numbers, auto path, double value, int64_t o, int64_t row) {
                   add(numbers, path, value, o, total.data() + row * row_size);
                 });
      for (int64_t row = 0; row < n; ++row)
        for (int64_t at = 0; at < n_entries * n_outputs(); ++at) write(first + row, at, total[row * row_size + at]);
    });
  }

  template <class Play, class Add>
  void add_tree(int32_t tree, PatternRows& rows, const Play& play, int order, const Add& add) const {
    const int32_t n_words = trees_[tree].n_words;
    const TreePatterns& all = patterns_[tree];
    const int64_t n = rows.n_rows(), width = forest_.width;
    const double share = forest_.tree_weight[tree] / total_;
    SetTable sets(n_words);
    PatternGame game;
    std::vector<int32_t> number(n);
    std::vector<double> numbers;
    std::vector<char> passes;
    rows.walk(trees_[tree], [&](int32_t leaf, int32_t node, std::span<const int32_t> path, const uint64_t* of_row) {
      const int64_t begin = all.first[leaf], d = int64_t(path.size()), size = order == 1 ? d : d * d;
      const PatternGame::Patterns patterns{all.sets.data() + begin * n_words, all.count.data() + begin,
                                           all.first[leaf + 1] - begin};
      sets.clear();
      for (int64_t row = 0; row < n; ++row) number[row] = sets.number_of(of_row + row, n);
      numbers.resize(sets.size() * size);
      passes.resize(sets.size());
      for (int32_t i = 0; i < sets.size(); ++i)
        passes[i] = play(game, patterns, sets[i], n_words, int32_t(d), numbers.data() + i * size);
      const double* values = forest_.leaf_value.data() + leaf_of_[node] * width;
      for (int64_t row = 0; row < n; ++row)
        for (int64_t o = 0; passes[number[row]] && o < width; ++o)
          add(numbers.data() + number[row] * size, path, values[o] * share, width > 1 ? o : forest_.tree_output[tree],
              row);
    });
  }
};

}  // namespace silva
