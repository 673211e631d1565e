// Leaves that hold equations: their value depends on whose numbers the coalition gives the equation's features.
#pragma once
#include "common/linear_term.h"
#include "explain/coalitions/kernels.h"

namespace glasswood {
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

  // The leaf's values, times its tree's weight, of all coalitions of the free players, [coalition]: their numbers are
  // the row's or the other's, those of `known` players the row's, all others' the other's. Each player adds its
  // difference to the half of the coalitions that hold it, so that a coalition costs an addition whatever the number of
  // terms.
  template <class NumberOf>
  void values(int64_t leaf, uint32_t known, uint32_t free, const NumberOf& number_of, double* v) const {
    const int32_t number = models_.number[leaf];
    double of_all = models_.value[number], gain[kMostPlayers] = {};
    uint32_t lacks_with = 0, lacks_without = 0;
    bool lacks_always = false;
    for (int64_t at = models_.offsets[number]; at < models_.offsets[number + 1]; ++at) {
      const int32_t feature = models_.feature[at], category = models_.category[at];
      const double coefficient = models_.coefficient[at], mean = models_.mean[at];
      const int32_t place = number_of(models_.player[feature]);
      const bool is_known = place >= 0 && (known >> place & 1), is_free = place >= 0 && (free >> place & 1);
      const double x = is_known ? number_at(a_, row_, feature) : number_at(c_, other_, feature);
      const double value = coefficient * term_deviation(x, category, mean);
      of_all += value;
      if (!is_free) {
        lacks_always |= lacks_number(x, category);
        continue;
      }
      const double of_row = number_at(a_, row_, feature);
      const int i = __builtin_popcount(free & ((1u << place) - 1));
      gain[i] += coefficient * term_deviation(of_row, category, mean) - value;
      lacks_with |= uint32_t(lacks_number(of_row, category)) << i;
      lacks_without |= uint32_t(lacks_number(x, category)) << i;
    }
    v[0] = of_all;
    const int n_free = __builtin_popcount(free);
    for (int i = 0; i < n_free; ++i)
      for (int64_t s = 0, half = int64_t(1) << i; s < half; ++s) v[half + s] = v[s] + gain[i];
    const double missing = models_.missing ? models_.missing[number] : kNoValue;
    const double low = models_.range[2 * number], high = models_.range[2 * number + 1], weight = models_.weight[leaf];
    for (int64_t s = 0; s < int64_t(1) << n_free; ++s) {
      const bool lacks_any = lacks_always || (uint32_t(s) & lacks_with) || (~uint32_t(s) & lacks_without);
      v[s] = model_value(v[s], lacks_any, missing, low, high) * weight;
    }
  }

 private:
  const CoalitionModels& models_;
  const RowSource &a_, &c_;
  int64_t row_, other_;
};

}  // namespace
}  // namespace glasswood
