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
  std::vector<int32_t> column_of;  // [feature]; -1: unused, or more codes than 16 bits hold
  std::vector<float> thresholds;
  std::vector<int32_t> players;    // that have a column, by their first
  std::vector<int32_t> player_of;  // [column]: place among these
  bool has_groups = false;         // any of several features

  ForestCodes(const ForestView& forest, const Players& given)
      : forest(forest), coding(forest), column_of(forest.n_features, -1), categories_(forest.n_features, 0) {
    has_groups = given.n < forest.n_features;
    std::vector<std::vector<float>> of(forest.n_features);
    for (size_t node = 0; node < forest.feature.size(); ++node) {
      if (!forest.is_split(node)) continue;
      const int32_t f = forest.feature[node];
      if (forest.is_categorical(node))
        categories_[f] = std::max(categories_[f], category_set_of(forest, node).n_categories + 1);
      else if (coding.encoded[node] == coding.encoded[node] && !coding.ranked)
        of[f].push_back(coding.encoded[node]);
    }
    for (const int32_t f : coding.used) add_column(f, of[f]);
    number_players(given);
  }

  // Whether the row of this code goes left; a missing value by the default.
  bool goes_left(int64_t node, int32_t code) const {
    if (code == kMissingCode) return forest.default_left[node];
    if (!forest.is_categorical(node)) return code < boundary(node);
    const int32_t n = categories_[forest.feature[node]];
    const float x = code < n ? float(code) : code == n ? float(n) : kFractionBelowZero;
    return category_goes_left(category_set_of(forest, node), forest.set_words.data(), x);
  }

  // Numbers of codes below it go left.
  int32_t boundary(int64_t node) const {
    const float t = coding.encoded[node];
    const CodeColumn& column = columns[column_of[forest.feature[node]]];
    if (t != t) return column.n_codes;
    if (column.top == 0) return int32_t(t);
    const auto begin = thresholds.begin() + column.first;
    return int32_t(std::lower_bound(begin, begin + column.n_codes - 1, t) - begin) + 1;
  }

 private:
  std::vector<int32_t> categories_;  // [feature]: categories that any set mentions, one more

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

  void add_column(int32_t f, std::vector<float>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    const int64_t n_ranks = coding.ranked ? coding.first[f + 1] - coding.first[f] : int64_t(values.size());
    const int64_t n_codes = categories_[f] ? categories_[f] + 2 : n_ranks + 1;
    if (n_codes > kMostCodes) return;
    column_of[f] = int32_t(columns.size());
    const bool searches = !categories_[f] && !coding.ranked;
    const int32_t top = searches ? int32_t(std::bit_ceil(uint64_t(n_codes)) / 2) : 0;
    columns.push_back(
        {f, int32_t(n_codes), categories_[f], std::max(top, int32_t(searches)), int64_t(thresholds.size())});
    if (!searches) return;
    thresholds.insert(thresholds.end(), values.begin(), values.end());
    thresholds.resize(columns.back().first + 2 * columns.back().top - 1, kMissing);
  }
};

}  // namespace silva
