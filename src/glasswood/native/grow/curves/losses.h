// Losses of margins that curves reduce: gradients and curvatures of rows, and what is left of rows.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace glasswood {

// Two classes have one output, the log-odds of the second; kSoftmax has one a class. Margins of kPower are logarithms
// of means: Poisson's, gamma's and Tweedie's deviances.
enum class CurveLoss : int32_t { kSquared, kLogistic, kSoftmax, kPower, kQuantile, kHuber };

// `level`: the quantile, where Huber's loss turns linear, or the power of the mean that the variance is. `margins` and
// results are [output][row].
struct LossRows {
  CurveLoss loss;
  double level;
  int64_t n_rows;
  int32_t n_outputs;
  const double* y;

  // Negative gradients and curvatures, times `weight`; 0 where that is 0.
  void slopes(const double* margins, const double* weight, double* gradient, double* curvature) const {
    switch (loss) {
      case CurveLoss::kSquared:
        return each(margins, weight, gradient, curvature, [](double y, double m) { return Slope{y - m, 1}; });
      case CurveLoss::kLogistic:
        return each(margins, weight, gradient, curvature, [](double y, double m) {
          const double p = 1 / (1 + std::exp(-m));
          return Slope{y - p, std::max(p * (1 - p), kLeast)};
        });
      case CurveLoss::kPower:
        return each(margins, weight, gradient, curvature, [&](double y, double m) {
          const double information = power(2 - level, m);
          return Slope{y * power(1 - level, m) - information, std::max(information, kLeast)};
        });
      case CurveLoss::kHuber:
        return each(margins, weight, gradient, curvature,
                    [&](double y, double m) { return Slope{std::clamp(y - m, -level, level), 1}; });
      case CurveLoss::kQuantile:
        return quantile_slopes(margins, weight, gradient, curvature);
      case CurveLoss::kSoftmax:
        return softmax_slopes(margins, weight, gradient, curvature);
    }
  }

  double loss_of(const double* margins, int64_t row) const {
    const double target = y[row], m = margins[row], rest = target - m;
    switch (loss) {
      case CurveLoss::kSquared:
        return rest * rest;
      case CurveLoss::kLogistic:
        return std::max(m, 0.0) + std::log1p(std::exp(-std::abs(m))) - target * m;
      case CurveLoss::kPower:
        return integral(2 - level, m) - target * integral(1 - level, m);
      case CurveLoss::kQuantile:
        return std::max(level * rest, (level - 1) * rest);
      case CurveLoss::kHuber:
        return std::abs(rest) <= level ? rest * rest : level * (2 * std::abs(rest) - level);
      case CurveLoss::kSoftmax:
        break;
    }
    double most = margins[row], sum = 0;
    for (int32_t k = 1; k < n_outputs; ++k) most = std::max(most, margins[k * n_rows + row]);
    for (int32_t k = 0; k < n_outputs; ++k) sum += std::exp(margins[k * n_rows + row] - most);
    return most + std::log(sum) - margins[int64_t(target) * n_rows + row];
  }

 private:
  static constexpr double kLeast = 1e-6;  // curvature of a row that is nearly certain
  static constexpr double kSharp = 0.1;   // part of the median residual within which a parabola stands for the corner
  struct Slope {
    double gradient, curvature;
  };

  static double power(double rate, double m) { return rate == 0 ? 1 : std::exp(rate * m); }
  // Of that over m, up to a constant that keeps it exact where the rate is near 0.
  static double integral(double rate, double m) {
    if (rate == 0) return m;
    return (std::abs(rate) == 1 ? std::exp(rate * m) : std::expm1(rate * m)) / rate;
  }

  template <class Of>
  void each(const double* margins, const double* weight, double* gradient, double* curvature, const Of& of) const {
    for (int64_t i = 0; i < n_rows; ++i) {
      const Slope slope = of(y[i], margins[i]);
      gradient[i] = weight[i] * slope.gradient, curvature[i] = weight[i] * slope.curvature;
    }
  }

  // Parabolas that lie above the loss and touch it at the margins (Hunter and Lange 2000).
  void quantile_slopes(const double* margins, const double* weight, double* gradient, double* curvature) const {
    std::vector<double> sizes;
    for (int64_t i = 0; i < n_rows; ++i)
      if (weight[i] > 0) sizes.push_back(std::abs(y[i] - margins[i]));
    double spread = 0;
    if (!sizes.empty()) {
      std::nth_element(sizes.begin(), sizes.begin() + int64_t(sizes.size() / 2), sizes.end());
      spread = sizes[sizes.size() / 2];
    }
    spread = std::max(spread, 1e-12);
    each(margins, weight, gradient, curvature, [&](double y, double m) {
      const double rest = y - m, size = std::abs(rest) + kSharp * spread;
      return Slope{(rest + (2 * level - 1) * size) * (spread / size), spread / size};
    });
  }

  void softmax_slopes(const double* margins, const double* weight, double* gradient, double* curvature) const {
    for (int64_t i = 0; i < n_rows; ++i) {
      double most = margins[i], sum = 0;
      for (int32_t k = 1; k < n_outputs; ++k) most = std::max(most, margins[k * n_rows + i]);
      for (int32_t k = 0; k < n_outputs; ++k)
        sum += gradient[k * n_rows + i] = std::exp(margins[k * n_rows + i] - most);
      for (int32_t k = 0; k < n_outputs; ++k) {
        const double p = gradient[k * n_rows + i] / sum, own = double(int64_t(y[i]) == k);
        gradient[k * n_rows + i] = weight[i] * (own - p);
        curvature[k * n_rows + i] = weight[i] * std::max(p * (1 - p), kLeast);
      }
    }
  }
};

}  // namespace glasswood
