// Leaves of a forest as the tests that rows meet or do not meet, for explanations against a background on a GPU
// (explain/cuda/explain_patterns.cu). Host code. Positions and their order are those of common/leaf_patterns.h.
#pragma once
#include <limits>

#include "common/leaf_patterns.h"
#include "explain/cuda/pattern_format.h"
#include "explain/cuda/tape.h"

namespace glasswood {

// Leaves in the order of the trees that they are of, in chunks of one output each, or of all where leaves are vectors.
struct PatternTape {
  std::vector<PatternLeaf> leaves;
  std::vector<PatternTest> tests;
  std::vector<int32_t> places;         // [position] of one leaf after the other: number of its player in the chunk
  std::vector<double> values;          // [leaf][width], times the tree's weight
  std::vector<int32_t> chunk_starts;   // [chunk + 1]: leaves
  std::vector<int64_t> player_starts;  // [chunk + 1]: players
  std::vector<int32_t> players;        // of one chunk after the other, rising
  std::vector<int32_t> outputs;        // [chunk]
  int32_t most_positions = 0, most_players = 0;
};

class PatternTapeWriter {
 public:
  // A chunk has at most so many leaves and, unless one leaf has more, so many players.
  PatternTapeWriter(const TapeForest& forest, const Players& players, int64_t most_leaves, int64_t most_players)
      : forest_(forest),
        players_(players),
        most_leaves_(most_leaves),
        most_players_(most_players),
        is_in_chunk_(players.n),
        test_of_(forest.column.empty() ? 0 : *std::max_element(forest.column.begin(), forest.column.end()) + 1, -1) {}

  PatternTape write() {
    std::vector<int32_t> trees(forest_.n_trees());
    std::iota(trees.begin(), trees.end(), 0);
    const auto by_output = [&](int32_t a, int32_t b) { return output_of(a) < output_of(b); };
    std::stable_sort(trees.begin(), trees.end(), by_output);
    tape_.chunk_starts.push_back(0), tape_.player_starts.push_back(0);
    for (const int32_t tree : trees) {
      if (output_of(tree) != output_) close_chunk();
      output_ = output_of(tree);
      write_tree(tree);
    }
    close_chunk();
    return std::move(tape_);
  }

 private:
  // An edge of the path to a node.
  struct Edge {
    int32_t split = 0, position = 0;
    bool is_left = false;
  };
  const TapeForest& forest_;
  const Players& players_;
  int64_t most_leaves_, most_players_;
  PatternTape tape_;
  std::vector<int32_t> in_chunk_;  // players, and whether each is there
  std::vector<bool> is_in_chunk_;
  std::vector<int32_t> test_of_;  // [column]: its test if the leaf's path has one, -1 between leaves
  int32_t output_ = 0;

  int32_t output_of(int32_t tree) const { return forest_.width > 1 ? 0 : forest_.tree_output[tree]; }

  void write_tree(int32_t tree) {
    const PatternTree shape = pattern_tree(forest_, players_, tree);
    std::vector<int64_t> leaf_of(forest_.tree_offsets[tree + 1] - forest_.tree_offsets[tree]);
    int64_t n_leaves = forest_.first_leaf(tree);
    for (size_t node = 0; node < leaf_of.size(); ++node)
      if (!forest_.is_split(forest_.tree_offsets[tree] + int64_t(node))) leaf_of[node] = n_leaves++;
    std::vector<Edge> path(shape.depth + 1);
    std::vector<int32_t> players(shape.depth + 1);
    for (const PatternTree::Visit& visit : shape.visits) {
      if (visit.depth > 0) path[visit.depth - 1].is_left = visit.is_left;
      if (visit.player >= 0) {
        path[visit.depth] = {visit.node, visit.position, false};
        players[visit.position] = visit.player;
      } else {
        const double* values =
            forest_.leaf_value.data() + leaf_of[visit.node - forest_.tree_offsets[tree]] * forest_.width;
        write_leaf({path.data(), size_t(visit.depth)}, {players.data(), size_t(visit.position)}, values,
                   forest_.tree_weight[tree]);
      }
    }
  }

  // Leaves that add nothing are left out: those of value 0, and of trees without splits.
  void write_leaf(std::span<const Edge> path, std::span<const int32_t> players, const double* values, double weight) {
    if (players.empty() || std::all_of(values, values + forest_.width, [](double value) { return value == 0; })) return;
    make_room(players);
    const int64_t first_test = int64_t(tape_.tests.size());
    write_tests(path);
    if (std::max(tape_.tests.size(), tape_.places.size() + players.size()) > std::numeric_limits<int32_t>::max())
      throw std::invalid_argument("the forest's leaves have more than 2,147,483,647 conditions; explain it on the CPU");
    tape_.leaves.push_back(
        {int32_t(first_test), int32_t(tape_.tests.size()), int32_t(tape_.places.size()), int32_t(players.size())});
    tape_.places.insert(tape_.places.end(), players.begin(), players.end());  // numbers come when the chunk is closed
    for (int32_t o = 0; o < forest_.width; ++o) tape_.values.push_back(values[o] * weight);
    for (const int32_t player : players) {
      if (!is_in_chunk_[player]) in_chunk_.push_back(player);
      is_in_chunk_[player] = true;
    }
    tape_.most_positions = std::max(tape_.most_positions, int32_t(players.size()));
  }

  // Tests on one column are one.
  void write_tests(std::span<const Edge> path) {
    constexpr int32_t kNoEnd = std::numeric_limits<int32_t>::max();
    const size_t first = tape_.tests.size();
    for (const Edge& edge : path) {
      const int32_t column = forest_.column[edge.split], rank = forest_.rank[edge.split];
      if (test_of_[column] < 0) {
        test_of_[column] = int32_t(tape_.tests.size() - first);
        tape_.tests.push_back({column, 0, unsigned(kNoEnd), edge.position});
      }
      PatternTest& test = tape_.tests[first + test_of_[column]];
      const int64_t end = std::min<int64_t>(int64_t(test.lower) + test.width, edge.is_left ? rank : kNoEnd);
      if (!edge.is_left) test.lower = std::max(test.lower, rank);
      test.width = unsigned(std::max<int64_t>(end - test.lower, 0));
    }
    for (size_t at = first; at < tape_.tests.size(); ++at) test_of_[tape_.tests[at].column] = -1;
  }

  int64_t n_in_chunk() const { return int64_t(tape_.leaves.size()) - tape_.chunk_starts.back(); }

  void make_room(std::span<const int32_t> players) {
    if (n_in_chunk() == 0) return;
    const int64_t n_new = std::count_if(players.begin(), players.end(), [&](int32_t p) { return !is_in_chunk_[p]; });
    if (n_in_chunk() >= most_leaves_ || int64_t(in_chunk_.size()) + n_new > most_players_) close_chunk();
  }

  void close_chunk() {
    if (n_in_chunk() == 0) return;
    std::vector<int32_t>& players = in_chunk_;
    std::sort(players.begin(), players.end());
    const int32_t first = tape_.leaves[tape_.chunk_starts.back()].first_place;
    for (size_t at = first; at < tape_.places.size(); ++at)
      tape_.places[at] = int32_t(std::lower_bound(players.begin(), players.end(), tape_.places[at]) - players.begin());
    tape_.players.insert(tape_.players.end(), players.begin(), players.end());
    tape_.chunk_starts.push_back(int32_t(tape_.leaves.size()));
    tape_.player_starts.push_back(int64_t(tape_.players.size()));
    tape_.outputs.push_back(output_);
    tape_.most_players = std::max(tape_.most_players, int32_t(players.size()));
    for (const int32_t player : players) is_in_chunk_[player] = false;
    players.clear();
  }
};

}  // namespace glasswood
