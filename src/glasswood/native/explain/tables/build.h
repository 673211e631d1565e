// Fills the tables of values without walking their states one by one. With the letters of explain/cpu/shap.h and B
// the features below a node, P those of the path to it:
//   1. bottom up over the splits, X[cell of B][k][lane]: C_f,k = Σ (κ / H²) T_k in the lane of f in B, T_k in others.
//   2. at the root: times the factors g = z + (o - z) t of the features in B and P; their lanes gain
//      (o_f - z_f) Π_{j != f} g_j T_k.
//   3. table[state] = Σ_k X[state of B][k] Q[state of P \ B][k], Q = w_k Π g, (o_f - z_f) Π_{j != f} g_j in the lane of
//   f.
// All factors but o - z are positive and 1 / H stands in step 1 alone: nothing cancels.
#pragma once
#include "common/arena.h"
#include "explain/tables/kernels.h"
#include "explain/tables/pack.h"
#include "explain/tables/plan.h"
#include "explain/tables/wanted.h"

namespace glasswood {
namespace {

// Calls build<K>() for the fewest points that are exact for n_points.
template <class Build>
GLASSWOOD_INLINE void with_points(int n_points, const Build& build) {
#ifdef GLASSWOOD_FEW_INSTANCES
  if (n_points <= 4) return build.template operator()<4>();
#else
  if (n_points <= 1) return build.template operator()<1>();
  if (n_points == 2) return build.template operator()<2>();
  if (n_points == 3) return build.template operator()<3>();
  if (n_points == 4) return build.template operator()<4>();
  if (n_points <= 6) return build.template operator()<6>();
#endif
  build.template operator()<8>();
}

template <class Real>
struct BuildSpace {
  Real* x;    // [cell][K][lane]
  Real* t;    // [cell][K]
  Real* hot;  // [shared or above][K][lane] products by state
  Real* all;  // [shared][K]
  WantedStates wanted;

  BuildSpace(const BuildTask<Real>& task, Arena& arena, int lanes) {
    const auto& plan = task.plan;
    const int64_t states = int64_t(1) << (plan.most_shared > plan.most_above ? plan.most_shared : plan.most_above);
    x = arena.take<Real>(int64_t(plan.most_x + 1) * kMostPoints * lanes);
    t = arena.take<Real>(int64_t(plan.most_x + 1) * kMostPoints);
    hot = arena.take<Real>(states * kMostPoints * lanes);
    all = arena.take<Real>(states * kMostPoints);
    wanted = WantedStates(plan, task.n_rows, arena);
  }
};

template <class Real, int L, int K>
class SubtreeBuilder {
  using V = Pack<Real, L>;

 public:
  SubtreeBuilder(const BuildTask<Real>& task, const BuildSpace<Real>& space, const Subtree& subtree,
                 const uint16_t* keys, int output)
      : task_(task), space_(space), subtree_(subtree), keys_(keys), output_(output) {
    for (int k = 0; k < K; ++k) {
      point_[k] = task.points[(K - 1) * 2 * kMostPoints + k];
      weight_[k] = task.points[(K - 1) * 2 * kMostPoints + kMostPoints + k];
    }
  }

  void run() {
    if (keys_) space_.wanted.find(subtree_, task_.plan, keys_, task_.n_rows);
    for (int i = 0; i < subtree_.n_splits; ++i) add_split(i);
    const int64_t root = subtree_.n_splits ? splits()[subtree_.n_splits - 1].first_x : 0;
    if (subtree_.n_splits == 0) {
      for (int k = 0; k < K; ++k) x_at(0)[k] = V::splat(leaf(subtree_.leaf)), t_at(0)[k] = leaf(subtree_.leaf);
    }
    if (subtree_.n_shared) close_shared(x_at(root), t_at(root));
    write(x_at(root));
  }

 private:
  const BuildTask<Real>& task_;
  const BuildSpace<Real>& space_;
  const Subtree& subtree_;
  const uint16_t* keys_;  // of few rows, or null
  int output_;
  double point_[K], weight_[K];

  const SubtreeSplit* splits() const { return task_.plan.splits + subtree_.first_split; }
  const PathFactor* factors() const { return task_.plan.factors + subtree_.first_factor; }
  V* x_at(int64_t cell) const { return reinterpret_cast<V*>(space_.x) + cell * K; }
  Real* t_at(int64_t cell) const { return space_.t + cell * K; }
  Real leaf(int32_t index) const { return Real(task_.leaf_value[int64_t(index) * task_.plan.width + output_]); }

  // What one side of a split multiplies its child's sums with, by the side that the state takes.
  struct Edges {
    Real factor[2][3][K];
    V own[2][3][K];     // of X
    V from_t[2][3][K];  // of T, where the child splits the feature again
  };

  void set_edges(const SubtreeSplit& split, Edges& edges) const {
    const uint32_t lane = 1u << split.lane;
    for (int side = 0; side < 2; ++side) {
      const bool again = split.again >> side & 1;
      for (int taken = 0; taken < 3; ++taken)
        for (int k = 0; k < K; ++k) {
          const SplitEdge edge = split_edge(split, side, taken, point_[k]);
          const Real a = Real(edge.factor), gain = Real(edge.slope);
          edges.factor[side][taken][k] = a;
          const V all = V::splat(a), slope = V::splat(gain), zero = V::splat(Real(0));
          edges.own[side][taken][k] = V::mix(split.absent[side], again ? all : V::mix(lane, all, slope), zero);
          edges.from_t[side][taken][k] = again ? V::mix(lane, zero, slope) : zero;
        }
    }
  }

  void add_split(int index) const {
    const SubtreeSplit& split = splits()[index];
    Edges edges;
    set_edges(split, edges);
    V leaf_x[2][K];
    Real leaf_t[2][K];
    const V* x[2];
    const Real* t[2];
    for (int side = 0; side < 2; ++side) {
      if (split.child[side] >= 0) {
        const int64_t at = splits()[split.child[side]].first_x;
        x[side] = x_at(at), t[side] = t_at(at);
        continue;
      }
      const Real value = leaf(split.leaf[side]);
      for (int k = 0; k < K; ++k) leaf_x[side][k] = V::splat(value), leaf_t[side][k] = value;
      x[side] = leaf_x[side], t[side] = leaf_t[side];
    }
    if (split.again)
      add_cells<true>(split, cells_of(index), edges, x, t);
    else
      add_cells<false>(split, cells_of(index), edges, x, t);
  }

  // Those of a split that are built.
  CellList cells_of(int split) const {
    return keys_ ? space_.wanted.cells(splits()[split], split) : CellList{nullptr, splits()[split].n_cells};
  }
  CellList root_cells() const {
    return subtree_.n_splits ? cells_of(subtree_.n_splits - 1) : CellList{nullptr, subtree_.n_cells};
  }

  template <bool Again>
  void add_cells(const SubtreeSplit& split, const CellList& list, const Edges& edges, const V* const (&x)[2],
                 const Real* const (&t)[2]) const {
    const Cell* cells = task_.plan.cells + split.first_cell;
    V* x_out = x_at(split.first_x);
    Real* t_out = t_at(split.first_x);
    for (int i = 0; i < list.n; ++i) {
      const int c = list[i];
      const Cell cell = cells[c];
      const V *l = x[0] + cell.child[0] * K, *r = x[1] + cell.child[1] * K;
      const Real *tl = t[0] + cell.child[0] * K, *tr = t[1] + cell.child[1] * K;
      GLASSWOOD_UNROLL
      for (int k = 0; k < K; ++k) {
        V sum = edges.own[0][cell.side][k] * l[k] + edges.own[1][cell.side][k] * r[k];
        if (Again) sum += edges.from_t[0][cell.side][k] * tl[k] + edges.from_t[1][cell.side][k] * tr[k];
        x_out[int64_t(c) * K + k] = sum;
        t_out[int64_t(c) * K + k] = edges.factor[0][cell.side][k] * tl[k] + edges.factor[1][cell.side][k] * tr[k];
      }
    }
  }

  // A feature's factor in the states outside and inside: `derived` in its own lane, `plain` in others.
  void factor_of(const PathFactor& factor, V (&hot)[2][K], Real (&plain)[2][K]) const {
    const uint32_t lane = 1u << factor.lane;
    for (int o = 0; o < 2; ++o)
      for (int k = 0; k < K; ++k) {
        plain[o][k] = Real(path_factor(factor.z, o, point_[k]));
        hot[o][k] = V::mix(lane, V::splat(plain[o][k]), V::splat(Real(path_slope(factor.z, o))));
      }
  }

  // Products over factors by state, 2^n of them; starts from state 0's.
  void multiply_out(const PathFactor* first, int n, V* hot, Real* all) const {
    for (int i = 0; i < n; ++i) {
      V with[2][K];
      Real plain[2][K];
      factor_of(first[i], with, plain);
      for (int64_t s = 0; s < int64_t(1) << i; ++s)
        for (int k = 0; k < K; ++k)
          for (int o = 1; o >= 0; --o) {
            const int64_t to = (s | int64_t(o) << i) * K + k;
            hot[to] = hot[s * K + k] * with[o][k];
            if (all) all[to] = all[s * K + k] * plain[o][k];
          }
    }
  }

  void close_shared(V* x, const Real* t) const {
    V* hot = reinterpret_cast<V*>(space_.hot);
    uint32_t lanes = 0;
    for (int i = 0; i < subtree_.n_shared; ++i) lanes |= 1u << factors()[i].lane;
    for (int k = 0; k < K; ++k) {
      hot[k] = V::mix(lanes, V::splat(Real(0)), V::splat(Real(1)));
      space_.all[k] = 1;
    }
    multiply_out(factors(), subtree_.n_shared, hot, space_.all);
    const uint16_t* bits = task_.plan.bits + subtree_.first_bits;
    const CellList list = root_cells();
    for (int i = 0; i < list.n; ++i)
      for (int64_t c = list[i], k = 0; k < K; ++k)
        x[c * K + k] = x[c * K + k] * space_.all[bits[c] * K + k] + hot[bits[c] * K + k] * t[c * K + k];
  }

  void write(const V* x) const {
    V* q = reinterpret_cast<V*>(space_.hot);
    for (int k = 0; k < K; ++k) q[k] = V::mix(subtree_.lanes, V::splat(Real(0)), V::splat(Real(weight_[k])));
    multiply_out(factors() + subtree_.n_shared, subtree_.n_above, q, nullptr);
    if (!keys_) {
      for (int64_t top = 0; top < int64_t(1) << subtree_.n_above; ++top)
        write_cells({nullptr, subtree_.n_cells}, x, q + top * K, top);
      return;
    }
    for (int i = 0; i < space_.wanted.n_states; ++i) {
      const uint16_t state = space_.wanted.states[i], cell = uint16_t(state % subtree_.n_cells);
      const int64_t top = state / subtree_.n_cells;
      write_cells({&cell, 1}, x, q + top * K, top);
    }
  }

  // One machine code for few rows and many, and so the same bits.
  __attribute__((noinline)) void write_cells(const CellList& list, const V* x, const V* q, int64_t top) const {
    const int64_t first = output_ * task_.n_vectors + subtree_.first_vector - task_.first_vector;
    V* out = reinterpret_cast<V*>(task_.table + first * task_.plan.lanes) + top * subtree_.n_cells;
    for (int i = 0; i < list.n; ++i) out[list[i]] = value_of(x + list[i] * K, q);
  }

  GLASSWOOD_INLINE V value_of(const V* x, const V* q) const {
    V sum = q[0] * x[0];
    GLASSWOOD_UNROLL
    for (int k = 1; k < K; ++k) sum += q[k] * x[k];
    return sum;
  }
};

template <class Real, int L>
void build_subtree(const BuildTask<Real>& task, const BuildSpace<Real>& space, const Subtree& subtree,
                   const uint16_t* keys, int output) {
  with_points(subtree.n_points, [&]<int K>() { SubtreeBuilder<Real, L, K>(task, space, subtree, keys, output).run(); });
}

template <class Real>
void build_chunk(const BuildTask<Real>& task, const BuildSpace<Real>& space, const TableChunk& chunk) {
  for (int s = chunk.first_subtree; s < chunk.first_subtree + chunk.n_subtrees; ++s) {
    const Subtree& subtree = task.plan.subtrees[s];
    const int64_t first = task.plan.chunks[task.first_chunk].first_subtree;
    const uint16_t* keys = task.keys ? task.keys + (s - first) * task.n_rows : nullptr;
    for (int output = 0; output < task.plan.width; ++output)
      if (chunk.state_vectors == 1)
        build_subtree<Real, kValueLanes>(task, space, subtree, keys, output);
      else
        build_subtree<Real, kMostLanes>(task, space, subtree, keys, output);
  }
}

template <class Real>
int64_t build_workspace(const BuildTask<Real>& task) {
  Arena arena{nullptr};
  BuildSpace<Real>(task, arena, kMostLanes);
  return arena.used();
}

template <class Real>
void build_tables(const BuildTask<Real>& task) {
  share_out(task.team, task.n_chunks, [&](int64_t i, int32_t thread) {
    Arena arena{task.workspace + thread * task.workspace_size};
    build_chunk(task, BuildSpace<Real>(task, arena, kMostLanes), task.plan.chunks[task.first_chunk + i]);
  });
}

}  // namespace
}  // namespace glasswood
