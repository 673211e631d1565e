// How much a coarse surface of two features would take off what curves leave.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace glasswood {

// Gradients and curvatures by cells of two features.
struct PairCells {
  int32_t n_first, n_second;
  std::vector<double> gradient, curvature;

  // Joins bins two by two.
  PairCells halved() const {
    const auto half = [](int32_t n) { return n > 2 ? (n + 1) / 2 : n; };
    const int32_t rows = half(n_first), columns = half(n_second);
    PairCells joined{rows, columns, std::vector<double>(rows * columns), std::vector<double>(rows * columns)};
    for (int32_t i = 0; i < n_first; ++i)
      for (int32_t j = 0; j < n_second; ++j) {
        const int32_t at = (rows < n_first ? i / 2 : i) * columns + (columns < n_second ? j / 2 : j);
        joined.gradient[at] += gradient[i * n_second + j], joined.curvature[at] += curvature[i * n_second + j];
      }
    return joined;
  }

  // What cells gain beyond the two features' own curves, in units of `noise`, and the cells that are free to.
  void interaction(double noise, double& gain, double& freedom) const {
    std::vector<double> first(n_first), second(n_second), own_first(n_first), own_second(n_second);
    for (int32_t i = 0; i < n_first; ++i)
      for (int32_t j = 0; j < n_second; ++j)
        own_first[i] += curvature[i * n_second + j], own_second[j] += curvature[i * n_second + j];
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (int32_t i = 0; i < n_first; ++i) {
        double rest = 0;
        for (int32_t j = 0; j < n_second; ++j) rest += at(i, j, 0, second[j]);
        first[i] = own_first[i] > 0 ? rest / own_first[i] : 0;
      }
      for (int32_t j = 0; j < n_second; ++j) {
        double rest = 0;
        for (int32_t i = 0; i < n_first; ++i) rest += at(i, j, first[i], 0);
        second[j] = own_second[j] > 0 ? rest / own_second[j] : 0;
      }
    }
    gain = 0, freedom = 1;
    for (int32_t i = 0; i < n_first; ++i) {
      freedom -= own_first[i] > 0;
      for (int32_t j = 0; j < n_second; ++j)
        if (const double weight = curvature[i * n_second + j]; weight > 0) {
          const double rest = at(i, j, first[i], second[j]);
          gain += rest * rest / weight / noise, ++freedom;
        }
    }
    for (int32_t j = 0; j < n_second; ++j) freedom -= own_second[j] > 0;
  }

 private:
  static constexpr int kSweeps = 6;
  double at(int32_t i, int32_t j, double first, double second) const {
    return gradient[i * n_second + j] - curvature[i * n_second + j] * (first + second);
  }
};

// The gain beyond what noise gains, less `kCaution` of its standard deviations, of the best of some resolutions: coarse
// cells show smooth and weak pairs, fine ones those that change their sign.
inline double pair_gain(PairCells cells, double noise) {
  constexpr double kCaution = 1.5;
  double best = -1e300;
  for (;;) {
    double gain, freedom;
    cells.interaction(noise, gain, freedom);
    freedom = std::max(freedom, 1.0);
    best = std::max(best, gain - freedom - kCaution * std::sqrt(2 * freedom));
    if (std::max(cells.n_first, cells.n_second) <= 2) return best;
    cells = cells.halved();
  }
}

}  // namespace glasswood
