// Values against a background where leaves hold linear models. Model trees are few and shallow: patterns serve them
// all.
#pragma once
#include <numeric>

#include "explain/patterns/linear_game.h"

namespace glasswood {

class LinearPatternWalk {
 public:
  // Sums depend on the order of the background rows, which must outlive the walk.
  LinearPatternWalk(ForestView forest, Players players, const RowSource& background, std::span<const int64_t> weight,
                    int64_t total, const Team& team)
      : walk_(std::move(forest), std::move(players)),
        background_(background),
        weight_(weight.begin(), weight.end()),
        total_(double(total)),
        leaves_(walk_.trees().size()) {
    share_out(team, int64_t(leaves_.size()), [&](int64_t tree, int32_t) { collect(int32_t(tree)); });
    for (const auto& tree : leaves_)
      for (const LinearPatternLeaf& leaf : tree) most_ = std::max(most_, int32_t(leaf.players.size()));
  }

  const LeafWalk& walk() const { return walk_; }
  int64_t n_bytes() const {
    int64_t result = 0;
    for (const auto& tree : leaves_)
      for (const LinearPatternLeaf& leaf : tree)
        result +=
            int64_t(8 * (leaf.sets.size() + 3 * leaf.of_model.size() * leaf.patterns.size()) + 4 * leaf.rows.size());
    return result;
  }

  // Writes values [row][player][output].
  void values(const RowSource& rows, const PatternTarget& out, const Team& team) const {
    const BetaTable beta(most_ + 1);
    const int64_t k = walk_.n_outputs();
    const ValueGame game{*this, rows, LinearGame(background_, weight_, beta)};
    walk_.explain(rows, walk_.n_players() * k, total_, team, game, vector_writer(out, k));
  }

 private:
  LeafWalk walk_;
  RowSource background_;
  std::vector<int64_t> weight_;
  double total_;
  std::vector<std::vector<LinearPatternLeaf>> leaves_;  // [tree][leaf in the order of the walk]
  int32_t most_ = 0;                                    // players of a leaf

  struct ValueGame {
    const LinearPatternWalk& all;
    const RowSource& rows;
    LinearGame game;
    int32_t tree = 0;
    const LinearPatternLeaf* leaf = nullptr;
    LinearRow row = {};
    std::vector<double> phi = {};

    void begin(int32_t now) { tree = now; }
    int64_t open(int32_t number, std::span<const int32_t>) {
      leaf = &all.leaves_[tree][number];
      return int64_t(leaf->players.size() * (leaf->of_model.size() + 1));
    }
    bool play(const uint64_t* set, double* numbers) { return game.explain_set(*leaf, set, numbers); }
    void add(const double* numbers, const RowAtLeaf& at, double* to) {
      const size_t n = leaf->players.size();
      leaf->attribute(rows, at.row, row);
      phi.assign(numbers, numbers + n);
      if (LinearGame::clips(*leaf, row)) {
        game.explain_pairs(*leaf, at.set, row, phi.data());
      } else {
        for (size_t e = 0; e < row.a.size(); ++e)
          for (size_t i = 0; i < n; ++i) phi[i] += row.a[e] * numbers[(e + 1) * n + i];
      }
      for (size_t i = 0; i < n; ++i) to[leaf->players[i] * all.walk_.n_outputs() + at.output] += phi[i] * at.weight;
    }
  };

  // The leaves of a tree and their patterns.
  void collect(int32_t tree) {
    constexpr int64_t kRows = 2048;
    const PatternTree& visits = walk_.trees()[tree];
    std::vector<SetTable> tables((visits.visits.size() + 1) / 2, SetTable(visits.n_words));
    std::vector<std::vector<int32_t>> numbers(tables.size());  // [leaf][background row]: its pattern
    leaves_[tree].resize(tables.size());
    PatternRows block(walk_.forest(), walk_.coding());
    const int64_t most = PatternRows::rows_together({visits}, kRows);
    for (int64_t first = 0; first < background_.n_rows; first += most) {
      const int64_t n = std::min(most, background_.n_rows - first);
      block.encode(background_, first, n);
      block.walk(visits, [&](int32_t number, int32_t node, std::span<const int32_t> path, const uint64_t* sets) {
        if (first == 0) lay_out(visits.n_words, node, path, leaves_[tree][number]);
        for (int64_t row = 0; row < n; ++row) numbers[number].push_back(tables[number].number_of(sets + row, n));
      });
    }
    for (size_t leaf = 0; leaf < tables.size(); ++leaf) fill(tables[leaf], numbers[leaf], leaves_[tree][leaf]);
  }

  void lay_out(int32_t n_words, int32_t node, std::span<const int32_t> path, LinearPatternLeaf& leaf) const {
    const ForestView& forest = walk_.forest();
    const int64_t number = walk_.leaf_of(node);
    leaf.value = forest.leaf_value[number];
    leaf.low = forest.leaf_range[2 * number], leaf.high = forest.leaf_range[2 * number + 1];
    leaf.missing = forest.leaf_missing.empty() ? kNoValue : forest.leaf_missing[number];
    leaf.n_positions = int32_t(path.size()), leaf.n_words = n_words;
    leaf.players.assign(path.begin(), path.end());
    for (int64_t at = forest.linear_offsets[number]; at < forest.linear_offsets[number + 1]; ++at)
      leaf.terms.push_back({player_of_model(walk_.player_of(forest.linear_feature[at]), leaf),
                            forest.linear_feature[at], forest.linear_category[at], forest.linear_coefficient[at],
                            forest.linear_mean[at]});
  }

  // A player's number among those of the model.
  static int32_t player_of_model(int32_t player, LinearPatternLeaf& leaf) {
    auto place = std::find(leaf.players.begin(), leaf.players.end(), player);
    if (place == leaf.players.end()) place = leaf.players.insert(place, player);
    const int32_t at = int32_t(place - leaf.players.begin());
    auto known = std::find(leaf.of_model.begin(), leaf.of_model.end(), at);
    if (known == leaf.of_model.end()) known = leaf.of_model.insert(known, at);
    return int32_t(known - leaf.of_model.begin());
  }

  void fill(const SetTable& table, const std::vector<int32_t>& pattern_of, LinearPatternLeaf& leaf) const {
    for (int32_t i = 0; i < table.size(); ++i) leaf.sets.insert(leaf.sets.end(), table[i], table[i] + leaf.n_words);
    leaf.patterns.resize(table.size());
    LinearRow row;
    std::vector<double> size;
    for (int64_t at = 0; at < background_.n_rows; ++at) {
      leaf.attribute(background_, at, row);
      leaf.patterns[pattern_of[at]].add(double(weight_[at]), row);
      leaf.all.add(double(weight_[at]), row);
      double sum = row.lacks_any ? std::numeric_limits<double>::infinity() : 0;
      for (const double one : row.a) sum += std::abs(one);
      size.push_back(sum);
    }
    if (leaf.may_clip()) add_blocks(pattern_of, size, leaf);
  }

  // Rows by pattern and by how far they are from the means: the last blocks of a pattern have those that clip or lack
  // a number.
  void add_blocks(const std::vector<int32_t>& pattern_of, const std::vector<double>& size,
                  LinearPatternLeaf& leaf) const {
    constexpr int64_t kRows = 64;
    leaf.rows.resize(pattern_of.size());
    std::iota(leaf.rows.begin(), leaf.rows.end(), 0);
    std::stable_sort(leaf.rows.begin(), leaf.rows.end(), [&](int32_t a, int32_t b) {
      return pattern_of[a] != pattern_of[b] ? pattern_of[a] < pattern_of[b] : size[a] < size[b];
    });
    leaf.blocks.resize(leaf.patterns.size());
    LinearRow row;
    for (int64_t at = 0; at < int64_t(leaf.rows.size()); ++at) {
      std::vector<LinearBlock>& blocks = leaf.blocks[pattern_of[leaf.rows[at]]];
      leaf.attribute(background_, leaf.rows[at], row);
      const bool is_new = blocks.empty() || at - blocks.back().first == kRows;
      if (is_new || blocks.back().all.lack_any != row.lacks_any) blocks.push_back({at, at, {}});
      blocks.back().all.add(double(weight_[leaf.rows[at]]), row);
      blocks.back().end = at + 1;
    }
  }
};

}  // namespace glasswood
