// Gauss-Legendre quadrature on [0, 1].
#pragma once
#include <cmath>
#include <numbers>
#include <vector>

namespace glasswood {

// n abscissae, then n weights: exact for polynomials of degree 2n - 1. Newton's method on the Legendre polynomial in
// long double; the abscissae of float64 are right to the last bit up to n = 1,000.
inline std::vector<double> gauss_legendre(int n) {
  std::vector<double> result(2 * n);
  for (int i = 0; i < n; ++i) {
    long double x = std::cos(std::numbers::pi_v<long double> * (i + 0.75L) / (n + 0.5L)), slope = 1;
    for (int iteration = 0; iteration < 100; ++iteration) {
      long double p = 1, previous = 0;
      for (int degree = 1; degree <= n; ++degree) {
        const long double next = ((2 * degree - 1) * x * p - (degree - 1) * previous) / degree;
        previous = p;
        p = next;
      }
      slope = n * (x * p - previous) / (x * x - 1);
      const long double change = p / slope;
      x -= change;
      if (std::abs(change) < 1e-19L) break;
    }
    result[n - 1 - i] = double((1 + x) / 2);
    result[2 * n - 1 - i] = double(1 / ((1 - x * x) * slope * slope));
  }
  return result;
}

}  // namespace glasswood
