// Which maths a pass over a tree runs: values or interactions, of scalar, vector or linear leaves. Included by
// explain/cpu/kernels.cpp only.
#pragma once
#include "explain/cpu/interactions.h"
#include "explain/cpu/workspace.h"

namespace glasswood {
namespace {

template <class L>
struct TileRows {
  const typename L::Real* tile;
  GLASSWOOD_INLINE typename L::Value operator()(int feature) const {
    return *reinterpret_cast<const typename L::Value*>(tile + int64_t(feature) * L::width);
  }
};

template <class L>
struct ScalarPhi {
  typename L::Value* phi;
  GLASSWOOD_INLINE void add(int slot, typename L::Value v) const { phi[slot] += v; }
};

template <class L>
struct VectorPhi {
  typename L::Value* phi;
  int width;
  GLASSWOOD_INLINE void add(int slot, int output, typename L::Value v) const { phi[slot * width + output] += v; }
};

template <class L>
struct PairSums {
  typename L::Value* phi;
  typename L::Value* pairs;
  const int32_t* slot_player;
  const int32_t* selected;
  int n_slots;
  bool wanted(int a, int b) const { return selected[slot_player[a]] >= 0 || selected[slot_player[b]] >= 0; }
  GLASSWOOD_INLINE void add_value(int slot, typename L::Value v) { phi[slot] += v; }
  GLASSWOOD_INLINE void add_pair(int a, int b, typename L::Value v) { pairs[a * n_slots + b] += v; }
};

template <class Real>
ShapTables<Real> tables_of(const ExplainTask<Real>& task, const ShapTree& tree) {
  return {task.nodes, task.inverse + tree.first_inverse, tree.n_points, task.sets, task.words};
}

template <class Real, int K>
Points<Real, K> points_of(const ExplainTask<Real>& task, const ShapTree& tree, int first) {
  Points<Real, K> points;
  const Real* t = task.points + tree.first_point;
  for (int k = 0; k < K; ++k) points.t[k] = t[first + k], points.weight[k] = t[tree.n_points + first + k];
  points.first = first, points.n = tree.n_points;
  points.basis = t + 2 * tree.n_points + first;
  return points;
}

// Calls pass.run<n>(first point) for the n points of a pass.
template <class Pass, int K = 1>
void run_pass(const Pass& pass, int n_points, int first) {
  if constexpr (K == kMaxPoints)
    pass.template run<K>(first);
  else if (n_points == K)
    pass.template run<K>(first);
  else
    run_pass<Pass, K + 1>(pass, n_points, first);
}

// Calls pass until the tree's points are used up, in walks of equal size.
template <class Pass>
void for_each_pass(int n_points, const Pass& pass) {
  const int n_passes = (n_points + kMaxPoints - 1) / kMaxPoints;
  for (int p = 0, first = 0; p < n_passes; ++p) {
    const int size = n_points / n_passes + (p < n_points % n_passes);
    run_pass(pass, size, first);
    first += size;
  }
}

template <class Real>
struct ValuePass {
  const ExplainTask<Real>& task;
  const ShapTree& tree;
  ExplainWorkspace<Real>& space;
  const Real* tile;
  const double* raw;

  template <int K>
  __attribute__((noinline)) void run(int first) const {
    using L = ExplainLanes<Real>;
    const auto tables = tables_of(task, tree);
    const auto points = points_of<Real, K>(task, tree, first);
    const TileRows<L> rows{tile};
    auto stack = space.template stack_of<K>();
    if (task.models) {
      const auto leaf = [this](const ShapNode<Real>& node, int side) -> const LinearLeaf& {
        return task.models[node.child[side]];
      };
      const ScalarPhi<L> phi{space.phi};
      LinearWork<L, K, decltype(stack), decltype(leaf), ScalarPhi<L>> work{
          points, stack, leaf, task.terms, raw, space.attributed, phi, {}};
      walk_splits<L, K>(tables, points, rows, stack, work, tree.root);
    } else if (task.width == 1) {
      walk_tree<L, K>(tables, points, rows, stack, ScalarPhi<L>{space.phi}, tree.root);
    } else {
      const auto leaf = [this](const ShapNode<Real>& node, int side) {
        return task.leaf_value + int64_t(node.child[side]) * task.width;
      };
      const VectorPhi<L> phi{space.phi, task.width};
      VectorWork<L, K, decltype(stack), decltype(leaf), VectorPhi<L>> work{points, stack, leaf, phi, task.width};
      walk_splits<L, K>(tables, points, rows, stack, work, tree.root);
    }
  }
};

template <class Real>
struct InteractionPass {
  const ExplainTask<Real>& task;
  const ShapTree& tree;
  ExplainWorkspace<Real>& space;
  int output;

  template <int K>
  __attribute__((noinline)) void run(int first) const {
    using L = ExplainLanes<Real>;
    PairSums<L> pairs{space.phi, space.pairs, task.slot_player + tree.first_slot, task.selected, tree.n_slots};
    auto stack = space.template stack_of<K>();
    const auto tables = tables_of(task, tree);
    const auto points = points_of<Real, K>(task, tree, first);
    const TileRows<L> rows{space.tile};
    if (task.models) {
      const auto leaf = [this](const ShapNode<Real>& node, int side) -> const LinearLeaf& {
        return task.models[node.child[side]];
      };
      LinearPairWork<L, K, decltype(stack), decltype(leaf), PairSums<L>> work{
          points, stack, leaf, task.terms, task.entries, space.raw, space.attributed, space.sides, pairs};
      walk_splits<L, K>(tables, points, rows, stack, work, tree.root);
      return;
    }
    const auto leaf = [this](const ShapNode<Real>& node, int side) {
      return task.width == 1 ? node.value[side] : task.leaf_value[int64_t(node.child[side]) * task.width + output];
    };
    PairWork<L, K, decltype(stack), decltype(leaf), PairSums<L>> work{
        tables, points, task.deltas + tree.first_delta, stack, leaf, pairs, tree.root, 0, {}, {}};
    walk_splits<L, K>(tables, points, rows, stack, work, tree.root);
  }
};

}  // namespace
}  // namespace glasswood
