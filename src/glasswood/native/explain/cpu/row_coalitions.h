// What coalitions of few players reach on average below a split: of the players that the path has met, a coalition's
// follow the row, all others go to both sides by their covers. Coalitions are lanes, so that one pass serves them all.
// Included by explain/cpu/kernels.cpp only.
#pragma once
#include "explain/cpu/row_task.h"

namespace glasswood {
namespace {

constexpr int kFewPlayers = 3;

// The splits as the row meets them, for one output of vector leaves.
template <class Real>
struct RowNodes {
  const RowWalkTask<Real>& task;
  int output;

  GLASSWOOD_INLINE bool goes_left(const RowNode<Real>& node) const { return row_goes_left(task, node, node.flags()); }
  GLASSWOOD_INLINE Real mean(const RowNode<Real>& node, int side) const {
    if (task.width == 1) return node.mean[side];
    return task.means[((&node - task.nodes) * 2 + side) * task.width + output];
  }
  GLASSWOOD_INLINE int child(const RowNode<Real>& node, int side) const {
    return side ? node.right : int(&node - task.nodes) + 1;
  }
};

// [coalition]: bit p says whether it knows player p.
template <class Real, int M>
struct Coalitions {
  typedef Real Vector __attribute__((vector_size((1 << M) * sizeof(Real))));

  // 1 where the player is known.
  static GLASSWOOD_INLINE Vector of(int player) {
    Vector known;
    for (int c = 0; c < 1 << M; ++c) known[c] = Real(c >> player & 1);
    return known;
  }
};

// Means below a split of `bits`, those of M players. Coalitions that know a player leave the sides that the row does
// not take: there the player is no longer `live`, and a side that tests no live player has the mean of its leaves.
template <class Real, int M>
GLASSWOOD_INLINE typename Coalitions<Real, M>::Vector means_of_coalitions(const RowNodes<Real>& nodes, int record,
                                                                          uint32_t bits, char* memory) {
  using Vector = typename Coalitions<Real, M>::Vector;
  struct Waiting {
    Vector weight;
    int32_t record;
    uint32_t live;
  };
  static_assert(sizeof(Waiting) <= kRowWaitingBytes);
  Vector known[M + 1], sum{}, weight = Vector{} + Real(1);
  for (int p = 0; p < M; ++p) known[p] = Coalitions<Real, M>::of(p);
  known[M] = Vector{};
  uint32_t live = bits;
  Waiting *const first = reinterpret_cast<Waiting*>(memory), *waiting = first;
  while (true) {
    const RowNode<Real>& node = nodes.task.nodes[record];
    const uint32_t own = bit_of_slot(node.slot()) & live;
    const bool left = nodes.goes_left(node);
    const Vector& follows = known[own ? __builtin_popcount(bits & (own - 1)) : M];
    const Vector weights[2] = {weight * (node.ratio[0] + follows * (Real(left) - node.ratio[0])),
                               weight * (node.ratio[1] + follows * (Real(!left) - node.ratio[1]))};
    const uint32_t lives[2] = {left ? live : live & ~own, left ? live & ~own : live};
    const bool enters[2] = {(node.below[0] & lives[0]) != 0, (node.below[1] & lives[1]) != 0};
    if (!enters[0]) sum += weights[0] * nodes.mean(node, 0);
    if (!enters[1]) sum += weights[1] * nodes.mean(node, 1);
    if (enters[0] && enters[1]) *waiting++ = {weights[1], node.right, lives[1]};
    if (enters[0] || enters[1]) {
      weight = enters[0] ? weights[0] : weights[1], live = enters[0] ? lives[0] : lives[1];
      record = nodes.child(node, enters[0] ? 0 : 1);
      continue;
    }
    if (waiting == first) return sum;
    --waiting;
    weight = waiting->weight, live = waiting->live, record = waiting->record;
  }
}

}  // namespace
}  // namespace glasswood
