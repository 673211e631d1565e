// The columns of codes that a forest's rows turn into (evaluate/cpu/nodes/tables.h), and the searches for their ranks.
#pragma once
#include "common/category_classes.h"
#include "evaluate/cpu/nodes/tables.h"

namespace glasswood {

// Entries as wide as a code.
class CodeArray {
 public:
  explicit CodeArray(CodeType type = CodeType::kByte)
      : size_(type == CodeType::kByte    ? 1
              : type == CodeType::kShort ? 2
                                         : 4) {}
  void resize(int64_t n) { bytes_.resize(n * size_, 0); }
  void put(int64_t at, int32_t number) { std::memcpy(&bytes_[at * size_], &number, size_); }
  void put(int64_t at, float number) { std::memcpy(&bytes_[at * size_], &number, size_); }
  const void* data() const { return bytes_.data(); }

 private:
  int64_t size_;
  std::vector<char> bytes_;
};

// Which codes a row has, and the forest's thresholds in them.
struct NodeColumns {
  static constexpr size_t kMostRanks = 65535;

  std::vector<NodeColumn> columns;
  std::vector<std::vector<double>> thresholds;  // [column] rising
  std::vector<int32_t> of_node;
  std::vector<float> search32;
  std::vector<double> search64;
  bool as_they_lie = false;  // codes are the row itself

  NodeColumns(const ForestView& forest, const CategoryClasses& classes, bool ranks)
      : of_node(forest.feature.size(), 0), of_feature_(forest.n_features, -1) {
    as_they_lie = !ranks && !forest.row_is_double && forest.zero_threshold == 0 && forest.zero_missing.empty() &&
                  forest.category_set.empty() && forest.n_features <= kMostInPlace;
    if (as_they_lie)
      for (int32_t feature = 0; feature < forest.n_features; ++feature) column_of(feature, classes);
    for (size_t node = 0; node < of_node.size(); ++node)
      if (forest.is_split(node)) add(forest, classes, node);
    for (size_t c = 0; c < columns.size(); ++c) {
      auto& values = thresholds[c];
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
      if (!ranks || values.size() >= kMostRanks) continue;
      if (forest.row_is_double)
        add_search(c, search64);
      else
        add_search(c, search32);
    }
  }

  // The narrowest codes that hold every rank, every class's place (bytes have 32 pages of 256) and every column's
  // number. A threshold may need one code beyond the ranks of its column, where every number goes left.
  CodeType code_type(bool ranks, bool has_bytes) const {
    constexpr int32_t kMostPages = 32;
    size_t n_codes = std::max<size_t>(columns.size(), 2);
    for (const auto& values : thresholds) n_codes = std::max(n_codes, values.size() + (has_infinite_ ? 2 : 1));
    int32_t n_classes = 0;
    for (const NodeColumn& column : columns) n_classes = std::max(n_classes, column.n_classes);
    if (!ranks || n_codes > kMostRanks || size_t(n_classes + 7) / 8 > kMostRanks) return CodeType::kFloat;
    const bool fits_bytes = n_codes <= 256 && n_classes <= kMostPages * kPageClasses;
    return has_bytes && fits_bytes ? CodeType::kByte : CodeType::kShort;
  }

  int32_t rank_code(const ForestView& forest, int64_t node) const {
    if (forest.is_categorical(node)) return 0;
    const auto& values = thresholds[of_node[node]];
    const double t = forest.threshold[node];
    if (t == -std::numeric_limits<double>::infinity()) return 0;
    return int32_t(std::lower_bound(values.begin(), values.end(), t) - values.begin()) + 1;
  }

  // How many thresholds of the feature are not above x; -1 where x is not a number, or the feature holds categories.
  int32_t rank_of(int32_t feature, float x) const {
    const int32_t column = of_feature_[feature];
    if (column < 0) return 0;
    if (x != x || columns[column].n_classes) return -1;
    const auto& values = thresholds[column];
    return int32_t(std::upper_bound(values.begin(), values.end(), double(x)) - values.begin());
  }

 private:
  static constexpr int32_t kMostInPlace = 64;  // features that registers hold as floats
  bool has_infinite_ = false;
  std::vector<int32_t> of_feature_;

  int32_t column_of(int32_t feature, const CategoryClasses& classes) {
    int32_t& column = of_feature_[feature];
    if (column < 0) {
      column = int32_t(columns.size());
      columns.push_back({feature, classes.n_classes(feature), 0, {}});
      thresholds.emplace_back();
    }
    return column;
  }

  void add(const ForestView& forest, const CategoryClasses& classes, int64_t node) {
    const int32_t column = column_of(forest.feature[node], classes);
    of_node[node] = column;
    if (forest.is_categorical(node)) return;
    if (std::isfinite(forest.threshold[node]))
      thresholds[column].push_back(forest.threshold[node]);
    else
      has_infinite_ = true;
  }

  template <class Real>
  void add_search(size_t c, std::vector<Real>& nodes) {
    const auto& values = thresholds[c];
    const int64_t n = int64_t(values.size());
    int32_t& n_levels = columns[c].n_levels;
    for (int64_t reach = 1; reach <= n; reach *= kSearchWidth) ++n_levels;
    for (int level = 0; level < n_levels; ++level) {
      const int64_t step = int64_t(1) << 4 * (n_levels - 1 - level);
      columns[c].search[level] = int32_t(nodes.size() / kSearchWidth);
      for (int64_t node = 0; node <= n / (step * kSearchWidth); ++node)
        for (int64_t lane = 0; lane < kSearchWidth; ++lane) {
          const int64_t at = (kSearchWidth * node + lane + 1) * step - 1;
          const bool is_pivot = lane + 1 < kSearchWidth && at < n;
          nodes.push_back(is_pivot ? Real(values[at]) : std::numeric_limits<Real>::quiet_NaN());
        }
    }
  }
};

}  // namespace glasswood
