// What the kernels of the paper's evaluation are told of a tree's leaves. Plain records.
#pragma once
#include "grow/cuda/shared/records.h"
#include "reference/grow/householder.h"

namespace glasswood {

constexpr int kKeyTile = 2048;  // rows that a block sorts
constexpr int kKeyBits = 8;     // of a leaf's number that one pass sorts by
constexpr int kKeys = 1 << kKeyBits;
constexpr int kCountedLeaves = 1024;  // leaves that a block counts in shared memory
constexpr int kQrEvents = 7;          // between the procedures, and at their ends

// A leaf's rows stand at positions first .. first + count - 1; its matrix holds them by columns, y last.
struct QrLeaf {
  int64_t first, count, matrix;
  int32_t n_columns, first_column, first_chunk, padding;
};

// A column of z in a leaf's model, and the column that marks its missing values, -1 if none are.
struct QrColumn {
  int32_t column, indicator;
};

// One leaf's rows, or the stacked triangles of its parts, to be factorised part by part.
struct QrLevel {
  const double* entries;
  double* triangles;  // (parts, n_columns, n_columns + 1)
  int64_t row_step, column_step, rows;
  int32_t n_columns, first_block;
};

// A leaf's triangle to be solved; `columns` has room for as much again.
struct QrTriangle {
  double *triangle, *columns, *coefficients;
  int64_t n_columns;
};

}  // namespace glasswood
