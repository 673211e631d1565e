// The totals that an output's chunks share: those players, or pairs of players, that any of them has.
#pragma once
#include <unordered_map>

#include "explain/tables/pairs.h"
#include "explain/tables/plan.h"

namespace silva {

class OutputTotalsPlanner {
 public:
  explicit OutputTotalsPlanner(TablePlan& plan) : plan_(plan) {}

  // Where the sums of chunks of these players start in sum_total.
  int64_t add(const std::vector<int32_t>& players) {
    const int64_t first = int64_t(plan_.sum_total.size());
    const bool of_pairs = plan_.content == TableContent::kPairs;
    for (size_t i = 0; i < players.size(); ++i)
      for (size_t j = i; j < (of_pairs ? players.size() : i + 1); ++j)
        plan_.sum_total.push_back(total_of(players[i], players[j]));
    return first;
  }

 private:
  TablePlan& plan_;
  std::unordered_map<int64_t, int32_t> known_;

  int32_t total_of(int32_t a, int32_t b) {
    if (a > b) std::swap(a, b);
    const auto [found, is_new] = known_.try_emplace(int64_t(a) << 32 | b, int32_t(known_.size()));
    if (is_new) plan_.totals.push_back({a, b});
    return found->second;
  }
};

}  // namespace silva
