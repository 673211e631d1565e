// The patterns of a background at the leaves of a forest: which sets of conditions its rows do not meet, and how often.
// It is all that explanations against this background need to know of it.
#pragma once
#include <numeric>

#include "common/threads/team.h"
#include "explain/patterns/leaf_walk.h"

namespace glasswood {

// The patterns of one tree. A leaf's patterns rise by how many conditions they do not meet, then by their words.
struct TreePatterns {
  std::vector<int64_t> first;  // [leaf + 1]
  std::vector<uint64_t> sets;  // [pattern][word]
  std::vector<int64_t> count;  // [pattern]
};

class PatternCollector {
 public:
  PatternCollector(const ForestView& forest, const Coding& coding, const PatternTree& tree)
      : tree_(tree),
        rows_(forest, coding),
        tables_((tree.visits.size() + 1) / 2, SetTable(tree.n_words)),
        counts_(tables_.size()) {}

  void add(const RowSource& rows, std::span<const int64_t> weight) {
    const int64_t most = PatternRows::rows_together({tree_}, 2048);
    for (int64_t first = 0; first < rows.n_rows; first += most) {
      const int64_t n = std::min(most, rows.n_rows - first);
      rows_.encode(rows, first, n);
      rows_.walk(tree_, [&](int32_t leaf, int32_t, std::span<const int32_t>, const uint64_t* sets) {
        for (int64_t row = 0; row < n; ++row) {
          const size_t number = tables_[leaf].number_of(sets + row, n);
          if (number == counts_[leaf].size()) counts_[leaf].push_back(0);
          counts_[leaf][number] += weight[first + row];
        }
      });
    }
  }

  TreePatterns take() {
    TreePatterns result;
    result.first.assign(1, 0);
    for (size_t leaf = 0; leaf < tables_.size(); ++leaf) {
      append(tables_[leaf], counts_[leaf], result);
      tables_[leaf] = SetTable(tree_.n_words);
    }
    return result;
  }

 private:
  const PatternTree& tree_;
  PatternRows rows_;
  std::vector<SetTable> tables_;              // [leaf]
  std::vector<std::vector<int64_t>> counts_;  // [leaf][set]

  void append(const SetTable& table, const std::vector<int64_t>& counts, TreePatterns& result) const {
    std::vector<int32_t> order(table.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      const int32_t more = set_size(table[a], tree_.n_words) - set_size(table[b], tree_.n_words);
      if (more) return more < 0;
      return std::lexicographical_compare(table[a], table[a] + tree_.n_words, table[b], table[b] + tree_.n_words);
    });
    for (const int32_t i : order) {
      result.sets.insert(result.sets.end(), table[i], table[i] + tree_.n_words);
      result.count.push_back(counts[i]);
    }
    result.first.push_back(int64_t(result.count.size()));
  }
};

}  // namespace glasswood
