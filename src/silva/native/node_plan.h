// Builds the tables of nodes.h from a forest.
#pragma once
#include "forest.h"
#include "node_columns.h"

namespace silva {

struct NodePlan {
  Coding coding;
  NodeColumns columns;
  CodeType code_type;
  CodeArray column, threshold;
  std::vector<uint64_t> default_right;
  std::vector<NodeTree> trees;
  std::vector<uint8_t> children;
  std::vector<int32_t> exits, leaf_id, tree_output;
  std::vector<uint16_t> links;
  std::vector<double> value, base_score;
  std::vector<uint32_t> words;
  int32_t width, window_levels, reductions;

  // window_levels 0 lays the trees out for by_node. Without ranks, rows are compared as the floats of rows.h.
  NodePlan(const ForestView& forest, int32_t window_levels, int32_t reductions, bool ranks, bool has_bytes)
      : coding(forest),
        columns(forest, ranks),
        code_type(columns.code_type(ranks, has_bytes)),
        column(code_type),
        threshold(code_type),
        leaf_id(forest.leaf_id.begin(), forest.leaf_id.end()),
        tree_output(forest.tree_output.begin(), forest.tree_output.end()),
        value(forest.leaf_value.begin(), forest.leaf_value.end()),
        base_score(forest.base_score.begin(), forest.base_score.end()),
        words(forest.set_words.begin(), forest.set_words.end()),
        width(forest.width),
        window_levels(window_levels),
        reductions(reductions),
        forest_(forest) {
    const std::vector<int32_t> depth = node_depth(forest.tree_offsets, forest.left);
    for (int32_t tree = 0, leaf = 0; tree < forest.n_trees(); ++tree) {
      number_nodes(tree, leaf);
      const int32_t n_splits = int32_t(number_.size()) / 2, levels = depth[forest.tree_offsets[tree + 1] - 1];
      trees.push_back({0, 0, int32_t(default_right.size()), leaf, kind_of(n_splits, levels), 0, levels, kBlock});
      for (int32_t i = 0; i <= n_splits; ++i, ++leaf)
        for (int32_t j = 0; j < width; ++j) value[int64_t(leaf) * width + j] *= forest.tree_weight[tree];
      if (window_levels > 0)
        add_windows(trees.back());
      else
        add_tree(trees.back(), n_splits);
    }
    // Registers are loaded whole, also the last ones, and rows without a window look at the first.
    add_slots(kBlock);
    default_right.push_back(0);
    exits.resize(exits.size() + kBlock, 0);
  }

  NodeTables view() const {
    return {code_type,
            int32_t(columns.columns.size()),
            column.data(),
            threshold.data(),
            default_right.data(),
            trees.data(),
            children.data(),
            exits.data(),
            links.data(),
            value.data(),
            leaf_id.data(),
            tree_output.data(),
            base_score.data(),
            columns.columns.data(),
            columns.search32.data(),
            columns.search64.data(),
            columns.sets.data(),
            words.data(),
            int32_t(trees.size()),
            int32_t(base_score.size()),
            width,
            window_levels,
            reductions};
  }

 private:
  ForestView forest_;  // while the plan is built
  int64_t root_ = 0;   // of the tree at work
  std::vector<int32_t> number_;  // of the tree's splits, and of its leaves in the forest
  int64_t n_slots_ = 0;

  static PathKind kind_of(int32_t n_splits, int32_t levels) {
    if (levels <= (n_splits <= kBlock ? kBlockLevels : kMostLevels)) return PathKind::kHeap;
    return n_splits <= kBlock ? PathKind::kReduced : PathKind::kLinked;
  }

  bool is_split(int32_t node) const { return forest_.is_split(root_ + node); }
  int32_t child(int32_t node, int side) const { return forest_.left[root_ + node] + side; }

  void number_nodes(int32_t tree, int32_t leaf) {
    root_ = forest_.tree_offsets[tree];
    number_.assign(forest_.tree_offsets[tree + 1] - root_, 0);
    for (int32_t node = 0, split = 0; node < int32_t(number_.size()); ++node)
      number_[node] = is_split(node) ? split++ : leaf++;
  }

  int64_t add_slots(int64_t n) {
    n_slots_ += n;
    column.resize(n_slots_);
    threshold.resize(n_slots_);
    return n_slots_ - n;
  }

  // Writes a split to a slot, whose bit for missing values is `bit` of the word `block`.
  void put(int64_t slot, int32_t block, int32_t bit, int32_t node) {
    const int64_t at = root_ + node;
    column.put(slot, columns.of_node[at]);
    if (code_type != CodeType::kFloat)
      threshold.put(slot, columns.rank_code(forest_, at));
    else
      threshold.put(slot, forest_.is_categorical(at) ? 1.0f : coding.encoded[at]);
    if (!forest_.default_left[at]) default_right[block] |= uint64_t(1) << bit;
  }

  void add_tree(NodeTree& tree, int32_t n_splits) {
    const int32_t blocks = tree.kind == PathKind::kHeap ? (1 << tree.levels) / kBlock : (n_splits + kBlock - 1) / kBlock;
    tree.n_blocks = std::max(blocks, 1);
    tree.first_slot = add_slots(int64_t(tree.n_blocks) * kBlock);
    default_right.resize(default_right.size() + tree.n_blocks, 0);
    if (tree.kind == PathKind::kHeap) {
      tree.first_link = int64_t(exits.size());
      exits.resize(exits.size() + (int64_t(1) << tree.levels));
      const auto no_window = [](int32_t) { return 0; };
      fill_heap(0, tree.levels, tree.first_slot, tree.first_block, tree.first_link, no_window);
      return;
    }
    for (int32_t node = 0; node < int32_t(number_.size()); ++node)
      if (is_split(node)) {
        const int32_t split = number_[node];
        put(tree.first_slot + split, tree.first_block + split / kBlock, split % kBlock, node);
      }
    if (tree.kind == PathKind::kReduced)
      add_children(tree, n_splits);
    else
      add_links(tree);
  }

  void add_children(NodeTree& tree, int32_t n_splits) {
    tree.n_slots = n_splits <= 16 ? 16 : n_splits <= 32 ? 32 : 64;
    tree.first_link = int64_t(children.size());
    children.resize(children.size() + 2 * kBlock, kLeafCode);
    for (int32_t node = 0; node < int32_t(number_.size()); ++node)
      for (int side = 0; side < 2 && is_split(node); ++side)
        children[tree.first_link + side * kBlock + number_[node]] =
            uint8_t(below(tree, child(node, side), kLeafCode));
  }

  void add_links(NodeTree& tree) {
    tree.first_link = int64_t(links.size());
    for (int32_t node = 0; node < int32_t(number_.size()); ++node)
      for (int side = 0; side < 2 && is_split(node); ++side)
        links.push_back(uint16_t(below(tree, child(node, side), kBlock * kMostBlocks)));
  }

  // Splits by their number, leaves of the tree from `first_leaf_code` on.
  int32_t below(const NodeTree& tree, int32_t node, int32_t first_leaf_code) const {
    return is_split(node) ? number_[node] : first_leaf_code + number_[node] - tree.first_leaf;
  }

  // The next `levels` levels below a node as a heap. What would stand below a leaf decides nothing: all of its exits
  // are that leaf. window_of(node) names the window that a split below the last level begins.
  template <class WindowOf>
  void fill_heap(int32_t node, int32_t levels, int64_t first_slot, int32_t block, int64_t first_exit,
                 const WindowOf& window_of, int32_t at = 1) {
    const int32_t n_exits = 1 << levels;
    if (at >= n_exits) {
      exits[first_exit + at - n_exits] = is_split(node) ? window_of(node) : -1 - number_[node];
      return;
    }
    if (is_split(node)) put(first_slot + at, block + at / kBlock, at % kBlock, node);
    for (int side = 0; side < 2; ++side)
      fill_heap(is_split(node) ? child(node, side) : node, levels, first_slot, block, first_exit, window_of,
                2 * at + side);
  }

  void add_windows(const NodeTree& tree) {
    if (!is_split(0)) return;
    const int32_t n_exits = 1 << window_levels;
    std::vector<int32_t> waiting{0};
    const auto window_of = [&](int32_t node) {
      waiting.push_back(node);
      return tree.first_block + int32_t(waiting.size()) - 1;
    };
    for (size_t next = 0; next < waiting.size(); ++next) {
      const int64_t slot = add_slots(std::max(n_exits, kSmallestWindow)), first_exit = int64_t(exits.size());
      default_right.push_back(0);
      exits.resize(exits.size() + n_exits);
      fill_heap(waiting[next], window_levels, slot, int32_t(default_right.size()) - 1, first_exit, window_of);
    }
  }
};

}  // namespace silva
