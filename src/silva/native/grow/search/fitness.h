// What the search minimises.
#pragma once
#include <algorithm>
#include <cmath>

#include "grow/data/tree.h"

namespace silva {

// Errors are sums of squares of the standardised target, whose total is n.
struct Fitness {
  bool bic = true;
  double n = 1;
  double alpha = 0.001;     // weighted: price of a parameter
  double penalty = 1;       // BIC: factor of ln n
  double split_weight = 1;  // parameters that a split counts for

  double parameters(const Size& size) const {
    return split_weight * size.splits + size.features + (bic ? size.leaves : 0);
  }
  double parameter_price() const { return bic ? penalty * std::log(n) : alpha; }
  double floored(double error) const { return std::max(error, 1e-12 * n); }

  // BIC, or formula (2) of the paper with the error in units of the target's variance.
  double operator()(double error, const Size& size) const {
    const double fit = bic ? n * std::log(floored(error) / n) : 1 - 1 / (1 + error / n);
    return fit + parameter_price() * parameters(size);
  }
  // The error that one parameter may cost at this level of error: the price of the fitness made linear.
  double price(double error) const {
    const double slope = bic ? n / floored(error) : 1 / (n * (1 + error / n) * (1 + error / n));
    return parameter_price() / slope;
  }
};

}  // namespace silva
