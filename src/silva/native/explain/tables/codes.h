// The columns of codes of a forest, its splits in codes, and the players that the columns belong to.
#pragma once
#include <bit>

#include "common/forest_view.h"
#include "explain/players.h"
#include "explain/tables/columns.h"

namespace silva {

class ForestCodes {
 public:
  const ForestView& forest;
  Coding coding;
  std::vector<CodeColumn> columns;
  std::vector<float> thresholds;
  std::vector<int32_t> players;    // that have a column, by their first
  std::vector<int32_t> player_of;  // [column]: place among these
  bool has_groups = false;         // any of several features

  // Where a feature has more codes than 16 bits hold, trees that follow each other share a column of it: `shares_out`.
  ForestCodes(const ForestView& forest, const Players& given, bool shares_out = false)
      : forest(forest), coding(forest), columns_of_(forest.n_features), categories_(forest.n_features, 0) {
    has_groups = given.n < forest.n_features;
    std::vector<std::vector<Threshold>> of(forest.n_features);
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree)
      for (int64_t node = forest.tree_offsets[tree]; node < forest.tree_offsets[tree + 1]; ++node) {
        if (!forest.is_split(node)) continue;
        const int32_t f = forest.feature[node];
        if (forest.is_categorical(node))
          categories_[f] = std::max(categories_[f], category_set_of(forest, node).n_categories + 1);
        else if (coding.encoded[node] == coding.encoded[node])
          of[f].push_back({coding.encoded[node], tree});
      }
    for (const int32_t f : coding.used) add_columns(f, of[f], shares_out);
    number_players(given);
  }

  // A feature's column for a tree; -1: unused, or more codes than 16 bits hold.
  int32_t column_of(int32_t tree, int32_t feature) const {
    for (const SharedColumn& one : columns_of_[feature])
      if (tree < one.end_tree) return one.column;
    return -1;
  }

  // Whether the row of this category goes left.
  bool goes_left(int64_t node, int32_t code) const {
    const int32_t n = categories_[forest.feature[node]];
    const float x = code < n ? float(code) : code == n ? float(n) : kFractionBelowZero;
    return category_goes_left(category_set_of(forest, node), forest.set_words.data(), x);
  }

  // Numbers of codes below it in the tree's column go left.
  int32_t boundary(int64_t node, const CodeColumn& column) const {
    const float t = coding.encoded[node];
    if (t != t) return column.n_codes;
    if (column.top == 0) return int32_t(t);
    const auto begin = thresholds.begin() + column.first;
    return int32_t(std::lower_bound(begin, begin + column.n_codes - 1, t) - begin) + 1;
  }

 private:
  struct Threshold {
    float value;
    int32_t tree;
  };
  struct SharedColumn {
    int32_t end_tree, column;
  };
  std::vector<std::vector<SharedColumn>> columns_of_;  // [feature]
  std::vector<int32_t> categories_;                    // [feature]: categories that any set mentions, one more

  void number_players(const Players& given) {
    std::vector<int32_t> place(given.n, -1);
    for (const CodeColumn& column : columns) {
      const int32_t player = given.of(column.feature);
      if (place[player] < 0) {
        place[player] = int32_t(players.size());
        players.push_back(player);
      }
      player_of.push_back(place[player]);
    }
  }

  void add_columns(int32_t f, const std::vector<Threshold>& all, bool shares_out) {
    std::vector<float> values;
    const auto sort_values = [&] {
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
    };
    if (!coding.ranked) {
      for (const Threshold& one : all) values.push_back(one.value);
      sort_values();
    }
    const int64_t n_ranks = coding.ranked ? coding.first[f + 1] - coding.first[f] : int64_t(values.size());
    const int64_t n_codes = categories_[f] ? categories_[f] + 2 : n_ranks + 1;
    if (n_codes <= kMostCodes) return add_column(f, forest.n_trees(), int32_t(n_codes), coding.ranked, values);
    if (categories_[f] || !shares_out) return;
    for (size_t first = 0, end, next; first < all.size(); first = end) {
      values.clear();
      for (end = first; end < all.size(); end = next) {
        for (next = end; next < all.size() && all[next].tree == all[end].tree;) ++next;
        if (end > first && next - first >= kMostCodes) break;
        for (size_t at = end; at < next; ++at) values.push_back(all[at].value);
      }
      sort_values();
      if (values.size() >= kMostCodes) return;
      add_column(f, end < all.size() ? all[end].tree : forest.n_trees(), int32_t(values.size()) + 1, false, values);
    }
  }

  // Of the trees before `end_tree` that have none yet.
  void add_column(int32_t f, int32_t end_tree, int32_t n_codes, bool is_rank, const std::vector<float>& values) {
    columns_of_[f].push_back({end_tree, int32_t(columns.size())});
    const bool searches = !categories_[f] && !is_rank;
    const int32_t top = searches ? int32_t(std::bit_ceil(uint32_t(n_codes)) / 2) : 0;
    columns.push_back({f, n_codes, categories_[f], std::max(top, int32_t(searches)), int64_t(thresholds.size())});
    if (!searches) return;
    thresholds.insert(thresholds.end(), values.begin(), values.end());
    thresholds.resize(columns.back().first + 2 * columns.back().top - 1, kMissing);
  }
};

}  // namespace silva
