// Least squares from sufficient statistics: G = sum z z', z = (1, features, y). The maths once, over a lane type: a
// double, or a vector of doubles that solves as many problems side by side.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "common/vectors.h"
#include "grow/sums/kernels.h"
#include "grow/sums/tolerances.h"

// Inlined always: the kernels are compiled once an instruction set, and the linker would keep one copy for all of them.
#define GLASSWOOD_GROW_INLINE [[gnu::always_inline]] inline

namespace glasswood {

// What callers lay out in memory, whatever the instruction set.
constexpr int kLanes = 8, kScoreLanes = 16;

// The vectors of the instruction set: on vectors of 64 bytes AVX2 took 3 (residuals) to 17 (score) times as long.
constexpr int kVectorDoubles = kVectorBytes / sizeof(double), kVectorFloats = kVectorBytes / sizeof(float);
using Doubles = double __attribute__((vector_size(kVectorBytes)));
using Floats = float __attribute__((vector_size(kVectorBytes)));
using Int64s = int64_t __attribute__((vector_size(kVectorBytes)));

// Tiles of sums are four rows high; SSE's sixteen registers of 2 doubles hold half as wide ones.
constexpr int kTileColumns = kVectorBytes < 32 ? 4 : 8;
constexpr int kHalfTileDoubles = kVectorDoubles < kTileColumns / 2 ? kVectorDoubles : kTileColumns / 2;
using HalfTileDoubles = double __attribute__((vector_size(kHalfTileDoubles * sizeof(double))));

constexpr size_t packed_size(int width) { return size_t(width) * (width + 1) / 2; }

// Upper triangle by rows: entry (a, b), a <= b.
constexpr size_t packed(int a, int b, int width) {
  const int low = a < b ? a : b, high = a < b ? b : a;
  return size_t(low) * width - size_t(low) * (low - 1) / 2 + (high - low);
}

GLASSWOOD_GROW_INLINE double select(bool mask, double yes, double no) { return mask ? yes : no; }
GLASSWOOD_GROW_INLINE double square_root(double x) { return std::sqrt(x); }
GLASSWOOD_GROW_INLINE double larger(double a, double b) { return a > b ? a : b; }

GLASSWOOD_GROW_INLINE Doubles select(Int64s mask, Doubles yes, Doubles no) { return mask ? yes : no; }
GLASSWOOD_GROW_INLINE Doubles larger(Doubles a, Doubles b) { return a > b ? a : b; }
GLASSWOOD_GROW_INLINE Doubles square_root(Doubles x) {
  Doubles root;
  for (int lane = 0; lane < kVectorDoubles; ++lane) root[lane] = std::sqrt(x[lane]);
  return root;
}

// Row a of the work matrix holds column a of the Cholesky factor: entries a .. n_columns - 1, then y's. Columns rise.
template <class Lane, class Gram>
GLASSWOOD_GROW_INLINE void load_columns(const Gram& gram, int width, const int32_t* columns, int n_columns,
                                        Lane* work) {
  const int side = n_columns + 1;
  for (int a = 0; a < side; ++a) {
    const int column = a < n_columns ? columns[a] : width - 1;
    const size_t line = packed(column, column, width) - column;
    for (int b = a; b < n_columns; ++b) work[a * side + b] = gram(line + columns[b]);
    work[a * side + n_columns] = gram(line + width - 1);
  }
}

// Rows b .. b + n_rows - 1 of the work matrix lose what `n_pivots` rows of the factor from `first` on explain.
template <int n_pivots, int n_rows, class Lane>
GLASSWOOD_GROW_INLINE void subtract_pivots(Lane* work, int side, int first, int b) {
  const Lane* pivots = work + first * side;
  Lane left[n_rows][n_pivots];
  for (int r = 0; r < n_rows; ++r)
    for (int i = 0; i < n_pivots; ++i) left[r][i] = pivots[i * side + b + r];
  for (int r = 0; r < n_rows; ++r)  // what the rows do not share
    for (int c = b + r; c < b + n_rows; ++c)
      for (int i = 0; i < n_pivots; ++i) work[(b + r) * side + c] -= left[r][i] * pivots[i * side + c];
  for (int c = b + n_rows; c < side; ++c) {
    Lane above[n_pivots];
    for (int i = 0; i < n_pivots; ++i) above[i] = pivots[i * side + c];
    for (int r = 0; r < n_rows; ++r) {
      Lane rest = work[(b + r) * side + c];
      for (int i = 0; i < n_pivots; ++i) rest -= left[r][i] * above[i];
      work[(b + r) * side + c] = rest;
    }
  }
}

// Residual sum of squares of y on the chosen columns by a bordered Cholesky factorisation in `work`, (n_columns + 1)²
// lanes. Column 0 is the intercept, so its elimination centres all others about the leaf's own means. A column that is
// constant or a combination of earlier ones (pivot below 1e-10 of its centred diagonal) is left out. Pivots go by four:
// the matrix outgrows the first cache, and each entry is loaded and stored once for all four.
template <class Lane>
GLASSWOOD_GROW_INLINE Lane eliminate(int n_columns, Lane* work, Lane* centred, Lane* scale) {
  constexpr int kPanel = 4;
  const int side = n_columns + 1;
  for (int a = 0; a < side; ++a) scale[a] = work[a * side + a];
  for (int first = 0; first < n_columns; first += kPanel) {
    const int last = first + kPanel < n_columns ? first + kPanel : n_columns;
    for (int a = first; a < last; ++a) {
      Lane* pivot = work + a * side;
      const Lane diagonal = pivot[a];
      const Lane limit = a ? larger(kCollinear * centred[a], kConstant * scale[a]) : diagonal * 0;
      const Lane factor =
          select(diagonal > limit, 1 / square_root(select(diagonal > limit, diagonal, diagonal * 0 + 1)), diagonal * 0);
      for (int b = a; b < side; ++b) pivot[b] *= factor;
      for (int b = a + 1; b < last; ++b) subtract_pivots<1, 1>(work, side, a, b);
      for (int b = 1; a == 0 && b < side; ++b) centred[b] = scale[b] - pivot[b] * pivot[b];
    }
    int b = last;
    if (last - first < kPanel)
      for (int a = first; a < last; ++a)
        for (b = last; b < side; ++b) subtract_pivots<1, 1>(work, side, a, b);
    for (; b + 1 < side; b += 2) subtract_pivots<kPanel, 2>(work, side, first, b);
    for (; b < side; ++b) subtract_pivots<kPanel, 1>(work, side, first, b);
  }
  return larger(work[n_columns * side + n_columns], work[0] * 0);
}

template <class Lane, class Gram>
GLASSWOOD_GROW_INLINE Lane residual(const Gram& gram, int width, const int32_t* columns, int n_columns, Lane* work) {
  const int side = n_columns + 1;
  load_columns<Lane>(gram, width, columns, n_columns, work);
  return eliminate<Lane>(n_columns, work, work + side * side, work + side * side + side);
}

// The symmetric sweep operator (Goodnight 1979) on row and column k, direction 1, or its inverse, -1. Only
// the matrix's upper triangle of the rows and columns that `live` marks counts; its rows are `pitch` numbers apart, a
// multiple of kLanes, behind which nothing is read. `row` has room for one.
GLASSWOOD_GROW_INLINE void pivot(double* matrix, size_t pitch, int side, const char* live, int k, double direction,
                                 double* row) {
  const auto line = [=](int i) { return matrix + size_t(i) * pitch; };
  for (int j = 0; j < side; ++j) row[j] = !live[j] ? 0 : j < k ? line(j)[k] : line(k)[j];
  for (size_t j = side; j < pitch; ++j) row[j] = 0;
  const double pivot = row[k];
  for (int i = 0; i < side; ++i) {
    if (i == k || !live[i]) continue;
    const double factor = row[i] / pivot;
    for (size_t j = size_t(i) / kVectorDoubles * kVectorDoubles; j < pitch; j += kVectorDoubles) {
      Doubles to, from;
      __builtin_memcpy(&to, line(i) + j, sizeof to);
      __builtin_memcpy(&from, row + j, sizeof from);
      to -= factor * from;
      __builtin_memcpy(line(i) + j, &to, sizeof to);
    }
  }
  for (int j = 0; j < side; ++j) (j < k ? line(j)[k] : line(k)[j]) = direction * row[j] / pivot;
  line(k)[k] = -1 / pivot;
}

constexpr size_t work_size(int width) { return size_t(width + 1) * (width + 3); }

constexpr size_t score_pitch(int n_columns) { return size_t(n_columns + kScoreLanes - 1) / kScoreLanes * kScoreLanes; }

// Whitened columns of some rows at a time, in several chains of operations that do not wait for each other, by forward
// substitution, times the rows' residuals. Line j of `factor` is column j of the Cholesky factor.
GLASSWOOD_GROW_INLINE void score(const StoredRows& z, const int32_t* rows, size_t n_rows, const int32_t* columns,
                                 int n_columns, int y, const double* factor, float* scores, double* residuals) {
  constexpr int kChains = kVectorBytes < 64 ? 8 : 4, kTogether = kChains * kVectorDoubles;
  const int side = n_columns + 1;
  const size_t pitch = score_pitch(n_columns);
  Doubles* white =
      static_cast<Doubles*>(__builtin_alloca_with_align(sizeof(Doubles) * kChains * side, 8 * sizeof(Doubles)));
  for (size_t first = 0; first < n_rows; first += kTogether) {
    const int count = n_rows - first < kTogether ? int(n_rows - first) : kTogether;
    for (int j = 0; j < side; ++j) {
      double entries[kTogether] = {};
      for (int i = 0; i < count; ++i) entries[i] = z.at(rows[first + i], j < n_columns ? columns[j] : y);
      Doubles x[kChains];
      __builtin_memcpy(x, entries, sizeof x);
      const double *line = factor + size_t(j) * side, pivot = line[j];
      for (int i = 0; i < j; ++i)
        for (int chain = 0; chain < kChains; ++chain) x[chain] -= white[i * kChains + chain] * line[i];
      const double scale = j == n_columns ? 1 : pivot > 0 ? 1 / pivot : 0;
      for (int chain = 0; chain < kChains; ++chain) white[j * kChains + chain] = x[chain] * scale;
    }
    for (int i = 0; i < count; ++i) {
      const auto entry = [&](size_t j) { return white[j * kChains + i / kVectorDoubles][i % kVectorDoubles]; };
      float* line = scores + (first + i) * pitch;
      const double e = residuals[first + i] = entry(n_columns);
      for (size_t j = 0; j < pitch; ++j) line[j] = j < size_t(n_columns) ? float(entry(j) * e) : 0;
    }
  }
}

// In blocks of rows whose float sums keep enough digits to rank features by.
GLASSWOOD_GROW_INLINE void add_rows(const float* lines, int pitch, const int32_t* rows, size_t n_rows, double* sum) {
  constexpr size_t kBlock = 256;
  constexpr int kVectors = kScoreLanes / kVectorFloats;
  for (size_t first = 0; first < n_rows; first += kBlock) {
    const size_t last = first + kBlock < n_rows ? first + kBlock : n_rows;
    for (int c = 0; c < pitch; c += kScoreLanes) {
      Floats totals[kVectors] = {};
      for (size_t i = first; i < last; ++i) {
        const float* line = lines + size_t(rows[i]) * pitch + c;
        for (int v = 0; v < kVectors; ++v) {
          Floats some;
          __builtin_memcpy(&some, line + v * kVectorFloats, sizeof some);
          totals[v] += some;
        }
      }
      for (int v = 0; v < kVectors; ++v)
        for (int lane = 0; lane < kVectorFloats; ++lane) sum[c + v * kVectorFloats + lane] += double(totals[v][lane]);
    }
  }
}

// packed += z z'
GLASSWOOD_GROW_INLINE void accumulate_row(const double* z, int width, double* sums) {
  for (int a = 0; a < width; ++a) {
    const double left = z[a];
    for (int b = a; b < width; ++b) sums[b - a] += left * z[b];
    sums += width - a;
  }
}

// Packed sums += what the tile has of their triangle: whole vectors where it lies right of the diagonal.
template <class Lanes, int n_vectors, int n_sets>
GLASSWOOD_GROW_INLINE void add_tiles(const Lanes (&tiles)[n_sets][4 * n_vectors], int width, int a, int b,
                                     double* sums) {
  constexpr int n_lanes = sizeof(Lanes) / sizeof(double), n_columns = n_vectors * n_lanes;
  if (a + 4 <= b && b + n_columns <= width) {
    for (int t = 0; t < 4 * n_vectors; ++t) {
      double* line = sums + packed(a + t / n_vectors, b + t % n_vectors * n_lanes, width);
      Lanes some;
      __builtin_memcpy(&some, line, sizeof some);
      for (int set = 0; set < n_sets; ++set) some += tiles[set][t];
      __builtin_memcpy(line, &some, sizeof some);
    }
    return;
  }
  double entries[n_sets][4][n_columns];
  __builtin_memcpy(entries, tiles, sizeof entries);
  for (int k = 0; k < 4 && a + k < width; ++k) {
    const int first = a + k > b ? a + k : b, last = b + n_columns < width ? b + n_columns : width;
    double* line = sums + packed(a + k, a + k, width) - (a + k);
    for (int c = first; c < last; ++c) {
      double sum = line[c];
      for (int set = 0; set < n_sets; ++set) sum += entries[set][k][c - b];
      line[c] = sum;
    }
  }
}

// A tile of 4 x n_vectors vectors of sums over at most a block of rows, added to the packed ones. Narrow tiles take two
// rows at a time, into sums of their own: four additions in flight wait for each other.
template <class Lanes, int n_vectors>
GLASSWOOD_GROW_INLINE void accumulate_tile(const double* z, size_t stride, int width, const int32_t* rows,
                                           size_t n_rows, int a, int b, double* sums) {
  constexpr int n_lanes = sizeof(Lanes) / sizeof(double), n_columns = n_vectors * n_lanes;
  constexpr int n_sets = kTileColumns / n_columns;
  Lanes tiles[n_sets][4 * n_vectors] = {};
  const auto add = [&](size_t i, Lanes* tile) __attribute__((always_inline)) {
    const double* row = z + size_t(rows[i]) * stride;
    Lanes right[n_vectors];
    for (int v = 0; v < n_vectors; ++v) __builtin_memcpy(&right[v], row + b + v * n_lanes, sizeof(Lanes));
    for (int t = 0; t < 4 * n_vectors; ++t) tile[t] += row[a + t / n_vectors] * right[t % n_vectors];
  };
  size_t i = 0;
  for (; i + n_sets <= n_rows; i += n_sets)
    for (int set = 0; set < n_sets; ++set) add(i + set, tiles[set]);
  for (; i < n_rows; ++i) add(i, tiles[0]);
  add_tiles<Lanes, n_vectors, n_sets>(tiles, width, a, b, sums);
}

// Rows z of `stride` doubles, the first `width` of them used, kLanes more readable behind the last row; packed += sum
// z z' in the order of `rows`, in register tiles over blocks of rows that stay in the first cache.
GLASSWOOD_GROW_INLINE void accumulate(const double* z, size_t stride, int width, const int32_t* rows, size_t n_rows,
                                      double* sums) {
  constexpr size_t kBlock = 64, kFew = 6;
  for (size_t first = 0; first < n_rows; first += kBlock) {
    const size_t count = n_rows - first < kBlock ? n_rows - first : kBlock;
    for (size_t i = first; i < first + count; ++i)
      for (int b = 0; b < width; b += kLanes) __builtin_prefetch(z + size_t(rows[i]) * stride + b);
    if (count < kFew) {
      for (size_t i = 0; i < count; ++i) accumulate_row(z + size_t(rows[first + i]) * stride, width, sums);
      continue;
    }
    for (int b = 0; b < width; b += kTileColumns)
      for (int a = 0; a < b + kTileColumns && a < width; a += 4) {
        if (width - b <= kTileColumns / 2)
          accumulate_tile<HalfTileDoubles, kTileColumns / 2 / kHalfTileDoubles>(z, stride, width, rows + first, count,
                                                                                a, b, sums);
        else
          accumulate_tile<Doubles, kTileColumns / kVectorDoubles>(z, stride, width, rows + first, count, a, b, sums);
      }
  }
}

// The same of floats: each number of a block of rows is converted once, not in every tile that it belongs to.
GLASSWOOD_GROW_INLINE void accumulate(const float* z, size_t stride, int width, const int32_t* rows, size_t n_rows,
                                      double* sums) {
  using StoredLanes = float __attribute__((vector_size(kVectorDoubles * sizeof(float))));
  constexpr size_t kBlock = 64, kLeast = 8, kMostDoubles = 8192;
  const size_t pitch = size_t(width + kLanes - 1) / kLanes * kLanes, fitting = kMostDoubles / pitch;
  const size_t most = fitting > kBlock ? kBlock : fitting < kLeast ? kLeast : fitting;
  double* block = static_cast<double*>(__builtin_alloca_with_align(most * pitch * sizeof(double), 8 * sizeof(Doubles)));
  int32_t lines[kBlock];
  for (size_t i = 0; i < most; ++i) lines[i] = int32_t(i);
  for (size_t first = 0; first < n_rows; first += most) {
    const size_t count = n_rows - first < most ? n_rows - first : most;
    for (size_t i = first; i < first + count; ++i)
      for (int b = 0; b < width; b += 2 * kLanes) __builtin_prefetch(z + size_t(rows[i]) * stride + b);
    for (size_t i = 0; i < count; ++i)
      for (size_t b = 0; b < pitch; b += kVectorDoubles) {
        StoredLanes stored;
        __builtin_memcpy(&stored, z + size_t(rows[first + i]) * stride + b, sizeof stored);
        const Doubles converted = __builtin_convertvector(stored, Doubles);
        __builtin_memcpy(block + i * pitch + b, &converted, sizeof converted);
      }
    accumulate(block, pitch, width, lines, count, sums);
  }
}

}  // namespace glasswood
