// Responses of the margins of all coalitions, in place.
#pragma once
#include "explain/coalitions/kernels.h"
#include "explain/coalitions/vector_math.h"

namespace glasswood {
namespace {

GLASSWOOD_INLINE Doubles logistic_of(Doubles m) { return 1.0 / (1.0 + exp_of(-m)); }
GLASSWOOD_INLINE Doubles softplus_of(Doubles m) {
  const Doubles zero{};
  return larger(m, zero) + log_of(1.0 + exp_of(-larger(m, -m)));
}

template <class One>
GLASSWOOD_INLINE void respond_each(Doubles* m, int64_t n, const One& one) {
  for (int64_t s = 0; s < n; ++s) m[s] = one(m[s]);
}

// The softmax of k margins a coalition, `stride` vectors apart.
inline void respond_softmax(Doubles* m, int64_t n, int k, int64_t stride, double scale) {
  for (int64_t s = 0; s < n; ++s) {
    Doubles most = m[s];
    for (int o = 1; o < k; ++o) most = larger(most, m[o * stride + s]);
    Doubles sum{};
    for (int o = 0; o < k; ++o) sum += m[o * stride + s] = exp_of(scale * (m[o * stride + s] - most));
    const Doubles inverse = 1.0 / sum;
    for (int o = 0; o < k; ++o) m[o * stride + s] *= inverse;
  }
}

// -log of the softmax of one of them, in the place of the first.
inline void respond_softmax_loss(Doubles* m, int64_t n, int k, int64_t stride, double scale, int label) {
  for (int64_t s = 0; s < n; ++s) {
    Doubles most = m[s];
    for (int o = 1; o < k; ++o) most = larger(most, m[o * stride + s]);
    Doubles sum{};
    for (int o = 0; o < k; ++o) sum += exp_of(scale * (m[o * stride + s] - most));
    m[s] = log_of(sum) + scale * (most - m[label * stride + s]);
  }
}

// `n` vectors an output, `stride` apart.
inline void respond(const CoalitionTask& task, int64_t row, Doubles* m, int64_t n, int64_t stride) {
  const double scale = task.scale;
  const int k = task.leaves.n_outputs;
  switch (task.response) {
    case CoalitionResponse::kMargin:
      return;
    case CoalitionResponse::kLogistic:
      for (int o = 0; o < k; ++o) respond_each(m + o * stride, n, [&](Doubles x) { return logistic_of(scale * x); });
      return;
    case CoalitionResponse::kExp:
      for (int o = 0; o < k; ++o) respond_each(m + o * stride, n, [&](Doubles x) { return exp_of(scale * x); });
      return;
    case CoalitionResponse::kLogLoss: {
      const double label = task.labels[row];
      return respond_each(m, n, [&](Doubles x) { return softplus_of(scale * x) - label * (scale * x); });
    }
    case CoalitionResponse::kSoftmax:
      return respond_softmax(m, n, k, stride, scale);
    case CoalitionResponse::kSoftmaxLoss:
      return respond_softmax_loss(m, n, k, stride, scale, task.labels[row]);
  }
}

}  // namespace
}  // namespace glasswood
