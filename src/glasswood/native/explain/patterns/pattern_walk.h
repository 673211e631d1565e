// Explanations against a background without tables: at each leaf, over the patterns of the background.
#pragma once
#include "explain/patterns/pattern_game.h"

namespace glasswood {

class PatternWalk {
 public:
  PatternWalk(ForestView forest, Players players, const RowSource& rows, std::span<const int64_t> weight, int64_t total,
              const Team& team)
      : walk_(std::move(forest), std::move(players)), total_(double(total)) {
    patterns_.resize(walk_.trees().size());
    share_out(team, int64_t(patterns_.size()), [&](int64_t tree, int32_t) {
      PatternCollector collector(walk_.forest(), walk_.coding(), walk_.trees()[tree]);
      collector.add(rows, weight);
      patterns_[tree] = collector.take();
    });
  }

  const LeafWalk& walk() const { return walk_; }
  int64_t n_bytes() const {
    int64_t result = 0;
    for (const TreePatterns& one : patterns_)
      result += 8 * int64_t(one.first.size() + one.sets.size() + one.count.size());
    return result;
  }

  // Writes values [row][player][output].
  void values(const RowSource& rows, const PatternTarget& out, const Team& team) const {
    const int64_t k = walk_.n_outputs();
    walk_.explain(rows, walk_.n_players() * k, total_, team, ValueGame{{*this}, {}}, vector_writer(out, k));
  }

  // Writes interactions [row][place][player][output]; places[p] is player p's among those asked for, or -1.
  void interactions(const RowSource& rows, std::span<const int32_t> places, int64_t n_places, const PatternTarget& out,
                    const Team& team) const {
    const int64_t n = walk_.n_players(), k = walk_.n_outputs();
    walk_.explain(rows, n_places * n * k, total_, team, PairGame{{*this}, {}, places},
                  [&](int64_t row, int64_t at, double value) {
                    const int64_t pair = at / k;
                    out.put(row * out.row_stride + pair / n * out.feature_stride + pair % n * out.second_stride +
                                at % k * out.output_stride,
                            value);
                  });
  }

  // Writes the index of each set [row][set][output].
  void indices(const RowSource& rows, const PlayerSets& sets, IndexKind kind, const PatternTarget& out,
               const Team& team) const {
    const int64_t k = walk_.n_outputs();
    const SetGame game{{*this}, {}, sets, kind, std::vector<int32_t>(sets.n_players(), -1), {}};
    walk_.explain(rows, sets.n_sets() * k, total_, team, game, vector_writer(out, k));
  }

 private:
  LeafWalk walk_;
  double total_;
  std::vector<TreePatterns> patterns_;

  // A game's place in the walk.
  struct AtLeaf {
    const PatternWalk& all;
    int32_t tree = 0;
    std::span<const int32_t> path = {};
    LeafPatterns patterns = {};

    void begin(int32_t now) { tree = now; }
    void arrive(int32_t leaf, std::span<const int32_t> players) {
      const TreePatterns& of_tree = all.patterns_[tree];
      const int64_t first = of_tree.first[leaf];
      const int32_t n_words = all.walk_.trees()[tree].n_words;
      path = players;
      patterns = {of_tree.sets.data() + first * n_words, of_tree.count.data() + first, of_tree.first[leaf + 1] - first,
                  n_words, int32_t(path.size())};
    }
  };

  struct ValueGame : AtLeaf {
    PatternGame game;

    int64_t open(int32_t leaf, std::span<const int32_t> players) {
      arrive(leaf, players);
      return int64_t(path.size());
    }
    bool play(const uint64_t* set, double* numbers) { return game.explain(patterns, set, numbers); }
    void add(const double* phi, const RowAtLeaf& at, double* to) const {
      for (size_t p = 0; p < path.size(); ++p) to[path[p] * all.walk_.n_outputs() + at.output] += phi[p] * at.value;
    }
  };

  struct PairGame : AtLeaf {
    PatternGame game;
    std::span<const int32_t> places;

    int64_t open(int32_t leaf, std::span<const int32_t> players) {
      arrive(leaf, players);
      return int64_t(path.size() * path.size());
    }
    bool play(const uint64_t* set, double* numbers) { return game.explain_pairs(patterns, set, numbers); }
    void add(const double* pairs, const RowAtLeaf& at, double* to) const {
      const int64_t n = all.walk_.n_players(), k = all.walk_.n_outputs();
      for (size_t p = 0; p < path.size(); ++p)
        for (size_t q = 0; places[path[p]] >= 0 && q < path.size(); ++q)
          to[(places[path[p]] * n + path[q]) * k + at.output] += pairs[p * path.size() + q] * at.value;
    }
  };

  struct SetGame : AtLeaf {
    PatternGame game;
    const PlayerSets& sets;
    IndexKind kind;
    std::vector<int32_t> position_of;
    std::vector<PlacedSet> wanted;

    int64_t open(int32_t leaf, std::span<const int32_t> players) {
      arrive(leaf, players);
      sets.find(players, position_of, wanted);
      return int64_t(wanted.size());
    }
    bool play(const uint64_t* set, double* numbers) { return game.explain_sets(patterns, set, wanted, kind, numbers); }
    void add(const double* index, const RowAtLeaf& at, double* to) const {
      for (size_t i = 0; i < wanted.size(); ++i)
        to[wanted[i].number * all.walk_.n_outputs() + at.output] += index[i] * at.value;
    }
  };
};

}  // namespace glasswood
