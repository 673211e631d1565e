// Structure of trees: renumbering and depths. Plain C++, no kernel.
#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace glasswood {

struct BreadthFirst {
  std::vector<int64_t> offsets;  // of the trees in the new order
  std::vector<int64_t> order;    // old index of each new node
  std::vector<int32_t> left;     // tree-local left child in the new order, 0 at leaves
};

[[noreturn]] inline void reject_tree(int64_t tree, const std::string& what) {
  throw std::invalid_argument("tree " + std::to_string(tree) + " " + what + "; the model is corrupt");
}

// Children are counted from their tree's first node; left < 0 marks a leaf. Nodes that the root does not reach are
// dropped. A child that is out of range or reached twice (a cycle, a shared child) is refused.
inline BreadthFirst breadth_first(std::span<const int64_t> offsets, std::span<const int32_t> left,
                                  std::span<const int32_t> right) {
  BreadthFirst result;
  const int64_t n_trees = int64_t(offsets.size()) - 1;
  result.offsets.assign(1, 0);
  result.order.reserve(left.size());
  result.left.reserve(left.size());
  std::vector<bool> seen;
  for (int64_t tree = 0; tree < n_trees; ++tree) {
    const int64_t first = offsets[tree], n_nodes = offsets[tree + 1] - first, begin = int64_t(result.order.size());
    if (n_nodes <= 0) reject_tree(tree, "has no nodes");
    seen.assign(n_nodes, false);
    seen[0] = true;
    result.order.push_back(first);
    for (int64_t next = begin; next < int64_t(result.order.size()); ++next) {
      const int64_t node = result.order[next];
      if (left[node] < 0) {
        result.left.push_back(0);
        continue;
      }
      result.left.push_back(int32_t(int64_t(result.order.size()) - begin));
      for (const int32_t child : {left[node], right[node]}) {
        if (child < 0 || child >= n_nodes)
          reject_tree(tree, "names child " + std::to_string(child) + " but has " + std::to_string(n_nodes) + " nodes");
        if (seen[child]) reject_tree(tree, "reaches node " + std::to_string(child) + " twice");
        seen[child] = true;
        result.order.push_back(first + child);
      }
    }
    result.offsets.push_back(int64_t(result.order.size()));
  }
  return result;
}

// Trees in breadth-first order with valid children (Forest.validate).
inline std::vector<int32_t> node_depth(std::span<const int64_t> offsets, std::span<const int32_t> left) {
  std::vector<int32_t> depth(left.size(), 0);
  for (size_t tree = 0; tree + 1 < offsets.size(); ++tree)
    for (int64_t node = offsets[tree]; node < offsets[tree + 1]; ++node)
      if (left[node] > 0)
        for (int side = 0; side < 2; ++side) depth[offsets[tree] + left[node] + side] = depth[node] + 1;
  return depth;
}

}  // namespace glasswood
