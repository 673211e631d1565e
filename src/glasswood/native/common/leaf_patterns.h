// Which conditions of each leaf of a forest rows do not meet, of any depth and any number of features: the walk that
// explains trees without tables against a background, and collects that background.
//
// A leaf's *positions* are the players of its path (features, or groups of them), in the order in which the path first
// splits for them. A row's *set* at the leaf is the bits of the positions whose conditions it does not meet, in words
// of 64.
#pragma once
#include "common/forest_view.h"
#include "common/players.h"

namespace glasswood {

// A tree in the order in which the walk visits its nodes.
struct PatternTree {
  struct Visit {
    int32_t node;  // of the forest
    int32_t depth;
    int32_t player;    // of its feature; -1: a leaf
    int32_t position;  // of the player on its path; of a leaf: how many players the path has
    bool is_left;      // side of its parent that it is on
  };
  std::vector<Visit> visits;
  int32_t depth = 0, n_words = 1;
};

inline PatternTree pattern_tree(const ForestView& forest, const Players& players, int32_t tree) {
  struct Waiting {
    int32_t node, depth;
    bool is_left;
  };
  const int64_t root = forest.tree_offsets[tree];
  PatternTree result;
  std::vector<int32_t> path, known;  // the player of each level, and its position
  std::vector<Waiting> waiting{{0, 0, false}};
  while (!waiting.empty()) {
    const auto [node, depth, is_left] = waiting.back();
    waiting.pop_back();
    path.resize(depth);
    known.resize(depth);
    const auto position_of = [&](int32_t player) {
      for (int32_t level = 0; level < depth; ++level)
        if (path[level] == player) return known[level];
      return -1;
    };
    int32_t n_known = 0;
    for (const int32_t position : known) n_known = std::max(n_known, position + 1);
    const bool is_split = forest.is_split(root + node);
    const int32_t player = is_split ? players.of(forest.feature[root + node]) : -1;
    int32_t position = n_known;
    if (is_split) {
      const int32_t found = position_of(player);
      if (found >= 0) position = found;
      path.push_back(player);
      known.push_back(position);
      waiting.push_back({forest.left[root + node] + 1, depth + 1, false});
      waiting.push_back({forest.left[root + node], depth + 1, true});
    }
    result.visits.push_back({int32_t(root + node), depth, player, position, is_left});
    result.depth = std::max(result.depth, depth);
    result.n_words = std::max(result.n_words, (n_known + 63) / 64);
  }
  return result;
}

// Rows of one block at each level of a tree: their sets and the sides that they take.
class PatternRows {
 public:
  PatternRows(const ForestView& forest, const Coding& coding) : forest_(forest), coding_(coding) {}

  // As many rows as memory holds for the deepest tree.
  static int64_t rows_together(const std::vector<PatternTree>& trees, int64_t most) {
    constexpr int64_t kBytes = 16 << 20;
    int64_t row_bytes = 1;
    for (const PatternTree& tree : trees)
      row_bytes = std::max(row_bytes, int64_t(tree.depth + 1) * (8 * tree.n_words + 1));
    return std::clamp<int64_t>(kBytes / row_bytes, 1, most);
  }

  void encode(const RowSource& rows, int64_t first_row, int64_t n_rows) {
    n_rows_ = n_rows;
    encoded_.resize(size_t(forest_.n_features) * n_rows);
    encode_rows<float>(coding_.view(), rows, first_row, int(n_rows), int(n_rows), int(n_rows), encoded_.data());
  }

  // Calls leaf(number in the order of the walk, node, players of its positions, sets [word][row]).
  template <class Leaf>
  void walk(const PatternTree& tree, const Leaf& leaf) {
    const int64_t level = int64_t(tree.n_words) * n_rows_;
    sets_.resize((tree.depth + 1) * level);
    goes_left_.resize((tree.depth + 1) * n_rows_);
    std::fill_n(sets_.begin(), level, 0);
    int32_t n_leaves = 0;
    // Callers may number positions by player: up to a bit of each word.
    std::vector<int32_t> position(tree.depth + 1), players(tree.depth + 1 + 64 * tree.n_words);
    for (const PatternTree::Visit& visit : tree.visits) {
      if (visit.depth > 0) take_edge(visit, position[visit.depth - 1], level);
      if (forest_.is_split(visit.node)) {
        position[visit.depth] = visit.position;
        players[visit.position] = visit.player;
        find_sides(visit.node, goes_left_.data() + visit.depth * n_rows_);
      } else {
        const std::span<const int32_t> path(players.data(), visit.position);
        leaf(n_leaves++, visit.node, path, sets_.data() + visit.depth * level);
      }
    }
  }

  int64_t n_rows() const { return n_rows_; }

 private:
  const ForestView& forest_;
  const Coding& coding_;
  int64_t n_rows_ = 0;
  std::vector<float> encoded_;      // [feature][row]
  std::vector<uint64_t> sets_;      // [depth][word][row]
  std::vector<uint8_t> goes_left_;  // [depth][row]

  void take_edge(const PatternTree::Visit& visit, int32_t position, int64_t level) {
    uint64_t* to = sets_.data() + visit.depth * level;
    std::copy_n(to - level, level, to);
    const uint8_t* left = goes_left_.data() + (visit.depth - 1) * n_rows_;
    uint64_t* word = to + position / 64 * n_rows_;
    for (int64_t row = 0; row < n_rows_; ++row) word[row] |= uint64_t(left[row] != visit.is_left) << position % 64;
  }

  void find_sides(int32_t node, uint8_t* left) const {
    const float* x = encoded_.data() + int64_t(forest_.feature[node]) * n_rows_;
    const bool missing_left = forest_.default_left[node];
    if (!forest_.is_categorical(node)) {
      const float t = coding_.encoded[node];
      for (int64_t row = 0; row < n_rows_; ++row) left[row] = x[row] != x[row] ? missing_left : !(x[row] >= t);
      return;
    }
    const CategorySet set = category_set_of(forest_, node);
    for (int64_t row = 0; row < n_rows_; ++row)
      left[row] = x[row] != x[row] ? missing_left : category_goes_left(set, forest_.set_words.data(), x[row]);
  }
};

}  // namespace glasswood
