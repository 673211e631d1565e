// The totals of interactions that an output's chunks share: those pairs of columns that any of them has.
#pragma once
#include <unordered_map>

#include "explain/tables/pairs.h"
#include "explain/tables/plan.h"

namespace silva {

class PairTotals {
 public:
  explicit PairTotals(TablePlan& plan) : plan_(plan) {}

  // Where the pairs of these columns start in slot_pair.
  int64_t add(const std::vector<int32_t>& columns) {
    const int64_t first = int64_t(plan_.slot_pair.size());
    for (size_t i = 0; i < columns.size(); ++i)
      for (size_t j = i; j < columns.size(); ++j) plan_.slot_pair.push_back(total_of(columns[i], columns[j]));
    return first;
  }

 private:
  TablePlan& plan_;
  std::unordered_map<int64_t, int32_t> known_;

  int32_t total_of(int32_t a, int32_t b) {
    if (a > b) std::swap(a, b);
    const auto [found, is_new] = known_.try_emplace(int64_t(a) << 32 | b, int32_t(known_.size()));
    if (is_new) plan_.pairs.push_back({a, b});
    return found->second;
  }
};

}  // namespace silva
