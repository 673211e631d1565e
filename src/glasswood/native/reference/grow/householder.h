// QR of tall matrices by tiles: the text that CPU and GPUs share, so that both give the same bits. A tile of rows is
// reflected onto the triangle of the rows before it; triangles of parts are stacked and factorised again (TSQR: Demmel,
// Grigori, Hoemmen, Langou 2012, doi:10.1137/080731992). Each entry is read once, where column-wise methods read the
// matrix once a column.
#pragma once
#include "common/lanes.h"
#include "grow/sums/tolerances.h"

#if !defined(__CUDACC__)
#include <cmath>
#endif

namespace glasswood {

constexpr int kSumLanes = 32;         // partial sums of every sum over rows
constexpr int kTileDoubles = 5888;    // of a tile in shared memory
constexpr int kChunkRows = 1024;      // rows whose squared residuals make one partial sum
constexpr int kAverageThreads = 256;  // partial sums of a leaf's mean

// A product that no compiler fuses with a sum: a CPU without such an instruction must give the same bits.
GLASSWOOD_INLINE double product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
GLASSWOOD_INLINE double root(double x) {
#if defined(__CUDA_ARCH__)
  return sqrt(x);
#else
  return std::sqrt(x);
#endif
}

// Rows of a tile of `side` columns.
GLASSWOOD_INLINE constexpr int tile_rows(int side) {
  const int rows = kTileDoubles / side / kSumLanes * kSumLanes;
  return rows > 1024 ? 1024 : rows < kSumLanes ? kSumLanes : rows;
}
// Rows that one block factorises, tile after tile.
GLASSWOOD_INLINE constexpr int64_t block_rows(int side) {
  const int rows = 8 * tile_rows(side);
  return rows > 2 * side ? rows : 2 * side;
}
GLASSWOOD_INLINE constexpr int64_t n_parts(int64_t rows, int side) {
  return (rows + block_rows(side) - 1) / block_rows(side);
}

// The reflection that turns a column (alpha above, entries of squared length sigma > 0 below) into (diagonal, 0). In
// terms of the entries x themselves the vector is (u, x).
struct Reflection {
  double diagonal, tau, inverse;  // of u

  // What the reflection takes from an entry above, and, times x, from the entries below.
  GLASSWOOD_INLINE double weight(double above, double dot) const { return product(tau, above + product(dot, inverse)); }
  GLASSWOOD_INLINE double factor(double weight) const { return product(weight, inverse); }
};
GLASSWOOD_INLINE Reflection reflection(double alpha, double sigma) {
  const double length = root(product(alpha, alpha) + sigma);
  const double diagonal = alpha > 0 ? -length : length, u = alpha - diagonal;
  return {diagonal, -u / diagonal, 1 / u};
}

// Whether column k has no part of its own beside the columns before it.
GLASSWOOD_INLINE bool is_dependent(int k, double square, double centred, double raw) {
  if (k == 0) return false;
  const double collinear = product(kCollinear, centred), constant = product(kConstant, raw);
  return square <= (collinear > constant ? collinear : constant);
}

}  // namespace glasswood
