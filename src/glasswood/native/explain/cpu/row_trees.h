// Lays a forest of constant leaves out for the walk of one row.
#pragma once
#include <map>

#include "common/forest_view.h"
#include "common/players.h"
#include "explain/cpu/quadrature.h"
#include "explain/cpu/row_blocks.h"
#include "explain/cpu/row_task.h"
#include "explain/leaves.h"

namespace glasswood {

template <class Real>
struct RowTrees {
  Coding coding;
  std::vector<RowNode<Real>> nodes;
  std::vector<RowTree> trees;  // those with splits
  std::vector<int32_t> slot_player;
  std::vector<Real> points, means;
  RowBlocks<Real> blocks;
  std::vector<CategorySet> sets;
  std::vector<uint32_t> words;
  std::vector<int32_t> first_tree;  // of groups whose sums are taken apart, so that threads share them out; and the end
  int32_t n_features, n_players, n_outputs, width, n_threads, most_slots = 0, most_depth = 0;

  RowTrees(const ForestView& forest, const Players& players, int32_t n_threads)
      : coding(forest),
        words(forest.set_words.begin(), forest.set_words.end()),
        n_features(forest.n_features),
        n_players(players.n),
        n_outputs(forest.n_outputs()),
        width(forest.width),
        n_threads(n_threads) {
    const std::vector<double> values = WeightedLeaves(forest, sizeof(Real) == sizeof(float)).values;
    std::vector<int32_t> slot_of(players.n, -1);
    int64_t leaf = 0;
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree) add(forest, players, tree, values, leaf, slot_of);
    group_trees();
  }

 private:
  static constexpr int64_t kGroupSplits = 1 << 15, kMostGroups = 16;

  static constexpr int32_t kDeepestBlocks = 500, kBlockFeatures = 1 << 16;

  std::map<std::pair<int32_t, int32_t>, int64_t> first_point_;  // of points, and of pairs of players in blocks
  std::vector<int64_t> n_splits_;                               // [tree]

  // The nodes of one tree.
  struct Nodes {
    std::vector<int32_t> n_splits, depth, record, slot;
    std::vector<uint32_t> below, path;
    std::vector<double> mean;  // [node][width]
  };

  void add(const ForestView& forest, const Players& players, int32_t tree, const std::vector<double>& values,
           int64_t& leaf, std::vector<int32_t>& slot_of) {
    const int64_t first = forest.tree_offsets[tree], n = forest.tree_offsets[tree + 1] - first;
    RowTree out{int32_t(nodes.size()), forest.tree_output[tree], int32_t(slot_player.size()), 0, 0, 0, 0};
    Nodes of{std::vector<int32_t>(n, 0),         std::vector<int32_t>(n, 0),  std::vector<int32_t>(n, 0),
             std::vector<int32_t>(n, 0),         std::vector<uint32_t>(n, 0), std::vector<uint32_t>(n, 0),
             std::vector<double>(n * width, 0.0)};
    int32_t depth = 0, most = 1;
    for (int64_t node = 0; node < n; ++node) {
      depth = std::max(depth, of.depth[node]);
      most = std::max(most, int32_t(std::popcount(of.path[node])));
      if (!forest.is_split(first + node)) {
        std::copy_n(values.begin() + leaf++ * width, width, of.mean.begin() + node * width);
        continue;
      }
      int32_t& slot = slot_of[players.of(forest.feature[first + node])];
      if (slot < 0) {
        slot = out.n_slots++;
        slot_player.push_back(players.of(forest.feature[first + node]));
      }
      of.slot[node] = slot;
      for (int64_t child = forest.left[first + node], end = child + 2; child < end; ++child)
        of.depth[child] = of.depth[node] + 1, of.path[child] = of.path[node] | bit_of_slot(slot);
    }
    for (int32_t slot = 0; slot < out.n_slots; ++slot) slot_of[slot_player[out.first_slot + slot]] = -1;
    if (n == 1) return;
    if (out.n_slots <= kBlockSlots && depth <= kDeepestBlocks && n_features <= kBlockFeatures)
      return add_blocks(forest, first, n, of, (most + 1) / 2, out);
    add_nodes(forest, first, n, of);
    n_splits_.push_back(n / 2);
    most_slots = std::max(most_slots, out.n_slots), most_depth = std::max(most_depth, depth);
    // More points than a path needs do no harm.
    place_points(((out.n_slots > kSharedBit ? std::min(depth, out.n_slots) : most) + 1) / 2, out);
    trees.push_back(out);
  }

  void add_blocks(const ForestView& forest, int64_t first, int64_t n, const Nodes& of, int32_t n_points, RowTree& out) {
    out.n_points = n_points, out.n_pairs = pairs_of(out.n_slots);
    out.first_point = block_points(n_points, out.n_pairs);
    BlockLayout<Real>({forest, first, of.slot, of.mean, coding.encoded, sets}, int32_t(n), blocks, out);
    n_splits_.push_back(n / 2);
    most_slots = std::max(most_slots, 2 * out.n_pairs);
    trees.push_back(out);
  }

  void add_nodes(const ForestView& forest, int64_t first, int64_t n, Nodes& of) {
    const auto left_of = [&](int64_t node) { return int64_t(forest.left[first + node]); };
    for (int64_t node = n - 1; node >= 0; --node) {
      if (!forest.is_split(first + node)) continue;
      of.n_splits[node] = 1, of.below[node] = bit_of_slot(of.slot[node]);
      for (int64_t child = left_of(node), end = child + 2; child < end; ++child) {
        const double ratio = cover_ratio(forest, first + node, first + child);
        of.n_splits[node] += of.n_splits[child], of.below[node] |= of.below[child];
        for (int32_t o = 0; o < width; ++o) of.mean[node * width + o] += ratio * of.mean[child * width + o];
      }
    }
    of.record[0] = int32_t(nodes.size());
    nodes.resize(nodes.size() + of.n_splits[0]);
    if (width > 1) means.resize(nodes.size() * 2 * width);
    for (int64_t node = 0; node < n; ++node) {
      if (!forest.is_split(first + node)) continue;
      const int64_t left = left_of(node);
      of.record[left] = of.record[node] + 1;
      of.record[left + 1] = of.record[left] + of.n_splits[left];
      fill(forest, first, node, of);
    }
  }

  void fill(const ForestView& forest, int64_t first, int64_t node, const Nodes& of) {
    RowNode<Real>& out = nodes[of.record[node]];
    out.threshold = coding.encoded[first + node];
    if (forest.is_categorical(first + node)) {
      out.set = int32_t(sets.size());
      sets.push_back(category_set_of(forest, first + node));
    }
    out.feature = forest.feature[first + node];
    out.slot_and_flags = uint32_t(of.slot[node]) << 2 | uint32_t(split_flags(forest, first + node));
    for (int side = 0; side < 2; ++side) {
      const int64_t child = forest.left[first + node] + side;
      out.below[side] = of.below[child];
      out.ratio[side] = Real(cover_ratio(forest, first + node, first + child));
      out.mean[side] = Real(of.mean[child * width]);
      for (int32_t o = 0; width > 1 && o < width; ++o)
        means[(int64_t(of.record[node]) * 2 + side) * width + o] = Real(of.mean[child * width + o]);
      if (side) out.right = of.record[child];
    }
  }

  // Makes groups of about as many splits each. The forest alone decides on them, and so on the order of sums.
  void group_trees() {
    const int64_t n_splits = std::accumulate(n_splits_.begin(), n_splits_.end(), int64_t(0));
    const int64_t n = std::clamp<int64_t>(n_splits / kGroupSplits, 1, kMostGroups);
    first_tree.assign(1, 0);
    int64_t before = 0;
    for (int32_t t = 0; t < int32_t(trees.size()); before += n_splits_[t++])
      if (before * n >= n_splits * int64_t(first_tree.size())) first_tree.push_back(t);
    first_tree.push_back(int32_t(trees.size()));
  }

  // Values of s at n points, then their weights.
  int64_t block_points(int32_t n, int32_t n_pairs) {
    const auto [found, is_new] = first_point_.try_emplace({n, n_pairs}, int64_t(points.size()));
    if (!is_new) return found->second;
    const std::vector<double> both = gauss_legendre(n);
    for (int32_t k = 0; k < n; ++k) points.push_back(Real(both[k] / (1 - both[k])));
    for (int32_t k = 0; k < n; ++k) points.push_back(Real(both[n + k] * std::pow(1 - both[k], 2 * n_pairs - 1)));
    return found->second;
  }

  void place_points(int32_t n, RowTree& tree) {
    tree.lanes = n > 8 ? 16 : n > 4 ? 8 : 4;
    tree.n_points = (n + tree.lanes - 1) / tree.lanes * tree.lanes;
    const auto [found, is_new] = first_point_.try_emplace({n, 0}, int64_t(points.size()));
    tree.first_point = found->second;
    if (!is_new) return;
    const std::vector<double> both = gauss_legendre(n);
    points.resize(points.size() + 2 * tree.n_points, Real(0));
    Real* to = points.data() + tree.first_point;
    std::fill_n(to, tree.n_points, Real(0.5));
    std::copy_n(both.begin(), n, to);
    std::copy_n(both.begin() + n, n, to + tree.n_points);
  }
};

}  // namespace glasswood
