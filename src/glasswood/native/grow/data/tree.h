// One individual: a binary tree in preorder with a set of linear features in every leaf.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "grow/data/dataset.h"
#include "grow/data/random.h"

namespace glasswood {

// A row goes left if its rank is below the threshold, or to the named side if its value is missing.
struct GrowSplit {
  int32_t feature = -1;
  int32_t threshold = 0;
  bool missing_left = false;

  bool left(int32_t rank) const { return rank < 0 ? missing_left : rank < threshold; }
  bool operator==(const GrowSplit&) const = default;
};

// Linear features of a leaf, one bit each; the first 64 without a heap block.
class FeatureSet {
 public:
  FeatureSet() = default;
  explicit FeatureSet(int n_features) : more_(n_features > 64 ? (n_features - 1) / 64 : 0, 0) {}

  bool has(int a) const { return word(a / 64) >> (a % 64) & 1; }
  void set(int a, bool present) {
    uint64_t& bits = a < 64 ? first_ : more_[a / 64 - 1];
    const uint64_t bit = uint64_t(1) << (a % 64);
    bits = present ? bits | bit : bits & ~bit;
  }
  int capacity() const { return int(more_.size() + 1) * 64; }
  int count() const {
    int total = 0;
    for (size_t i = 0; i <= more_.size(); ++i) total += __builtin_popcountll(word(i));
    return total;
  }
  void add(const FeatureSet& other) {
    first_ |= other.first_;
    if (more_.size() < other.more_.size()) more_.resize(other.more_.size(), 0);
    for (size_t i = 0; i < other.more_.size(); ++i) more_[i] |= other.more_[i];
  }
  uint64_t hash() const {
    uint64_t h = 0x51ed270b;
    for (size_t i = 0; i <= more_.size(); ++i) h = mix64(h ^ word(i)) + 0x9e3779b97f4a7c15ull;
    return h;
  }
  bool operator==(const FeatureSet&) const = default;

 private:
  uint64_t word(size_t i) const { return i == 0 ? first_ : more_[i - 1]; }

  uint64_t first_ = 0;
  std::vector<uint64_t> more_;
};

struct GrowNode {
  GrowSplit split;  // feature -1: a leaf
  int32_t left = -1, right = -1;
  FeatureSet model;    // of a leaf
  int64_t n_rows = 0;  // set by evaluation, as is the error of a leaf
  double error = 0;

  bool is_leaf() const { return split.feature < 0; }
};

// The node whose threshold alone differs from an evaluated tree's: evaluation then reads the rows between.
struct ShiftHint {
  int32_t node = -1;
  GrowSplit before;
};

struct GrowTree {
  std::vector<GrowNode> nodes;
  double error = 0;
  double fitness = std::numeric_limits<double>::infinity();
  ShiftHint hint;

  int n_leaves() const { return int(nodes.size() + 1) / 2; }
  const GrowNode& operator[](int v) const { return nodes[v]; }
};

inline int subtree_end(const GrowTree& tree, int v) {
  while (!tree[v].is_leaf()) v = tree[v].right;
  return v + 1;
}

inline FeatureSet models_below(const GrowTree& tree, int v) {
  FeatureSet all;
  const int end = subtree_end(tree, v);
  for (int u = v; u < end; ++u) {
    if (tree[u].is_leaf()) all.add(tree[u].model);
  }
  return all;
}

inline int push_leaf(GrowTree& out, const FeatureSet& model) {
  GrowNode leaf;
  leaf.model = model;
  out.nodes.push_back(std::move(leaf));
  return int(out.nodes.size()) - 1;
}

// Appends a split; the caller appends its left and right subtree by the two functions, which return their roots.
template <class Left, class Right>
int push_split(GrowTree& out, const GrowSplit& split, Left left, Right right) {
  const int v = int(out.nodes.size());
  out.nodes.emplace_back();
  out.nodes[v].split = split;
  const int l = left();
  const int r = right();
  out.nodes[v].left = l;
  out.nodes[v].right = r;
  return v;
}

inline int push_subtree(GrowTree& out, const GrowTree& from, int v) {
  const int end = subtree_end(from, v), shift = int(out.nodes.size()) - v;
  for (int u = v; u < end; ++u) {
    out.nodes.push_back(from[u]);
    if (from[u].is_leaf()) continue;
    out.nodes.back().left += shift;
    out.nodes.back().right += shift;
  }
  return v + shift;
}

// A copy of the tree in which `push(out)` stands in for the subtree at `at`.
template <class Push>
GrowTree replaced(const GrowTree& tree, int at, Push push) {
  GrowTree out;
  out.nodes.reserve(tree.nodes.size() + 8);
  const auto copy = [&](auto&& self, int v) -> int {
    if (v == at) return push(out);
    if (at < v || at >= subtree_end(tree, v)) return push_subtree(out, tree, v);
    return push_split(
        out, tree[v].split, [&] { return self(self, tree[v].left); }, [&] { return self(self, tree[v].right); });
  };
  copy(copy, 0);
  return out;
}

inline GrowTree with_leaf(const GrowTree& tree, int at, const FeatureSet& model) {
  return replaced(tree, at, [&](GrowTree& out) { return push_leaf(out, model); });
}

inline GrowTree with_subtree(const GrowTree& tree, int at, const GrowTree& from, int v) {
  return replaced(tree, at, [&](GrowTree& out) { return push_subtree(out, from, v); });
}

inline GrowTree with_split(const GrowTree& tree, int at, const GrowSplit& split, const FeatureSet& left,
                           const FeatureSet& right) {
  return replaced(tree, at, [&](GrowTree& out) {
    return push_split(out, split, [&] { return push_leaf(out, left); }, [&] { return push_leaf(out, right); });
  });
}

inline std::vector<int> node_depths(const GrowTree& tree) {
  std::vector<int> depths(tree.nodes.size(), 0);
  for (size_t v = 0; v < tree.nodes.size(); ++v)
    if (!tree[v].is_leaf()) depths[tree[v].left] = depths[tree[v].right] = depths[v] + 1;
  return depths;
}

inline std::vector<int> nodes_of_kind(const GrowTree& tree, bool leaves) {
  std::vector<int> found;
  for (int v = 0; v < int(tree.nodes.size()); ++v)
    if (tree[v].is_leaf() == leaves) found.push_back(v);
  return found;
}

}  // namespace glasswood
