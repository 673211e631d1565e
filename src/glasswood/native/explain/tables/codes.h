// The columns of codes of a forest, its splits in codes, and the players that the columns belong to.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <span>
#include <utility>

#include "common/category_classes.h"
#include "common/forest_view.h"
#include "common/players.h"
#include "explain/tables/class_order.h"
#include "explain/tables/columns.h"

namespace glasswood {

class ForestCodes {
 public:
  const ForestView& forest;
  Coding coding;
  std::vector<CodeColumn> columns;
  std::vector<float> thresholds;
  std::vector<uint16_t> category_codes;  // of columns of categories, then of other values and of fractions
  std::vector<int32_t> players;          // that have a column, by their first
  std::vector<int32_t> player_of;        // [column]: place among these
  bool has_groups = false;               // any of several features

  // On CPUs, trees that follow each other share a column of a feature that has more codes than 16 bits hold, and codes
  // of categories are those of their classes.
  ForestCodes(const ForestView& forest, const Players& given, bool on_cpu = false)
      : forest(forest), coding(forest), columns_of_(forest.n_features), categories_(forest.n_features, 0) {
    has_groups = given.n < forest.n_features;
    boundary_.resize(forest.feature.size());
    std::vector<std::vector<Threshold>> of(forest.n_features);
    for (int32_t tree = 0; tree < forest.n_trees(); ++tree)
      for (int64_t node = forest.tree_offsets[tree]; node < forest.tree_offsets[tree + 1]; ++node) {
        if (!forest.is_split(node)) continue;
        const int32_t f = forest.feature[node];
        if (forest.is_categorical(node))
          categories_[f] = std::max(categories_[f], category_set_of(forest, node).n_categories + 1);
        else if (coding.encoded[node] == coding.encoded[node])
          of[f].push_back({coding.encoded[node], tree, node});
      }
    if (on_cpu && !forest.category_set.empty()) classes_.emplace(forest);
    for (const int32_t f : coding.used) add_columns(f, of[f], on_cpu);
    number_players(given);
    if (classes_) order_classes();
  }

  // A feature's column for a tree; -1: unused, or more codes than 16 bits hold.
  int32_t column_of(int32_t tree, int32_t feature) const {
    for (const SharedColumn& one : columns_of_[feature])
      if (tree < one.end_tree) return one.column;
    return -1;
  }

  // Whether rows of this category, or of a class of them, go left.
  bool goes_left(int64_t node, int32_t code) const {
    const int32_t f = forest.feature[node];
    if (classes_) return !class_goes_right(&classes_->words[classes_->first_word[node]], class_of_code_[f][code]);
    const int32_t n = categories_[f];
    const float x = code < n ? float(code) : code == n ? float(n) : kFractionBelowZero;
    return category_goes_left(category_set_of(forest, node), forest.set_words.data(), x);
  }

  // Numbers of codes below it in the tree's column go left.
  int32_t boundary(int64_t node, const CodeColumn& column) const {
    const float t = coding.encoded[node];
    if (t != t) return column.n_codes;
    return column.top == 0 ? int32_t(t) : boundary_[node];
  }

 private:
  struct Threshold {
    float value;
    int32_t tree;
    int64_t node;
  };
  struct SharedColumn {
    int32_t end_tree, column;
  };
  std::vector<std::vector<SharedColumn>> columns_of_;  // [feature]
  std::vector<int32_t> categories_;                    // [feature]: categories that any set mentions, one more
  std::vector<int32_t> boundary_;                      // [node] whose column is searched: the code of its threshold
  std::optional<CategoryClasses> classes_;             // if codes are classes
  std::vector<std::vector<int32_t>> class_of_code_;    // [feature][code]

  void order_classes() {
    std::vector<std::vector<const uint32_t*>> splits(forest.n_features);
    for (int64_t node = 0; node < int64_t(forest.category_set.size()); ++node)
      if (forest.is_categorical(node))
        splits[forest.feature[node]].push_back(&classes_->words[classes_->first_word[node]]);
    class_of_code_.resize(forest.n_features);
    for (CodeColumn& column : columns) {
      if (!column.categories) continue;
      const int32_t f = column.feature, n = column.n_codes;
      const auto class_of_value = [&](float x) { return class_of(classes_->view(), classes_->view().features[f], x); };
      std::sort(splits[f].begin(), splits[f].end());
      splits[f].erase(std::unique(splits[f].begin(), splits[f].end()), splits[f].end());
      class_of_code_[f] = ClassOrder(splits[f], n, class_of_value(kMissing)).take();
      std::vector<uint16_t> code_of(n);
      for (int32_t code = 0; code < n; ++code) code_of[class_of_code_[f][code]] = uint16_t(code);
      column.first = int64_t(category_codes.size());
      for (int32_t category = 0; category <= column.categories; ++category)
        category_codes.push_back(code_of[class_of_value(float(category))]);
      category_codes.push_back(code_of[class_of_value(kFractionBelowZero)]);
    }
  }

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

  void add_columns(int32_t f, const std::vector<Threshold>& all, bool on_cpu) {
    std::vector<float> values;
    if (!coding.ranked) number_thresholds(all, values);
    const int64_t n_ranks = coding.ranked ? coding.first[f + 1] - coding.first[f] : int64_t(values.size());
    const int64_t n_codes = !categories_[f] ? n_ranks + 1 : classes_ ? classes_->n_classes(f) : categories_[f] + 2;
    if (n_codes <= kMostCodes) return add_column(f, forest.n_trees(), int32_t(n_codes), coding.ranked, values);
    if (categories_[f] || !on_cpu) return;
    for (size_t first = 0, end, next; first < all.size(); first = end) {
      for (end = first; end < all.size(); end = next) {
        for (next = end; next < all.size() && all[next].tree == all[end].tree;) ++next;
        if (end > first && next - first >= kMostCodes) break;
      }
      number_thresholds({all.data() + first, end - first}, values);
      if (values.size() >= kMostCodes) return;
      add_column(f, end < all.size() ? all[end].tree : forest.n_trees(), int32_t(values.size()) + 1, false, values);
    }
  }

  // The distinct thresholds, rising, and which of them the nodes have.
  void number_thresholds(std::span<const Threshold> all, std::vector<float>& values) {
    values.clear();
    for (const uint64_t key : sorted_keys(all)) {
      const Threshold& one = all[uint32_t(key)];
      if (values.empty() || values.back() != one.value) values.push_back(one.value);
      boundary_[one.node] = int32_t(values.size());
    }
  }

  // Thresholds in rising order: bits that are ordered as their values are, then their place; sorted by eleven bits at a
  // time, since comparisons would be guesses.
  static std::vector<uint64_t> sorted_keys(std::span<const Threshold> all) {
    constexpr int kBits = 11, kDigits = 1 << kBits;
    std::vector<uint64_t> keys(all.size()), other(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(all[i].value);
      keys[i] = uint64_t(bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u)) << 32 | i;
    }
    if (all.size() < kDigits / 4) {
      std::sort(keys.begin(), keys.end());
      return keys;
    }
    for (int shift = 32; shift < 64; shift += kBits) {
      std::array<uint32_t, kDigits> place{};
      for (const uint64_t key : keys) ++place[key >> shift & (kDigits - 1)];
      uint32_t sum = 0;
      for (uint32_t& one : place) sum += std::exchange(one, sum);
      for (const uint64_t key : keys) other[place[key >> shift & (kDigits - 1)]++] = key;
      keys.swap(other);
    }
    return keys;
  }

  // Adds a column for the trees before `end_tree` that have none yet.
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

}  // namespace glasswood
