// What a task works in, and what it did.
#pragma once
#include <vector>

#include "grow/data/box.h"
#include "reference/grow/evaluation.h"

namespace glasswood {

struct LeafStats;

// Rows and sums of one leaf; no sums where a request allowed to leave them out.
struct LeafSums {
  int64_t n_rows = 0;
  std::vector<double> gram;  // packed
};

struct Tally {
  int64_t rows_read = 0, n_evaluations = 0;
  ProcedureSeconds procedures{};  // of the paper's evaluation

  void add(const Tally& other) {
    rows_read += other.rows_read, n_evaluations += other.n_evaluations;
    for (int p = 0; p < kProcedures; ++p) procedures[p] += other.procedures[p];
  }
};

struct Scratch : Tally {
  std::vector<Box> boxes, shifted;
  std::vector<LeafStats*> stats;
  RowList rows, spare;
  std::vector<int64_t> offsets;      // by node: where its rows stand
  std::vector<int64_t> least, most;  // by node: bounds of a request
  std::vector<char> missing;         // by node: whether a leaf below lacks its sums
  std::vector<LeafSums> sums;        // by node: the answer to a request
  std::vector<int> unknown;          // leaves whose errors are
  std::vector<int32_t> columns;
  std::vector<double> gram, recentred, block;
  std::vector<int32_t> block_rows;
};

}  // namespace glasswood
