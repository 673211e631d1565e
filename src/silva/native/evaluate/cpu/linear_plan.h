// The linear models of a forest's leaves, laid out for evaluate/cpu/linear.h.
#pragma once
#include <vector>

#include "common/forest_view.h"
#include "evaluate/cpu/linear.h"

namespace silva {

// Empty where leaves are constant.
class LinearPlan {
 public:
  explicit LinearPlan(const ForestView& forest);
  bool empty() const { return models_.empty(); }
  LinearLeaves view() const;

 private:
  std::vector<LinearTerm> terms_;
  std::vector<LinearModel> models_;
  std::vector<int64_t> first_leaf_;
  std::vector<double> weight_;
  bool any_mean_ = false;
};

}  // namespace silva
