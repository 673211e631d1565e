// Trees near the best one that a search has met, one for each set of splits. Splits of a feature are the same if their
// thresholds lie in the same twentieth of the rows: a search meets each tree with hundreds of thresholds beside its
// own.
#pragma once
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grow/data/tree.h"

namespace glasswood {

class MetTrees {
 public:
  explicit MetTrees(const GrowData& data) : data_(&data) {}

  // Takes trees whose fitness is at most `limit`; of the same splits the fittest.
  void add(const std::vector<GrowTree>& trees, double limit) {
    for (const GrowTree& tree : trees) {
      if (!(tree.fitness <= limit)) continue;
      const auto [at, is_new] = place_.try_emplace(splits_hash(tree), trees_.size());
      if (is_new)
        trees_.push_back(tree);
      else if (tree.fitness < trees_[at->second].fitness)
        trees_[at->second] = tree;
    }
    if (trees_.size() > kMost) keep(limit, kMost / 2);
  }

  // The fittest first, those as fit in the order in which they were met.
  std::vector<GrowTree> within(double limit) const {
    std::vector<GrowTree> found;
    for (const GrowTree& tree : trees_)
      if (tree.fitness <= limit) found.push_back(tree);
    std::stable_sort(found.begin(), found.end(),
                     [](const GrowTree& a, const GrowTree& b) { return a.fitness < b.fitness; });
    if (found.size() > kMost / 2) found.resize(kMost / 2);
    return found;
  }

 private:
  static constexpr size_t kMost = 512;
  static constexpr int64_t kParts = 20;

  // The order of the splits does not count: the same ones in another order divide most rows in the same way.
  uint64_t splits_hash(const GrowTree& tree) const {
    std::vector<std::pair<int32_t, int64_t>> splits;
    for (const GrowNode& node : tree.nodes) {
      if (node.is_leaf()) continue;
      const auto [feature, threshold, missing_left] = node.split;
      splits.emplace_back(feature, kParts * data_->starts[feature][threshold] / data_->n_rows);
    }
    std::sort(splits.begin(), splits.end());
    uint64_t h = 0x6d6574;
    for (const auto& [feature, part] : splits) h = mix64(mix64(h ^ uint64_t(feature)) ^ uint64_t(part));
    return h;
  }

  void keep(double limit, size_t most) {
    trees_ = within(limit);
    if (trees_.size() > most) trees_.resize(most);
    place_.clear();
    for (size_t i = 0; i < trees_.size(); ++i) place_[splits_hash(trees_[i])] = i;
  }

  const GrowData* data_;
  std::vector<GrowTree> trees_;
  std::unordered_map<uint64_t, size_t> place_;
};

}  // namespace glasswood
