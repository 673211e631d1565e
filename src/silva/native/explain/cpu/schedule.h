// Explanations on the CPU: the schedule over blocks of rows, trees and passes. Included by common/kernels.cpp only.
#pragma once
#include "common/arena.h"
#include "common/tasks.h"
#include "explain/cpu/interactions.h"

namespace silva {
namespace {

constexpr int kMaxPoints = 8;  // of one pass; more quadrature points take several walks

template <class Real>
using ExplainLanes = Lanes<Real, kScalar ? 1 : kVectorBytes / int(sizeof(Real))>;

// What the walks keep by depth (and, for interactions, by slot).
template <class L>
struct WalkMemory {
  using Value = typename L::Value;
  using Mask = typename L::Mask;
  Value* q_;    // [depth][kMaxPoints]
  Value* sum_;  // [depth][output of vector leaves][kMaxPoints]
  Mask* left_;
  Mask* hot_;
  int32_t* node_;
  int32_t* side_;
  Value* gain_;      // [depth][kMaxPoints]
  Value* phi_;       // [depth]
  Value* saved_;     // [depth][kMaxPoints]
  Value* delta_;     // [slot][kMaxPoints]
  int32_t* active_;  // [slot]
  int width;
};

template <class L, int K>
struct WalkStack : WalkMemory<L> {
  using typename WalkMemory<L>::Value;
  using typename WalkMemory<L>::Mask;
  using WalkMemory<L>::q_, WalkMemory<L>::sum_, WalkMemory<L>::left_, WalkMemory<L>::hot_, WalkMemory<L>::node_;
  using WalkMemory<L>::side_, WalkMemory<L>::gain_, WalkMemory<L>::phi_, WalkMemory<L>::saved_, WalkMemory<L>::delta_;
  using WalkMemory<L>::active_, WalkMemory<L>::width;

  Mask hot(int depth) const { return hot_[depth]; }
  void set_hot(int depth, Mask m) { hot_[depth] = m; }
  Mask left(int depth) const { return left_[depth]; }
  int node(int depth) const { return node_[depth]; }
  int side(int depth) const { return side_[depth]; }
  Value& sum(int depth, int output, int k) { return sum_[(int64_t(depth) * width + output) * kMaxPoints + k]; }
  void push_place(int depth, Mask left, int node, int side) {
    left_[depth] = left, node_[depth] = node, side_[depth] = side;
  }
  void push_product(int depth, const Value (&q)[K]) {
    for (int k = 0; k < K; ++k) q_[depth * kMaxPoints + k] = q[k];
  }
  void pop_product(int depth, Value (&q)[K]) const {
    for (int k = 0; k < K; ++k) q[k] = q_[depth * kMaxPoints + k];
  }
  void push(int depth, const Value (&q)[K], const Value (&sum)[K]) {
    push_product(depth, q);
    for (int k = 0; k < K; ++k) sum_[depth * kMaxPoints + k] = sum[k];
  }
  void pop(int depth, Value (&q)[K], Value (&sum)[K]) const {
    pop_product(depth, q);
    for (int k = 0; k < K; ++k) sum[k] = sum_[depth * kMaxPoints + k];
  }

  int active(int i) const { return active_[i]; }
  void activate(int i, int slot) { active_[i] = slot; }
  Value delta(int slot, int k) const { return delta_[slot * kMaxPoints + k]; }
  void set_delta(int slot, int k, Value d) { delta_[slot * kMaxPoints + k] = d; }
  void save_delta(int depth, int slot) {
    for (int k = 0; k < K; ++k) saved_[depth * kMaxPoints + k] = delta(slot, k);
  }
  void restore_delta(int depth, int slot) {
    for (int k = 0; k < K; ++k) set_delta(slot, k, saved_[depth * kMaxPoints + k]);
  }
  void push_interaction(int depth, const Value (&gain)[K], Value phi) {
    for (int k = 0; k < K; ++k) gain_[depth * kMaxPoints + k] = gain[k];
    phi_[depth] = phi;
  }
  void pop_interaction(int depth, Value (&gain)[K], Value& phi) const {
    for (int k = 0; k < K; ++k) gain[k] = gain_[depth * kMaxPoints + k];
    phi = phi_[depth];
  }
};

// One thread's memory. phi and pairs hold the sums of one tree in Real; totals those of all trees in float64.
template <class Real>
struct ExplainWorkspace {
  using L = ExplainLanes<Real>;
  using Value = typename L::Value;
  Real* tile;
  double* raw;         // [feature][lane]: values of the rows, for linear leaves
  Value* attributed;   // [term] of the leaf at work
  Value* phi;          // [slot][output of vector leaves]
  double* total;       // [output][feature][lane]
  Value* pairs;        // [slot][slot]
  double* pair_total;  // [selected][feature][lane]
  WalkMemory<L> stack;

  ExplainWorkspace(const ExplainTask<Real>& task, Arena& arena, bool interactions) {
    constexpr int W = L::width;
    const int64_t depth = task.max_depth + 2, slots = task.max_slots, outputs = interactions ? 1 : task.width;
    const int64_t blocks = interactions ? 1 : task.n_blocks;
    tile = arena.take<Real>(blocks * task.n_features * W);
    raw = arena.take<double>(task.models ? blocks * task.n_features * W : 0);
    attributed = arena.take<Value>(task.max_terms);
    phi = arena.take<Value>(slots * outputs);
    total = arena.take<double>(blocks * int64_t(interactions ? 1 : task.n_outputs) * task.n_features * W);
    stack.width = int(outputs);
    stack.q_ = arena.take<Value>(depth * kMaxPoints);
    stack.sum_ = arena.take<Value>(depth * outputs * kMaxPoints);
    stack.left_ = arena.take<typename L::Mask>(depth);
    stack.hot_ = arena.take<typename L::Mask>(depth);
    stack.node_ = arena.take<int32_t>(depth);
    stack.side_ = arena.take<int32_t>(depth);
    const int64_t on = interactions ? 1 : 0;
    stack.gain_ = arena.take<Value>(on * depth * kMaxPoints);
    stack.phi_ = arena.take<Value>(on * depth);
    stack.saved_ = arena.take<Value>(on * depth * kMaxPoints);
    stack.delta_ = arena.take<Value>(on * slots * kMaxPoints);
    stack.active_ = arena.take<int32_t>(on * slots);
    pairs = arena.take<Value>(on * slots * slots);
    pair_total = arena.take<double>(on * int64_t(task.n_selected) * task.n_features * W);
  }
  template <int K>
  WalkStack<L, K> stack_of() const {
    return {stack};
  }
};

template <class L>
struct TileRows {
  const typename L::Real* tile;
  SILVA_INLINE typename L::Value operator()(int feature) const {
    return *reinterpret_cast<const typename L::Value*>(tile + int64_t(feature) * L::width);
  }
};

template <class L>
struct ScalarPhi {
  typename L::Value* phi;
  SILVA_INLINE void add(int slot, typename L::Value v) const { phi[slot] += v; }
};

template <class L>
struct VectorPhi {
  typename L::Value* phi;
  int width;
  SILVA_INLINE void add(int slot, int output, typename L::Value v) const { phi[slot * width + output] += v; }
};

template <class L>
struct PairSums {
  typename L::Value* phi;
  typename L::Value* pairs;
  const int32_t* slot_feature;
  const int32_t* selected;
  int n_slots;
  bool wanted(int a, int b) const { return selected[slot_feature[a]] >= 0 || selected[slot_feature[b]] >= 0; }
  SILVA_INLINE void add_value(int slot, typename L::Value v) { phi[slot] += v; }
  SILVA_INLINE void add_pair(int a, int b, typename L::Value v) { pairs[a * n_slots + b] += v; }
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
  points.first = first;
  return points;
}

// Calls pass(number of points as a constant, first point) until the tree's points are used up, in walks of equal size.
template <class Pass>
void for_each_pass(int n_points, const Pass& pass) {
  const int n_passes = (n_points + kMaxPoints - 1) / kMaxPoints;
  for (int p = 0, first = 0; p < n_passes; ++p) {
    const int size = n_points / n_passes + (p < n_points % n_passes);
    switch (size) {
      case 1:
        pass.template run<1>(first);
        break;
      case 2:
        pass.template run<2>(first);
        break;
      case 3:
        pass.template run<3>(first);
        break;
      case 4:
        pass.template run<4>(first);
        break;
      case 5:
        pass.template run<5>(first);
        break;
      case 6:
        pass.template run<6>(first);
        break;
      case 7:
        pass.template run<7>(first);
        break;
      default:
        pass.template run<8>(first);
        break;
    }
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
    PairSums<L> pairs{space.phi, space.pairs, task.slot_feature + tree.first_slot, task.selected, tree.n_slots};
    const auto leaf = [this](const ShapNode<Real>& node, int side) {
      return task.width == 1 ? node.value[side] : task.leaf_value[int64_t(node.child[side]) * task.width + output];
    };
    auto stack = space.template stack_of<K>();
    const auto tables = tables_of(task, tree);
    const auto points = points_of<Real, K>(task, tree, first);
    PairWork<L, K, decltype(stack), decltype(leaf), PairSums<L>> work{
        tables, points, task.deltas + tree.first_delta, stack, leaf, pairs, tree.root, 0, {}, {}};
    walk_splits<L, K>(tables, points, TileRows<L>{space.tile}, stack, work, tree.root);
  }
};

template <class L>
inline void add_and_clear(double* total, typename L::Value& sum) {
  for (int lane = 0; lane < L::width; ++lane) total[lane] += double(L::lane(sum, lane));
  sum = typename L::Value{};
}

// Calls take(pointer to the result of the output's type).
template <class Real, class Take>
inline void with_target(const ExplainTask<Real>& task, const Take& take) {
  if (task.double_out)
    take(task.out64);
  else
    take(task.out32);
}

// One tree's values of one block of rows, added to the block's totals.
template <class Real>
void explain_tree(const ExplainTask<Real>& task, const ShapTree& tree, ExplainWorkspace<Real>& space, int block) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t F = task.n_features;
  double* total = space.total + block * task.n_outputs * F * W;
  for_each_pass(tree.n_points,
                ValuePass<Real>{task, tree, space, space.tile + block * F * W, space.raw + block * F * W});
  for (int slot = 0; slot < tree.n_slots; ++slot) {
    const int64_t feature = task.slot_feature[tree.first_slot + slot];
    for (int o = 0; o < task.width; ++o)
      add_and_clear<ExplainLanes<Real>>(total + ((tree.output + o) * F + feature) * W,
                                        space.phi[slot * task.width + o]);
  }
}

// Trees that are one linear model: the terms are the values.
template <class Real>
void explain_lone_leaves(const ExplainTask<Real>& task, ExplainWorkspace<Real>& space, int block) {
  using L = ExplainLanes<Real>;
  constexpr int W = L::width;
  const int64_t F = task.n_features;
  for (int i = 0; i < task.n_lone_leaves; ++i) {
    const LinearLeaf& model = task.models[task.lone_leaves[i].leaf];
    attribute_terms<L>(model, task.terms, space.raw + block * F * W, space.attributed);
    double* total = space.total + (block * task.n_outputs + task.lone_leaves[i].output) * F * W;
    for (int64_t at = model.first; at < model.end; ++at)
      add_and_clear<L>(total + task.terms[at].feature * W, space.attributed[at - model.first]);
  }
}

template <class Real>
void write_values(const ExplainTask<Real>& task, const double* total, int64_t first_row, int n_rows) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t F = task.n_features;
  with_target(task, [&](const auto& out) {
    for (int row = 0; row < n_rows; ++row)
      for (int64_t f = 0; f < F; ++f)
        for (int o = 0; o < task.n_outputs; ++o)
          out.data[(first_row + row) * out.row_stride + f * out.feature_stride + o * out.output_stride] =
              total[(o * F + f) * W + row];
  });
}

// The rows of task.n_blocks blocks, tree by tree: a tree's nodes are read from memory once for all of them.
template <class Real>
void explain_rows(const ExplainTask<Real>& task, ExplainWorkspace<Real>& space, int64_t first_row, int n_rows) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t F = task.n_features, size = task.n_outputs * F * W;
  const int n_blocks = (n_rows + W - 1) / W;
  const auto rows_of_block = [&](int block) { return n_rows - block * W < W ? n_rows - block * W : W; };
  for (int block = 0; block < n_blocks; ++block) {
    encode_rows<Real>(task.coding, task.rows, first_row + block * W, rows_of_block(block), W, W,
                      space.tile + block * F * W);
    if (task.models) copy_rows(task.rows, F, first_row + block * W, rows_of_block(block), W, space.raw + block * F * W);
  }
  __builtin_memset(space.total, 0, sizeof(double) * n_blocks * size);
  __builtin_memset(space.phi, 0, sizeof(space.phi[0]) * task.max_slots * task.width);
  for (int t = 0; t < task.n_trees; ++t)
    for (int block = 0; block < n_blocks; ++block) explain_tree(task, task.trees[t], space, block);
  for (int block = 0; block < n_blocks; ++block) explain_lone_leaves(task, space, block);
  for (int block = 0; block < n_blocks; ++block)
    write_values(task, space.total + block * size, first_row + block * W, rows_of_block(block));
}

template <class Real>
void collect_pairs(const ExplainTask<Real>& task, const ShapTree& tree, ExplainWorkspace<Real>& space) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t F = task.n_features;
  const int32_t* feature = task.slot_feature + tree.first_slot;
  for (int a = 0; a < tree.n_slots; ++a) {
    add_and_clear<ExplainLanes<Real>>(space.total + int64_t(feature[a]) * W, space.phi[a]);
    for (int b = 0; b < a; ++b) {
      auto& upper = space.pairs[a * tree.n_slots + b];
      auto& lower = space.pairs[b * tree.n_slots + a];
      auto sum = upper + lower;
      upper = lower = decltype(sum){};
      for (int side = 0; side < 2; ++side) {
        const int64_t row = task.selected[feature[side ? b : a]], column = feature[side ? a : b];
        if (row < 0) continue;
        auto kept = sum;
        add_and_clear<ExplainLanes<Real>>(space.pair_total + (row * F + column) * W, kept);
      }
    }
  }
}

// Phi_ii = phi_i - Σ_{j != i} Phi_ij; then everything goes to the result.
template <class Real>
void write_interactions(const ExplainTask<Real>& task, ExplainWorkspace<Real>& space, int64_t first_row, int n_rows,
                        int output) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t F = task.n_features;
  for (int64_t f = 0; f < F; ++f) {
    const int64_t i = task.selected[f];
    if (i < 0) continue;
    double* row_total = space.pair_total + i * F * W;
    for (int lane = 0; lane < W; ++lane) {
      double rest = space.total[f * W + lane];
      for (int64_t j = 0; j < F; ++j)
        if (j != f) rest -= row_total[j * W + lane];
      row_total[f * W + lane] = rest;
    }
    with_target(task, [&](const auto& out) {
      for (int row = 0; row < n_rows; ++row)
        for (int64_t j = 0; j < F; ++j)
          out.data[(first_row + row) * out.row_stride + i * out.feature_stride + j * out.second_stride +
                   output * out.output_stride] = row_total[j * W + row];
    });
  }
}

template <class Real>
void interact_block(const ExplainTask<Real>& task, ExplainWorkspace<Real>& space, int64_t first_row, int n_rows) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t F = task.n_features, slots = task.max_slots;
  encode_rows<Real>(task.coding, task.rows, first_row, n_rows, W, W, space.tile);
  __builtin_memset(space.phi, 0, sizeof(space.phi[0]) * slots);
  __builtin_memset(space.pairs, 0, sizeof(space.pairs[0]) * slots * slots);
  for (int output = 0; output < task.n_outputs; ++output) {
    __builtin_memset(space.total, 0, sizeof(double) * F * W);
    __builtin_memset(space.pair_total, 0, sizeof(double) * task.n_selected * F * W);
    for (int t = 0; t < task.n_trees; ++t) {
      const ShapTree& tree = task.trees[t];
      if (task.width == 1 && tree.output != output) continue;
      for_each_pass(tree.n_points, InteractionPass<Real>{task, tree, space, output});
      collect_pairs(task, tree, space);
    }
    write_interactions(task, space, first_row, n_rows, output);
  }
}

template <class Real, class Rows>
void for_each_task(const ExplainTask<Real>& task, bool interactions, const Rows& explain) {
  const int64_t n_rows = task.rows.n_rows, size = (interactions ? 1 : task.n_blocks) * ExplainLanes<Real>::width;
  const int64_t n_tasks = (n_rows + size - 1) / size;
  share_out(task.team, n_tasks, [&](int64_t t, int32_t thread) {
    Arena arena{task.workspace + thread * task.workspace_size};
    ExplainWorkspace<Real> space(task, arena, interactions);
    const int64_t rest = n_rows - t * size;
    explain(task, space, t * size, int(rest < size ? rest : size));
  });
}

template <class Real>
void explain_values(const ExplainTask<Real>& task) {
  for_each_task(task, false, explain_rows<Real>);
}

template <class Real>
void explain_interactions(const ExplainTask<Real>& task) {
  for_each_task(task, true, interact_block<Real>);
}

template <class Real>
int64_t explain_workspace(const ExplainTask<Real>& task, bool interactions) {
  Arena arena{nullptr};
  ExplainWorkspace<Real>(task, arena, interactions);
  return arena.used();
}

}  // namespace
}  // namespace silva
