// The training rows: standardised values for sums, ranks for splits.
#pragma once
#include <cstdint>
#include <vector>

#include "common/unset_vector.h"
#include "grow/sums/kernels.h"

namespace glasswood {

// Lists of rows grow to the size of the data and shrink again for every leaf.
using RowList = UnsetVector<int32_t>;

// Everything is borrowed from NumPy arrays that outlive the engine. A value is known by its rank among the distinct
// values of its feature: splits compare ranks, so two thresholds in the same gap are one split.
struct GrowData {
  int64_t n_rows = 0;
  int n_features = 0;
  int width = 0;                       // columns of z: intercept, linear features, missing indicators, y
  StoredRows z;                        // scaled by the root of their weight; kLanes numbers more behind the last row
  const double* y = nullptr;           // standardised, not scaled
  const int32_t* ranks = nullptr;      // (n_features, n_rows), -1 where missing
  const int32_t* order = nullptr;      // (n_features, n_rows) rows by rank, missing ones first
  std::vector<const int32_t*> starts;  // per feature: position in order of the first row of each rank, and the end
  std::vector<const double*> values;   // per feature: distinct values
  std::vector<int32_t> n_distinct;     // per feature
  std::vector<int32_t> column;         // per feature: column of z, -1 if it has no place in leaf models
  std::vector<int32_t> indicator;      // per feature: column of z that marks missing values, -1 if none are

  int n_linear() const {
    int count = 0;
    for (const int32_t c : column) count += c >= 0;
    return count;
  }
  // Column of z that marks the missing values of another column, -1 if none are.
  int indicator_of(int of_column) const {
    for (int a = 0; a < n_features; ++a)
      if (column[a] == of_column) return indicator[a];
    return -1;
  }
  const int32_t* ranks_of(int feature) const { return ranks + feature * n_rows; }
  int32_t rank(int64_t row, int feature) const { return ranks_of(feature)[row]; }
  int64_t n_missing(int feature) const { return starts[feature][0]; }
  int64_t n_between(int feature, int32_t low, int32_t high) const {
    return starts[feature][high] - starts[feature][low];
  }
};

}  // namespace glasswood
