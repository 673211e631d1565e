// Trees in parts, whose states are found one part at a time.
#pragma once
#include <vector>

#include "common/forest_view.h"

namespace glasswood {

// A tree, or of a large one the nodes below a root and the path to it, whose other children are leaves here. A state of
// few splits is found among the classes that these and the path tell apart, instead of those of the whole tree.
struct TreePart {
  std::vector<int32_t> nodes;  // of the tree; a split's children lie behind it, the left one first
  std::vector<int32_t> left;   // place of a split's left child among them; 0: none
  int32_t root = 0;            // place of the root; splits before it are its path
  int32_t n_path = 1;          // places of the path, its other children and the root

  bool is_own(int32_t place) const { return place == root || place >= n_path; }
};

class TreeParts {
 public:
  TreeParts(const ForestView& forest, int32_t tree) : forest_(forest), first_(forest.tree_offsets[tree]) {
    const int32_t n_nodes = int32_t(forest.tree_offsets[tree + 1] - first_);
    std::vector<int32_t> parent(n_nodes, -1), n_below(n_nodes, 1);
    for (int32_t node = 0; node < n_nodes; ++node)
      for (int side = 0; is_split(node) && side < 2; ++side) parent[left(node) + side] = node;
    for (int32_t node = n_nodes - 1; node > 0; --node) n_below[parent[node]] += n_below[node];
    const int32_t most = n_nodes > kLargeTree ? kPartNodes : n_nodes;
    for (int32_t node = 0; node < n_nodes; ++node)
      if (n_below[node] <= most && (node == 0 || n_below[parent[node]] > most)) add(node, parent);
  }

  std::vector<TreePart> take() { return std::move(parts_); }

 private:
  static constexpr int32_t kLargeTree = 2048, kPartNodes = 128;
  const ForestView& forest_;
  int64_t first_;
  std::vector<TreePart> parts_;

  bool is_split(int32_t node) const { return forest_.is_split(first_ + node); }
  int32_t left(int32_t node) const { return forest_.left[first_ + node]; }

  void add(int32_t root, const std::vector<int32_t>& parent) {
    TreePart part;
    std::vector<int32_t> path{root};
    while (parent[path.back()] >= 0) path.push_back(parent[path.back()]);
    part.nodes.push_back(path.back());
    for (size_t at = path.size() - 1; at > 0; --at) {
      part.left.resize(part.nodes.size(), 0);
      part.left[part.root] = int32_t(part.nodes.size());
      const int32_t child = left(path[at]);
      part.root = int32_t(part.nodes.size()) + path[at - 1] - child;
      part.nodes.insert(part.nodes.end(), {child, child + 1});
    }
    part.left.resize(part.nodes.size(), 0);
    part.n_path = int32_t(part.nodes.size());
    for (int32_t place = part.root; place < int32_t(part.nodes.size()); ++place) {
      const int32_t node = part.nodes[place];
      if (!is_split(node) || !part.is_own(place)) continue;
      part.left[place] = int32_t(part.nodes.size());
      part.nodes.insert(part.nodes.end(), {left(node), left(node) + 1});
      part.left.resize(part.nodes.size(), 0);
    }
    parts_.push_back(std::move(part));
  }
};

}  // namespace glasswood
