// What explains one row a call, and keeps what it needs from call to call.
#pragma once
#include <memory>
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

// Two parts of one forest.
template <class Real>
class RowSum : public RowEngine<Real> {
 public:
  RowSum(std::unique_ptr<RowEngine<Real>> first, std::unique_ptr<RowEngine<Real>> second)
      : RowEngine<Real>(first->shape), first_(std::move(first)), second_(std::move(second)) {}

  void run(const RowSource& row) override {
    first_->run(row), second_->run(row);
    for (size_t i = 0; i < this->values.size(); ++i)
      this->values[i] = Real(double(first_->values[i]) + second_->values[i]);
  }

 private:
  std::unique_ptr<RowEngine<Real>> first_, second_;
};

}  // namespace glasswood
