// Leaves that hold equations: their value depends on whose numbers the coalition gives the equation's features.
#pragma once
#include "common/linear_term.h"
#include "explain/coalitions/kernels.h"

namespace silva {
namespace {

inline double number_at(const RowSource& rows, int64_t row, int32_t feature) {
  const int64_t at = row * rows.row_stride + feature * rows.feature_stride;
  return rows.is_double ? static_cast<const double*>(rows.data)[at] : double(static_cast<const float*>(rows.data)[at]);
}

class PairModels {
 public:
  PairModels(const CoalitionModels& models, const RowSource& a, int64_t row, const RowSource& c, int64_t other)
      : models_(models), a_(a), c_(c), row_(row), other_(other) {}

  // Players of the leaf's equation on whose features the rows have different numbers.
  template <class Visit>
  void each_player(int64_t leaf, const Visit& visit) const {
    const int32_t number = models_.number[leaf];
    for (int64_t at = models_.offsets[number]; at < models_.offsets[number + 1]; ++at) {
      const double x = number_at(a_, row_, models_.feature[at]), y = number_at(c_, other_, models_.feature[at]);
      if (x != y && !(x != x && y != y)) visit(models_.player[models_.feature[at]]);
    }
  }

  // The leaf's value, times its tree's weight, where `knows` says which players are the row's.
  template <class Knows>
  double value(int64_t leaf, const Knows& knows) const {
    const int32_t number = models_.number[leaf];
    double result = models_.value[number];
    bool lacks_any = false;
    for (int64_t at = models_.offsets[number]; at < models_.offsets[number + 1]; ++at) {
      const int32_t feature = models_.feature[at], category = models_.category[at];
      const double x = knows(models_.player[feature]) ? number_at(a_, row_, feature) : number_at(c_, other_, feature);
      lacks_any |= lacks_number(x, category);
      result += models_.coefficient[at] * term_deviation(x, category, models_.mean[at]);
    }
    const double missing = models_.missing ? models_.missing[number] : kNoValue;
    result = model_value(result, lacks_any, missing, models_.range[2 * number], models_.range[2 * number + 1]);
    return result * models_.weight[leaf];
  }

 private:
  const CoalitionModels& models_;
  const RowSource &a_, &c_;
  int64_t row_, other_;
};

}  // namespace
}  // namespace silva
