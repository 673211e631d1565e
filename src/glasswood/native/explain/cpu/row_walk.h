// Path-dependent values of one row, of trees of more players than explain/cpu/row_leaves.h serves: the walk of
// explain/cpu/shap.h with quadrature points in the lanes, not rows.
//
// If the splits below a node test none of the players that the path has not left unmet, every coalition gets the mean,
// and no player a value: nothing is entered.
// Included by explain/cpu/kernels.cpp only.
#pragma once
#include "common/vectors.h"
#include "explain/cpu/row_leaves.h"

namespace glasswood {
namespace {

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

template <class Real, int K>
class RowWalk {
 public:
  RowWalk(const RowWalkTask<Real>& task, const RowSpace<Real>& space, const RowTree& tree, int first_point, int output)
      : task_(task),
        space_(space),
        tree_(tree),
        output_(output),
        nodes_{task, output},
        frames_(reinterpret_cast<Frame*>(space.frames)),
        phi_(reinterpret_cast<V*>(space.phi)) {
    static_assert(sizeof(Frame) <= kRowFrameBytes);
    load(task.points + tree.first_point + first_point, t_);
    load(task.points + tree.first_point + tree.n_points + first_point, weight_);
  }

  // Adds to total [player][output].
  void run(double* total) {
    for (int slot = 0; slot < tree_.n_slots; ++slot) phi_[slot] = V{}, space_.z[slot] = 1;
    int depth = 0;
    open(frames_[0], tree_.root, ~uint32_t(0), weight_);
    while (true) {
      Frame& frame = frames_[depth];
      if (descend(frame, frames_[depth + 1])) {
        ++depth;
        continue;
      }
      const V sum = close(frame);
      if (depth-- == 0) break;
      absorb(frames_[depth], frames_[depth].side++, sum);
    }
    for (int slot = 0; slot < tree_.n_slots; ++slot) {
      double sum = 0;
      for (int k = 0; k < K; ++k) sum += double(phi_[slot][k]);
      total[task_.slot_player[tree_.first_slot + slot] * int64_t(task_.n_outputs) + tree_.output + output_] += sum;
    }
  }

 private:
  typedef Real V __attribute__((vector_size(K * sizeof(Real))));
  // A split on the way down. A child's factor is A_c H = base + slope t, 1 / H is in q; gain is κ_c, z the state of the
  // split's player below the child (below 0: unmet).
  struct Edge {
    Real base, slope, gain, z;
    uint32_t met;
  };
  struct Frame {
    V q, inverse, sum, gain;  // gain: Σ κ_c T_c
    Edge edge[2];
    const RowNode<Real>* node;
    Real z;
    int32_t side;  // of the child at work
  };

  const RowWalkTask<Real>& task_;
  const RowSpace<Real>& space_;
  const RowTree& tree_;
  int output_;
  RowNodes<Real> nodes_;
  Frame* frames_;
  V* phi_;
  V t_, weight_;

  static void load(const Real* from, V& to) { __builtin_memcpy(&to, from, sizeof(V)); }

  // 1 / H
  GLASSWOOD_INLINE V inverse_of(Real z) const { return Real(1) / (z + (1 - z) * t_); }

  GLASSWOOD_INLINE void open(Frame& frame, int record, uint32_t met, const V& product) const {
    const RowNode<Real>& node = task_.nodes[record];
    __builtin_prefetch(task_.nodes + node.right);
    const Real z = space_.z[node.slot()];
    const int taken = nodes_.goes_left(node) ? 0 : 1;
    const bool is_met = z >= 0;
    const uint32_t own = node.slot() < kSharedBit ? bit_of_slot(node.slot()) : 0;
    for (int side = 0; side < 2; ++side) {
      const Real ratio = node.ratio[side], below = z * ratio;
      const bool stays = is_met & (side == taken);
      frame.edge[side] = {is_met ? below : ratio,
                          stays    ? 1 - below
                          : is_met ? -below
                                   : Real(0),
                          stays    ? z - below
                          : is_met ? -below
                                   : Real(0),
                          stays ? below : Real(-1), stays ? met : met & ~own};
    }
    frame.inverse = is_met & (z != 1) ? inverse_of(z) : V{} + Real(1);
    frame.q = product * frame.inverse;
    frame.sum = frame.gain = V{};
    frame.node = &node, frame.z = z, frame.side = 0;
  }

  // Goes on to the next child that the walk has to enter; false after the last.
  GLASSWOOD_INLINE bool descend(Frame& frame, Frame& next) const {
    const RowNode<Real>& node = *frame.node;
    for (; frame.side < 2; ++frame.side) {
      const int side = frame.side;
      const Edge& edge = frame.edge[side];
      const uint32_t met = node.below[side] & edge.met;
      if (met == 0) {
        absorb(frame, side, V{} + nodes_.mean(node, side));
        continue;
      }
      space_.z[node.slot()] = edge.z;
      const V product = frame.q * (edge.base + edge.slope * t_);
      open(next, nodes_.child(node, side), edge.met, product);
      return true;
    }
    return false;
  }

  GLASSWOOD_INLINE void absorb(Frame& frame, int side, const V& below) const {
    const Edge& edge = frame.edge[side];
    frame.sum += (edge.base + edge.slope * t_) * below;
    frame.gain += edge.gain * below;
  }

  GLASSWOOD_INLINE V close(const Frame& frame) const {
    const int slot = frame.node->slot();
    space_.z[slot] = frame.z;
    phi_[slot] += frame.q * frame.inverse * frame.gain;
    return frame.sum * frame.inverse;
  }
};

template <class Real, int K>
__attribute__((noinline)) void walk_row(const RowWalkTask<Real>& task, const RowSpace<Real>& space, const RowTree& tree,
                                        double* total) {
  for (int output = 0; output < task.width; ++output)
    for (int first = 0; first < tree.n_points; first += K)
      RowWalk<Real, K>(task, space, tree, first, output).run(total);
}

template <class Real>
void explain_row_by_trees(const RowWalkTask<Real>& task, const RowSpace<Real>& space, const RowTree* first,
                          const RowTree* end, double* total) {
  for (const RowTree* tree = first; tree < end; ++tree)
    if (tree->n_blocks)
      explain_row_by_blocks<Real>(task, space, *tree, total);
    else if (tree->lanes == 4)
      walk_row<Real, 4>(task, space, *tree, total);
    else if (tree->lanes == 8)
      walk_row<Real, 8>(task, space, *tree, total);
    else
      walk_row<Real, 16>(task, space, *tree, total);
}

}  // namespace
}  // namespace glasswood
