// Lays a tree's leaves out in blocks for the explanation of one row (explain/cpu/row_leaves.h). The highest subtrees of
// up to 16 leaves are parts; a block has parts of up to 16 leaves together, which need not be neighbours.
#pragma once
#include <array>

#include "common/forest_view.h"
#include "explain/cpu/row_task.h"
#include "explain/leaves.h"

namespace glasswood {

// All trees' blocks.
template <class Real>
struct RowBlocks {
  std::vector<UpperSplit> upper;
  std::vector<LeafBlock> blocks;
  std::vector<BlockPart> parts;
  std::vector<BlockSplit<Real>> splits;
  std::vector<Real> z, values;
  int32_t most_edges = 1;
};

// A tree as the layout finds it. Children lie behind their split.
struct BlockSource {
  const ForestView& forest;
  int64_t first;                      // node of the forest
  const std::vector<int32_t>& slot;   // [node]
  const std::vector<double>& value;   // [node][output], of leaves
  const std::vector<float>& encoded;  // [node of the forest]: thresholds
  std::vector<CategorySet>& sets;

  bool is_split(int64_t node) const { return forest.is_split(first + node); }
  int64_t left(int64_t node) const { return forest.left[first + node]; }
  double ratio(int64_t node, int side) const { return cover_ratio(forest, first + node, first + left(node) + side); }
};

template <class Real>
class BlockLayout {
 public:
  BlockLayout(const BlockSource& source, int32_t n_nodes, RowBlocks<Real>& to, RowTree& tree)
      : source_(source), to_(to), tree_(tree), n_slots_(2 * tree.n_pairs), n_leaves_(n_nodes, 1), edge_(n_nodes, 0) {
    tree.first_block = int64_t(to.blocks.size()), tree.first_upper = int64_t(to.upper.size());
    tree.first_part = int64_t(to.parts.size()), tree.first_split = int64_t(to.splits.size());
    tree.first_z = int64_t(to.z.size());
    for (int32_t node = n_nodes - 1; node >= 0; --node)
      if (source.is_split(node)) n_leaves_[node] = n_leaves_[source.left(node)] + n_leaves_[source.left(node) + 1];
    z_.assign(size_t(n_slots_), 1.0);
    for (int32_t node = 0; node < n_nodes; ++node) place(node);
    for (const Open& open : open_) close(open);
    tree.n_upper = int32_t(to.upper.size() - tree.first_upper);
    tree.n_blocks = int32_t(to.blocks.size() - tree.first_block);
    to.most_edges = std::max(to.most_edges, 1 + 2 * tree.n_upper);
  }

 private:
  struct Part {
    int32_t root, edge;
  };
  // A block that has room.
  struct Open {
    std::vector<Part> parts;
    int32_t n_leaves = 0;
  };
  static constexpr size_t kOpen = 16;

  const BlockSource& source_;
  RowBlocks<Real>& to_;
  RowTree& tree_;
  int32_t n_slots_;
  std::vector<int32_t> n_leaves_, edge_;  // [node]; edges of the nodes below upper splits
  std::vector<double> z_;                 // [edge][slot]
  std::vector<Open> open_;

  // Nodes within parts have edge 0, as has the root.
  void place(int32_t node) {
    if (node > 0 && edge_[node] == 0) return;
    if (n_leaves_[node] <= kBlockLeaves) return add_part({node, edge_[node]});
    const int32_t split = int32_t(to_.upper.size() - tree_.first_upper);
    to_.upper.push_back({});
    describe(node, to_.upper.back());
    to_.upper.back().edge = edge_[node];
    for (int side = 0; side < 2; ++side) {
      const int64_t above = int64_t(edge_[node]) * n_slots_, own = int64_t(z_.size());
      edge_[source_.left(node) + side] = 1 + 2 * split + side;
      z_.resize(own + n_slots_);
      std::copy_n(z_.begin() + above, n_slots_, z_.begin() + own);
      z_[own + source_.slot[node]] *= source_.ratio(node, side);
    }
  }

  // To the block that it leaves least room.
  void add_part(const Part& part) {
    const int32_t n = n_leaves_[part.root];
    size_t best = open_.size();
    for (size_t i = 0; i < open_.size(); ++i)
      if (open_[i].n_leaves + n <= kBlockLeaves && (best == open_.size() || open_[i].n_leaves > open_[best].n_leaves))
        best = i;
    if (best == open_.size()) open_.emplace_back();
    open_[best].parts.push_back(part);
    open_[best].n_leaves += n;
    if (open_[best].n_leaves < kBlockLeaves && open_.size() <= kOpen) return;
    if (open_[best].n_leaves < kBlockLeaves)
      best = std::max_element(open_.begin(), open_.end(),
                              [](const Open& a, const Open& b) { return a.n_leaves < b.n_leaves; }) -
             open_.begin();
    close(open_[best]);
    open_.erase(open_.begin() + best);
  }

  void close(const Open& open) {
    const size_t first_split = to_.splits.size(), width = size_t(source_.forest.width), first_value = to_.values.size();
    to_.values.resize(first_value + kBlockLeaves * width, Real(0));
    int32_t leaf = 0;
    for (const Part& part : open.parts) {
      const uint32_t all = (1u << n_leaves_[part.root]) - 1;
      to_.parts.push_back({part.edge, all << leaf});
      for (int32_t s = 0; s < n_slots_; ++s) to_.z.push_back(Real(z_[int64_t(part.edge) * n_slots_ + s]));
      add_below(part.root, leaf, to_.values.data() + first_value);
      leaf += n_leaves_[part.root];
    }
    to_.blocks.push_back({int16_t(open.parts.size()), int16_t(to_.splits.size() - first_split)});
  }

  // Up to 15 splits below one another.
  void add_below(int64_t node, int32_t leaf, Real* values) {
    const int32_t width = source_.forest.width;
    if (!source_.is_split(node)) {
      for (int32_t o = 0; o < width; ++o) values[o * kBlockLeaves + leaf] = Real(source_.value[node * width + o]);
      return;
    }
    const int64_t left = source_.left(node);
    const auto bits = [](int32_t n, int32_t from) { return uint16_t(((1u << n) - 1) << from); };
    BlockSplit<Real> split{};
    describe(node, split);
    split.leaves[0] = bits(n_leaves_[left], leaf);
    split.leaves[1] = bits(n_leaves_[left + 1], leaf + n_leaves_[left]);
    for (int side = 0; side < 2; ++side) split.ratio[side] = Real(source_.ratio(node, side));
    to_.splits.push_back(split);
    add_below(left, leaf, values);
    add_below(left + 1, leaf + n_leaves_[left], values);
  }

  template <class Split>
  void describe(int64_t node, Split& split) {
    split.threshold = source_.encoded[source_.first + node];
    if (source_.forest.is_categorical(source_.first + node)) {
      split.set = int32_t(source_.sets.size());
      source_.sets.push_back(category_set_of(source_.forest, source_.first + node));
    }
    split.feature = uint16_t(source_.forest.feature[source_.first + node]);
    split.slot = uint8_t(source_.slot[node]);
    split.flags = uint8_t(split_flags(source_.forest, source_.first + node));
  }
};

}  // namespace glasswood
