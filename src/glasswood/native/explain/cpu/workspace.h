// The memory of a thread that explains rows: what the walks keep by depth, and the sums. Included by
// explain/cpu/kernels.cpp only.
#pragma once
#include "common/arena.h"
#include "common/vectors.h"
#include "explain/cpu/linear_pairs.h"
#include "explain/cpu/task.h"

namespace glasswood {
namespace {

#ifdef GLASSWOOD_FEW_INSTANCES
constexpr int kMaxPoints = 2;  // of one pass; more quadrature points take several walks
#else
constexpr int kMaxPoints = 8;
#endif

#ifdef GLASSWOOD_SCALAR
constexpr bool kScalar = true;
#else
constexpr bool kScalar = false;
#endif

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

// One thread's memory. phi and pairs hold the sums of one tree, or of those that share slots, in Real; totals those of
// all trees in float64.
template <class Real>
struct ExplainWorkspace {
  using L = ExplainLanes<Real>;
  using Value = typename L::Value;
  Real* tile;
  double* raw;        // [feature][lane]: values of the rows, for linear leaves
  Value* attributed;  // [term] of the leaf at work
  EntrySides<Value> sides;
  Value* phi;          // [slot][output of vector leaves]
  double* total;       // [place of plan.h's total_of][lane]; of interactions [player][lane]
  Value* pairs;        // [slot][slot]
  double* pair_total;  // [selected][player][lane]
  WalkMemory<L> stack;

  ExplainWorkspace(const ExplainTask<Real>& task, Arena& arena, bool interactions) {
    constexpr int W = L::width;
    const int64_t depth = task.max_depth + 2, slots = task.max_slots, outputs = interactions ? 1 : task.width;
    const int64_t blocks = interactions ? 1 : task.n_blocks;
    tile = arena.take<Real>(blocks * task.n_features * W);
    raw = arena.take<double>(task.models ? blocks * task.n_features * W : 0);
    attributed = arena.take<Value>(task.max_terms);
    sides.kappa = arena.take<Value>(int64_t(task.max_entries) * kMaxPoints);
    sides.beta = arena.take<Value>(int64_t(task.max_entries) * kMaxPoints);
    phi = arena.take<Value>(slots * outputs);
    total = arena.take<double>(blocks * (interactions ? task.n_players : task.n_totals) * W);
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
    pair_total = arena.take<double>(on * int64_t(task.n_selected) * task.n_players * W);
  }
  template <int K>
  WalkStack<L, K> stack_of() const {
    return {stack};
  }
};

}  // namespace
}  // namespace glasswood
