// The paper's evaluation on the CPU. It gives the bits of the kernels in reference/grow/cuda/kernels, which fuse no
// products with sums: compiled with -ffp-contract=off.
#include <algorithm>
#include <chrono>
#include <vector>

#include "grow/data/box.h"
#include "reference/grow/evaluation.h"
#include "reference/grow/householder.h"

namespace glasswood {
namespace {

// The sum of at(0) .. at(n - 1) in the order of a warp: lanes by turns, then by halves.
template <int kThreads = kSumLanes, class At>
double lane_sum(int64_t n, At at) {
  double sums[kThreads] = {};
  int64_t i = 0;
  for (; i + kThreads <= n; i += kThreads)
    for (int lane = 0; lane < kThreads; ++lane) sums[lane] += at(i + lane);
  for (int lane = 0; i + lane < n; ++lane) sums[lane] += at(i + lane);
  for (int warp = 0; warp < kThreads; warp += kSumLanes)
    for (int half = kSumLanes / 2; half; half /= 2)
      for (int lane = warp; lane < warp + half; ++lane) sums[lane] += sums[lane + half];
  for (int warp = kSumLanes; warp < kThreads; warp += kSumLanes) sums[0] += sums[warp];
  return sums[0];
}

// A part of a matrix as factorisations read it.
struct TallMatrix {
  const double* entries;
  int64_t row_step, column_step, rows;

  double operator()(int64_t row, int column) const { return entries[row * row_step + column * column_step]; }
};

// Reflects up to tile_rows(side) rows onto the triangle (side - 1 rows of `side` entries); the last column is y.
void reflect_tile(const TallMatrix& matrix, int64_t first, int side, double* tile, double* triangle) {
  const int height = tile_rows(side), used = int(std::min<int64_t>(matrix.rows - first, height));
  const int rows = (used + kSumLanes - 1) / kSumLanes * kSumLanes;
  for (int j = 0; j < side; ++j)
    for (int i = 0; i < rows; ++i) tile[j * height + i] = i < used ? matrix(first + i, j) : 0;
  for (int k = 0; k + 1 < side; ++k) {
    const double* x = tile + k * height;
    const double sigma = lane_sum(rows, [&](int64_t i) { return x[i] * x[i]; });
    if (sigma == 0) continue;
    double* above = triangle + k * side;
    const Reflection r = reflection(above[k], sigma);
    above[k] = r.diagonal;
    for (int j = k + 1; j < side; ++j) {
      double* column = tile + j * height;
      const double weight = r.weight(above[j], lane_sum(rows, [&](int64_t i) { return x[i] * column[i]; }));
      const double factor = r.factor(weight);
      above[j] -= weight;
      for (int i = 0; i < rows; ++i) column[i] -= factor * x[i];
    }
  }
}

// Coefficients from a triangle of n_columns rows, by modified Gram-Schmidt on its columns (Björck 1967): a column
// without a part of its own gets the coefficient 0. The triangle is overwritten.
std::vector<double> solve_triangle(std::vector<double>& triangle, int n_columns) {
  const int side = n_columns + 1;
  std::vector<double> columns(size_t(n_columns) * side), raw(side), centred(side, 0), diagonal(n_columns, 0);
  for (int k = 0; k < side; ++k)
    for (int i = 0; i < n_columns; ++i) columns[k * n_columns + i] = triangle[i * side + k];
  const auto dot = [&](int a, int b) {
    const double *x = &columns[a * n_columns], *y = &columns[b * n_columns];
    return lane_sum(n_columns, [&](int64_t i) { return x[i] * y[i]; });
  };
  for (int k = 0; k < n_columns; ++k) raw[k] = dot(k, k);
  for (int k = 0; k < n_columns; ++k) {
    const double square = dot(k, k);
    if (is_dependent(k, square, centred[k], raw[k])) continue;
    const double length = diagonal[k] = root(square);
    for (int j = k + 1; j < side; ++j) {
      const double part = triangle[k * side + j] = dot(k, j) / length, factor = part / length;
      for (int i = 0; i < n_columns; ++i) columns[j * n_columns + i] -= factor * columns[k * n_columns + i];
      if (k == 0) centred[j] = dot(j, j);
    }
  }
  std::vector<double> coefficients(n_columns, 0);
  for (int k = n_columns - 1; k >= 0; --k) {
    if (diagonal[k] == 0) continue;
    const double *entries = &triangle[k * side + k + 1], *known = coefficients.data() + k + 1;
    const double rest = lane_sum(n_columns - 1 - k, [&](int64_t i) { return entries[i] * known[i]; });
    coefficients[k] = (triangle[k * side + n_columns] - rest) / diagonal[k];
  }
  return coefficients;
}

class CpuPaperEvaluation : public PaperEvaluation {
 public:
  explicit CpuPaperEvaluation(const GrowData& data) : data_(data) {}

  void redistribute(const GrowTree& tree) override {
    began_ = std::chrono::steady_clock::now();
    leaf_of_.resize(data_.n_rows);
    counts_.assign(tree.nodes.size(), 0);
    for (int32_t row = 0; row < data_.n_rows; ++row) ++counts_[leaf_of_[row] = route(data_, tree, 0, row)];
    finish(kRedistribute);
  }

  int64_t count(int leaf) const override { return counts_[leaf]; }

  std::vector<double> errors(const LeafColumns& columns) override {
    began_ = std::chrono::steady_clock::now();
    separate();
    std::vector<double> errors(counts_.size(), 0);
    int64_t first = 0;
    for (size_t leaf = 0; leaf < counts_.size(); first += counts_[leaf++]) {
      if (counts_[leaf] == 0) continue;
      reorganise(first, counts_[leaf], columns[leaf]);
      calc_models(int(columns[leaf].size()));
      estimate_errors(int(columns[leaf].size()));
      errors[leaf] = lane_sum(int64_t(chunks_.size()), [&](int64_t i) { return chunks_[i]; });
      finish(kReduction);
    }
    return errors;
  }

 private:
  // Time since the last call belongs to this procedure.
  void finish(Procedure procedure) {
    const auto now = std::chrono::steady_clock::now();
    if (seconds_) (*seconds_)[procedure] += std::chrono::duration<double>(now - began_).count();
    began_ = now;
  }

  // Rows in the order of their leaves.
  void separate() {
    std::vector<int64_t> next(counts_.size(), 0);
    for (size_t v = 1; v < counts_.size(); ++v) next[v] = next[v - 1] + counts_[v - 1];
    rows_.resize(data_.n_rows);
    for (int32_t row = 0; row < data_.n_rows; ++row) rows_[next[leaf_of_[row]]++] = row;
    finish(kSeparate);
  }

  // The leaf's design matrix by columns, y behind them, missing values replaced by the leaf's mean.
  void reorganise(int64_t first, int64_t n, const std::vector<int32_t>& columns) {
    n_ = n;
    const int n_columns = int(columns.size());
    matrix_.resize((n_columns + 1) * n_);
    for (int k = 0; k <= n_columns; ++k) {
      const int at = k < n_columns ? columns[k] : data_.width - 1;
      double* column = matrix_.data() + k * n_;
      for (int64_t i = 0; i < n_; ++i) column[i] = z_of(first + i, at);
      const int indicator = k < n_columns ? data_.indicator_of(at) : -1;
      if (indicator < 0) continue;
      const double mean = mean_of(first, at, indicator);
      for (int64_t i = 0; i < n_; ++i) column[i] += mean * z_of(first + i, indicator);
    }
    finish(kReorganise);
  }

  double z_of(int64_t position, int column) const { return data_.z.at(rows_[position], column); }

  // Weighted mean of the present values; rows are scaled by the root of their weight.
  double mean_of(int64_t first, int column, int indicator) const {
    const double sum =
        lane_sum<kAverageThreads>(n_, [&](int64_t i) { return z_of(first + i, 0) * z_of(first + i, column); });
    const double present = lane_sum<kAverageThreads>(n_, [&](int64_t i) {
      const double one = z_of(first + i, 0);
      return one * (one - z_of(first + i, indicator));
    });
    return present > 0 ? sum / present : 0;
  }

  void calc_models(int n_columns) {
    const int side = n_columns + 1;
    tile_.resize(size_t(tile_rows(side)) * side);
    TallMatrix matrix = {matrix_.data(), 1, n_, n_};
    std::vector<double> triangles;
    for (int64_t parts = 2; parts > 1;) {
      parts = n_parts(matrix.rows, side);
      std::vector<double> next(parts * n_columns * side, 0);
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t end = std::min(matrix.rows, (part + 1) * block_rows(side));
        const TallMatrix rows = {matrix.entries, matrix.row_step, matrix.column_step, end};
        for (int64_t first = part * block_rows(side); first < end; first += tile_rows(side))
          reflect_tile(rows, first, side, tile_.data(), next.data() + part * n_columns * side);
      }
      triangles = std::move(next);
      matrix = {triangles.data(), side, 1, parts * n_columns};
    }
    coefficients_ = solve_triangle(triangles, n_columns);
    finish(kCalcModels);
  }

  // Squared residuals, summed by chunks of rows.
  void estimate_errors(int n_columns) {
    chunks_.clear();
    double residuals[kChunkRows];
    for (int64_t first = 0; first < n_; first += kChunkRows) {
      const int64_t rows = std::min<int64_t>(kChunkRows, n_ - first);
      for (int64_t i = 0; i < rows; ++i) residuals[i] = matrix_[n_columns * n_ + first + i];
      for (int k = 0; k < n_columns; ++k)
        for (int64_t i = 0; i < rows; ++i) residuals[i] -= coefficients_[k] * matrix_[k * n_ + first + i];
      chunks_.push_back(lane_sum(rows, [&](int64_t i) { return residuals[i] * residuals[i]; }));
    }
    finish(kEstimateErrors);
  }

  const GrowData& data_;
  std::chrono::steady_clock::time_point began_;
  std::vector<int32_t> leaf_of_, rows_;
  std::vector<int64_t> counts_;
  std::vector<double> matrix_, tile_, coefficients_, chunks_;
  int64_t n_ = 0;
};

}  // namespace

std::unique_ptr<PaperEvaluation> make_cpu_evaluation(const GrowData& data) {
  return std::make_unique<CpuPaperEvaluation>(data);
}

}  // namespace glasswood
