// What explains one row a call, and keeps what it needs from call to call.
#pragma once
#include <vector>

#include "common/rows.h"

namespace glasswood {

struct RowShape {
  int64_t n_features, n_players, n_outputs;
  bool row_is_double;  // whether thresholds compare in float64
};

template <class Real>
class RowEngine {
 public:
  explicit RowEngine(const RowShape& shape) : shape(shape), values(shape.n_players * shape.n_outputs) {}
  virtual ~RowEngine() = default;
  RowEngine(const RowEngine&) = delete;
  RowEngine& operator=(const RowEngine&) = delete;

  virtual void run(const RowSource& row) = 0;

  const RowShape shape;
  std::vector<Real> values;  // [player][output]
};

}  // namespace glasswood
