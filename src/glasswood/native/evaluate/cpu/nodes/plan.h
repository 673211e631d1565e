// Builds the tables of evaluate/cpu/nodes/tables.h from a forest.
#pragma once
#include <map>
#include <numeric>
#include <tuple>

#include "common/forest.h"
#include "evaluate/cpu/linear/plan.h"
#include "evaluate/cpu/nodes/columns.h"
#include "evaluate/cpu/nodes/tree_lanes_plan.h"

namespace glasswood {

struct NodePlan {
  Coding coding;
  CategoryClasses classes;
  NodeColumns columns;
  CodeType code_type;
  CodeArray column, threshold;
  std::vector<uint64_t> default_right;
  std::vector<int32_t> first_class_split;
  std::vector<ClassSplit> class_splits;
  std::vector<NodeTree> trees;
  std::vector<uint8_t> children;
  std::vector<int32_t> exits, leaf_id, leaf_place, tree_output;
  std::vector<uint16_t> links;
  std::vector<LaneSplit> lane_splits;
  std::vector<LaneLeaf> lane_leaves;
  std::vector<double> value, base_score;
  TreeLanePlan tree_lanes;
  LinearPlan linear;
  int32_t width, window_levels, reductions;

  // window_levels 0 lays the trees out for by_node. Without ranks, rows are compared as the floats of common/rows.h.
  // lanes: rows are taken in lanes also where one by one is faster.
  NodePlan(const ForestView& forest, int32_t window_levels, int32_t reductions, bool ranks, bool lanes,
           const NodeKernels& kernels)
      : coding(forest),
        classes(forest),
        columns(forest, classes, ranks),
        code_type(columns.code_type(ranks, kernels.has_bytes)),
        column(code_type),
        threshold(code_type),
        tree_output(forest.tree_output.begin(), forest.tree_output.end()),
        base_score(forest.base_score.begin(), forest.base_score.end()),
        linear(forest),
        width(forest.width),
        window_levels(window_levels),
        reductions(reductions),
        forest_(forest) {
    const std::vector<int32_t> depth = node_depth(forest.tree_offsets, forest.left);
    has_tree_lanes_ = has_trees_in_lanes(kernels, depth);
    has_linked_lanes_ = has_tree_lanes_ && deepest(depth) > kMostLevels;
    for (tree_ = 0; tree_ < forest.n_trees(); ++tree_) {
      number_nodes();
      const int32_t n_splits = int32_t(number_.size()) / 2, levels = depth[forest.tree_offsets[tree_ + 1] - 1];
      trees.push_back(
          {0, 0, int32_t(default_right.size()), int32_t(leaf_id.size()), kind_of(n_splits, levels), 0, levels, kBlock});
      if (window_levels > 0)
        add_windows(trees.back());
      else if (trees.back().kind == PathKind::kHeap)
        add_heap(trees.back());
      else
        add_splits(trees.back(), n_splits);
      most_nodes_ = std::max(most_nodes_, int32_t(number_.size()));
      if (window_levels == 0 && code_type != CodeType::kFloat) add_lanes(trees.back());
      if (has_tree_lanes_) add_tree_lanes(trees.back());
    }
    tree_lanes.end();
    // Registers are loaded whole, also the last ones, and rows without a window look at the first.
    add_positions(kBlock);
    classes.words.resize(classes.words.size() + 4 * kPageGroups);
    default_right.push_back(0);
    add_class_splits();
    if (!lanes && !lanes_pay(kernels)) lane_splits.clear(), lane_leaves.clear();
    exits.resize(exits.size() + kBlock, 0);
    forest_ = {};
  }

  NodeTables view() const {
    return {code_type,
            int32_t(columns.columns.size()),
            column.data(),
            threshold.data(),
            default_right.data(),
            first_class_split.empty() ? nullptr : first_class_split.data(),
            class_splits.data(),
            trees.data(),
            children.data(),
            exits.data(),
            links.data(),
            lane_splits.empty() ? nullptr : lane_splits.data(),
            lane_leaves.data(),
            value.data(),
            leaf_id.data(),
            leaf_place.data(),
            tree_output.data(),
            base_score.data(),
            columns.columns.data(),
            columns.search32.data(),
            columns.search64.data(),
            classes.words.data(),
            int32_t(trees.size()),
            int32_t(base_score.size()),
            width,
            window_levels,
            reductions,
            most_nodes_,
            tree_lanes.view()};
  }

 private:
  ForestView forest_;            // while the plan is built
  int32_t tree_ = 0;             // at work
  int64_t root_ = 0, leaf_ = 0;  // its first node and first leaf
  std::vector<int32_t> number_;  // of its splits, and of its leaves
  int64_t n_positions_ = 0;
  int32_t most_nodes_ = 0;
  bool has_tree_lanes_ = false, has_linked_lanes_ = false;
  std::map<std::tuple<int32_t, int32_t, int64_t>, uint64_t> found_;  // positions by block, column and first word

  PathKind kind_of(int32_t n_splits, int32_t levels) const {
    const bool is_heap = levels <= (n_splits <= kBlock && !has_tree_lanes_ ? kBlockLevels : kMostLevels);
    if (is_heap && !has_linked_lanes_) return PathKind::kHeap;
    return n_splits <= kBlock ? PathKind::kReduced : PathKind::kLinked;
  }

  bool is_split(int32_t node) const { return forest_.is_split(root_ + node); }
  int32_t child(int32_t node, int side) const { return forest_.left[root_ + node] + side; }

  void number_nodes() {
    leaf_ += (int64_t(number_.size()) + 1) / 2;
    root_ = forest_.tree_offsets[tree_];
    number_.assign(forest_.tree_offsets[tree_ + 1] - root_, 0);
    for (int32_t node = 0, split = 0, leaf = 0; node < int32_t(number_.size()); ++node)
      number_[node] = is_split(node) ? split++ : leaf++;
  }

  void add_leaf(int32_t number) {
    const int64_t leaf = leaf_ + number;
    leaf_id.push_back(forest_.leaf_id[leaf]);
    if (!linear.empty()) leaf_place.push_back(int32_t(leaf));
    for (int32_t i = 0; i < width; ++i)
      value.push_back(forest_.leaf_value[leaf * width + i] * forest_.tree_weight[tree_]);
  }
  void add_leaves() {
    for (int32_t leaf = 0; leaf <= int32_t(number_.size()) / 2; ++leaf) add_leaf(leaf);
  }

  int64_t add_positions(int64_t n) {
    n_positions_ += n;
    column.resize(n_positions_);
    threshold.resize(n_positions_);
    return n_positions_ - n;
  }

  // Writes a split to a position, whose bit for missing values is `bit` of the word `block`.
  void put(int64_t position, int32_t block, int32_t bit, int32_t node) {
    const int64_t at = root_ + node;
    column.put(position, columns.of_node[at]);
    if (code_type != CodeType::kFloat)
      threshold.put(position, columns.rank_code(forest_, at));
    else
      threshold.put(position, coding.encoded[at]);
    if (!forest_.default_left[at]) default_right[block] |= uint64_t(1) << bit;
    if (forest_.is_categorical(at)) found_[{block, columns.of_node[at], classes.first_word[at]}] |= uint64_t(1) << bit;
  }

  auto put_at(int64_t first_position, int32_t block) {
    return [this, first_position, block](int32_t at, int32_t node) {
      put(first_position + at, block + at / kBlock, at % kBlock, node);
    };
  }

  void add_class_splits() {
    if (found_.empty()) return;
    first_class_split.assign(default_right.size() + 1, 0);
    for (const auto& [where, positions] : found_) {
      const auto [block, column, first_word] = where;
      ++first_class_split[block + 1];
      class_splits.push_back({first_word, positions, column, columns.columns[column].n_classes > kPageClasses});
    }
    std::partial_sum(first_class_split.begin(), first_class_split.end(), first_class_split.begin());
    found_ = {};
  }

  void add_blocks(NodeTree& tree, int32_t n_positions) {
    tree.n_blocks = std::max((n_positions + kBlock - 1) / kBlock, 1);
    tree.first_position = add_positions(int64_t(tree.n_blocks) * kBlock);
    default_right.resize(default_right.size() + tree.n_blocks, 0);
  }

  // A leaf above the last level stands at all exits below it.
  void add_heap(NodeTree& tree) {
    add_blocks(tree, 1 << tree.levels);
    fill_heap(0, tree.levels, put_at(tree.first_position, tree.first_block),
              [&](int32_t, int32_t leaf) { add_leaf(number_[leaf]); });
  }

  void add_splits(NodeTree& tree, int32_t n_splits) {
    add_blocks(tree, n_splits);
    add_leaves();
    for (int32_t node = 0; node < int32_t(number_.size()); ++node)
      if (is_split(node)) {
        const int32_t split = number_[node];
        put(tree.first_position + split, tree.first_block + split / kBlock, split % kBlock, node);
      }
    if (tree.kind == PathKind::kReduced)
      add_children(tree, n_splits);
    else
      add_links(tree);
  }

  void add_children(NodeTree& tree, int32_t n_splits) {
    tree.n_positions = n_splits <= 16 ? 16 : n_splits <= 32 ? 32 : 64;
    tree.first_link = int64_t(children.size());
    children.resize(children.size() + 2 * kBlock, kLeafCode);
    for (int32_t node = 0; node < int32_t(number_.size()); ++node)
      for (int side = 0; side < 2 && is_split(node); ++side)
        children[tree.first_link + side * kBlock + number_[node]] = uint8_t(below(child(node, side), kLeafCode));
  }

  void add_links(NodeTree& tree) {
    tree.first_link = int64_t(links.size());
    for (int32_t node = 0; node < int32_t(number_.size()); ++node)
      for (int side = 0; side < 2 && is_split(node); ++side)
        links.push_back(uint16_t(below(child(node, side), kBlock * kMostBlocks)));
  }

  // Splits by their number, leaves from `first_leaf_code` on.
  int32_t below(int32_t node, int32_t first_leaf_code) const {
    return number_[node] + (is_split(node) ? 0 : first_leaf_code);
  }

  // The next `levels` levels below a node as a heap. What would stand below a leaf decides nothing: all of its exits
  // are that leaf. split(at, node) takes the splits, exit(i, node) what stands below the last level, from left to
  // right.
  template <class Split, class Exit>
  void fill_heap(int32_t node, int32_t levels, const Split& split, const Exit& exit, int32_t at = 1) {
    if (at >> levels) return exit(at - (1 << levels), node);
    if (is_split(node)) split(at, node);
    for (int side = 0; side < 2; ++side)
      fill_heap(is_split(node) ? child(node, side) : node, levels, split, exit, 2 * at + side);
  }

  static int32_t deepest(const std::vector<int32_t>& depth) {
    return depth.empty() ? 0 : *std::max_element(depth.begin(), depth.end());
  }
  int64_t largest() const {
    int64_t n_nodes = 0;
    for (int32_t tree = 0; tree < forest_.n_trees(); ++tree)
      n_nodes = std::max(n_nodes, int64_t(forest_.tree_offsets[tree + 1] - forest_.tree_offsets[tree]));
    return n_nodes / 2;
  }

  // Trees of few splits that are deeper than 8 levels are reduced faster than linked.
  bool has_trees_in_lanes(const NodeKernels& kernels, const std::vector<int32_t>& depth) const {
    constexpr size_t kMostColumns = 128;  // in two registers
    constexpr int64_t kMostBytes = std::numeric_limits<int32_t>::max();
    return kernels.has_bytes && code_type == CodeType::kByte && window_levels == 0 && classes.empty() &&
           linear.empty() && columns.columns.size() <= kMostColumns &&
           (deepest(depth) <= kMostLevels || largest() > kBlock) && int64_t(depth.size()) * kLinkBytes < kMostBytes;
  }

  void add_tree_lanes(const NodeTree& tree) {
    const auto at_split = [&](auto put) {
      return [&, put](int32_t at, int32_t node) {
        const int64_t split = root_ + node;
        put(at, columns.of_node[split], columns.rank_code(forest_, split), !forest_.default_left[split]);
      };
    };
    const auto put_upper = at_split([&](auto... split) { tree_lanes.put(split...); });
    if (!has_linked_lanes_) {
      tree_lanes.begin_tree(tree.levels, tree.first_leaf);
      return fill_heap(0, tree.levels, put_upper, [](int32_t, int32_t) {});
    }
    const auto put_in_block = at_split([&](auto... split) { tree_lanes.put_in_block(split...); });
    std::vector<int32_t> waiting;
    const auto put_exit = [&](int32_t exit, int32_t node) {
      tree_lanes.put_exit(exit, is_split(node) ? int32_t(waiting.size()) : number_[node], is_split(node));
      if (is_split(node)) waiting.push_back(node);
    };
    tree_lanes.begin_linked_tree(tree.first_leaf);
    fill_heap(0, kUpperLevels, put_upper, put_exit);
    for (size_t next = 0; next < waiting.size(); ++next) {
      tree_lanes.begin_block();
      fill_heap(waiting[next], kLowerLevels, put_in_block, put_exit);
    }
  }

  // Nanoseconds of a row, measured on a processor with AVX-512: splits for a vector of rows beside those of a tree for
  // a row, which take a dozen times as long where no registers hold the row.
  bool lanes_pay(const NodeKernels& kernels) const {
    constexpr double kTree = 1.6, kRegister = 0.6, kReduced = 2.8, kBlocks = 4, kFromMemory = 12;
    constexpr double kUpper = 1.1, kLower = 1.4;
    const double code_bytes = code_type == CodeType::kByte ? 1 : 2;
    double alone = 0;
    for (const NodeTree& tree : trees) {
      const double registers = tree.n_blocks * code_bytes;
      const int blocks = (tree.levels - kUpperLevels + kLowerLevels - 1) / kLowerLevels;
      alone += has_tree_lanes_                   ? kUpper + std::max(blocks, 0) * kLower
               : tree.kind == PathKind::kHeap    ? kTree + registers * kRegister
               : tree.kind == PathKind::kReduced ? kReduced
                                                 : kBlocks + registers;
    }
    if (!kernels.in_registers(view())) alone *= kFromMemory;
    return lane_cost(kernels) < alone + class_cost();
  }

 public:
  double lane_cost(const NodeKernels& kernels) const {
    constexpr double kTree = 0.6, kSmallTree = 0.3, kSplit = 1.35, kClassSplit = 2.2;
    const bool is_wide = kernels.vector_bytes == 64;
    const double kGroup = is_wide ? 0.04 : 0.6;
    const double code_bytes = code_type == CodeType::kByte ? 1 : 2;
    double splits = 0, leaves = 0;
    for (const NodeTree& tree : trees) leaves += is_wide && leaf_numbers(tree) <= kMostLookedUp ? kSmallTree : kTree;
    for (const LaneSplit& split : lane_splits)
      splits += split.n_groups ? kClassSplit + kGroup * split.n_groups : kSplit;
    return leaves + splits * code_bytes / kernels.vector_bytes;
  }
  // The cost of splits by categories for a single row: all of a tree's, or those of the windows on its way.
  double class_cost() const {
    constexpr double kSplit = 3;
    double share = 1;
    if (window_levels > 0) {
      share = 0;
      for (const NodeTree& tree : trees) share += (tree.levels + window_levels - 1) / window_levels;
      share /= double(default_right.size());
    }
    return share * kSplit * double(class_splits.size());
  }

 private:
  LaneSplit lane_split(int32_t node) const {
    const int64_t at = root_ + node;
    const int32_t column = columns.of_node[at];
    const int16_t left = int16_t(forest_.left[at]);
    if (!forest_.is_categorical(at))
      return {column, columns.rank_code(forest_, at), int16_t(node), left, !forest_.default_left[at], 0};
    const int32_t n_groups = CategoryClasses::n_groups(columns.columns[column].n_classes);
    return {column, int32_t(classes.first_word[at] / 4), int16_t(node), left, 0, int16_t(n_groups)};
  }

  void add_lanes(NodeTree& tree) {
    tree.first_lane = int64_t(lane_splits.size());
    tree.first_lane_leaf = int64_t(lane_leaves.size());
    tree.is_oblivious = tree.kind == PathKind::kHeap && tree.levels > 0 && is_oblivious(tree.levels);
    if (tree.is_oblivious) {
      for (int32_t level = 0; level < tree.levels; ++level) lane_splits.push_back(lane_split((1 << level) - 1));
    } else {
      std::vector<uint32_t> exit(number_.size(), 0);  // of a heap: the first of the leaf's; deep trees wrap it
      std::vector<int32_t> depth(number_.size(), 0);
      for (int32_t node = 0; node < int32_t(number_.size()); ++node) {
        for (int side = 0; side < 2 && is_split(node); ++side) {
          exit[child(node, side)] = 2 * exit[node] + side;
          depth[child(node, side)] = depth[node] + 1;
        }
        if (is_split(node))
          lane_splits.push_back(lane_split(node));
        else if (tree.kind == PathKind::kHeap)
          lane_leaves.push_back({int16_t(node), int16_t(exit[node] << (tree.levels - depth[node]))});
        else
          lane_leaves.push_back({int16_t(node), int16_t(number_[node])});
      }
    }
    tree.n_lane_splits = int32_t(int64_t(lane_splits.size()) - tree.first_lane);
  }

  // Breadth-first, a complete tree has its levels one after the other.
  bool is_oblivious(int32_t levels) const {
    if (int32_t(number_.size()) != (2 << levels) - 1) return false;
    for (int32_t level = 0; level < levels; ++level) {
      const LaneSplit first = lane_split((1 << level) - 1);
      for (int32_t node = (1 << level) - 1; node < (2 << level) - 1; ++node) {
        const LaneSplit split = lane_split(node);
        if (split.column != first.column || split.threshold != first.threshold ||
            split.default_right != first.default_right)
          return false;
      }
    }
    return true;
  }

  void add_windows(const NodeTree& tree) {
    add_leaves();
    if (!is_split(0)) return;
    const int32_t n_exits = 1 << window_levels;
    std::vector<int32_t> waiting{0};
    for (size_t next = 0; next < waiting.size(); ++next) {
      const int64_t position = add_positions(std::max(n_exits, kSmallestWindow)), first_exit = int64_t(exits.size());
      default_right.push_back(0);
      exits.resize(exits.size() + n_exits);
      fill_heap(waiting[next], window_levels, put_at(position, int32_t(default_right.size()) - 1),
                [&](int32_t i, int32_t node) {
                  exits[first_exit + i] = is_split(node) ? tree.first_block + int32_t(waiting.size())
                                                         : -1 - tree.first_leaf - number_[node];
                  if (is_split(node)) waiting.push_back(node);
                });
    }
  }
};

}  // namespace glasswood
