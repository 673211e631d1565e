// Fills the tables of interactions. With the game's multilinear extension G = Σ v Π g over a subtree's leaves, a
// feature's value is ∫ ∂_i G and half of an interaction ½ ∫ ∂_i ∂_j G (explain/cpu/interactions.h), so that pairs are
// built as build.h builds values, with a second derivative: a lane (i, j) holds T differentiated by those of i and j
// that lie below.
//   1. At a split of f, W[cell][k][i, j] = Σ_c A_c W_c for i, j != f, and Σ_c κ_c / H² V_c,j + A_c W_c for (f, j), the
//      second term where child c splits f again. V are the first derivatives, T in their last lane.
//   2. At the root, of the features in B and P: g_i g_j W_ij + d_i g_j V_j + g_i d_j V_i + d_i d_j T, d = o - z, times
//      the g of the others.
//   3. table[state] = Σ_k W[state of B][k] Q[state of P \ B][k]; Q has d instead of g in the lanes of a feature, and ½
//      for two features.
#pragma once
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "common/arena.h"
#include "explain/tables/kernels.h"
#include "explain/tables/pack.h"
#include "explain/tables/pairs.h"
#include "explain/tables/plan.h"
#include "explain/tables/points.h"

namespace glasswood {
namespace {

constexpr int kLastLane = kPairLanes - 1;
constexpr int kMostPairLanes = pair_vectors(kMostPairSlots) * kPairLanes;

// A chunk's pairs: their slots, and for each slot the other one of its pairs (kLastLane: none, which is T).
struct PairLanes {
  int32_t first[kMostPairLanes], second[kMostPairLanes];
  int32_t rest[kMostPairLanes];  // the second, of (i, i) none
  int32_t none[kPairLanes];
  int32_t other[kMostPairSlots][kMostPairLanes];

  explicit PairLanes(int slots) {
    for (int lane = 0; lane < kMostPairLanes; ++lane) first[lane] = second[lane] = kLastLane;
    for (int i = 0; i < slots; ++i)
      for (int j = i; j < slots; ++j) first[pair_of(i, j, slots)] = i, second[pair_of(i, j, slots)] = j;
    for (int lane = 0; lane < kMostPairLanes; ++lane)
      rest[lane] = first[lane] == second[lane] ? kLastLane : second[lane];
    for (int& lane : none) lane = kLastLane;
    for (int i = 0; i < slots; ++i)
      for (int lane = 0; lane < kMostPairLanes; ++lane) {
        const bool is_first = first[lane] == i, is_second = second[lane] == i;
        other[i][lane] = is_first == is_second ? kLastLane : is_first ? second[lane] : first[lane];
      }
  }
};

// Numbers of 16 lanes in another order.
template <class Real>
GLASSWOOD_INLINE Pack<Real, kPairLanes> spread(const Pack<Real, kPairLanes>& from, const int32_t* lanes) {
  Pack<Real, kPairLanes> result;
#if defined(__AVX512F__)
  if constexpr (sizeof(Real) == sizeof(float)) {
    result.v[0] =
        (decltype(result.v[0] + result.v[0]))_mm512_permutexvar_ps(_mm512_loadu_si512(lanes), (__m512)from.v[0]);
    return result;
  }
#endif
  alignas(64) Real in[kPairLanes], out[kPairLanes];
  __builtin_memcpy(in, &from, sizeof(in));
  for (int i = 0; i < kPairLanes; ++i) out[i] = in[lanes[i]];
  __builtin_memcpy(&result, out, sizeof(out));
  return result;
}

template <class Real>
struct PairSpace {
  using V = Pack<Real, kPairLanes>;
  V* x;       // [cell][K][first derivatives, pairs]
  V* hot;     // [state above][K][pairs] products
  V* once;    // [shared][K][pairs]: d of the pair's first slot, of its second
  V* twice;   // of both
  Real* all;  // [shared][K]
  V* edges;   // of PairBuilder::Edges

  PairSpace(const BuildTask<Real>& task, Arena& arena, int vectors) {
    const auto& plan = task.plan;
    const int64_t above = int64_t(1) << plan.most_above, shared = int64_t(1) << plan.most_shared;
    x = arena.take<V>(int64_t(plan.most_x + 1) * kMostPoints * (vectors + 1));
    hot = arena.take<V>(above * kMostPoints * vectors);
    once = arena.take<V>(2 * shared * kMostPoints * vectors);
    twice = arena.take<V>(shared * kMostPoints * vectors);
    all = arena.take<Real>(shared * kMostPoints);
    edges = arena.take<V>(2 * 3 * kMostPoints * (vectors + 1));
  }
};

template <class Real, int K>
class PairBuilder {
  static constexpr int L = kPairLanes, kMostVectors = pair_vectors(kMostPairSlots) + 1;
  using V = Pack<Real, L>;

 public:
  PairBuilder(const BuildTask<Real>& task, const PairSpace<Real>& space, const Subtree& subtree, const PairLanes& lanes,
              int n_vectors, int output)
      : task_(task), space_(space), subtree_(subtree), lanes_(lanes), n_(n_vectors), output_(output) {
    for (int k = 0; k < K; ++k) {
      point_[k] = task.points[(K - 1) * 2 * kMostPoints + k];
      weight_[k] = task.points[(K - 1) * 2 * kMostPoints + kMostPoints + k];
    }
  }

  void run() {
    for (int i = 0; i < subtree_.n_splits; ++i) add_split(task_.plan.splits[subtree_.first_split + i]);
    const int64_t root = subtree_.n_splits ? splits()[subtree_.n_splits - 1].first_x : 0;
    if (subtree_.n_splits == 0) fill_leaf(subtree_.leaf, x_at(0));
    if (subtree_.n_shared) close_shared(x_at(root));
    write(x_at(root));
  }

 private:
  const BuildTask<Real>& task_;
  const PairSpace<Real>& space_;
  const Subtree& subtree_;
  const PairLanes& lanes_;
  int n_, output_;
  double point_[K], weight_[K];

  const SubtreeSplit* splits() const { return task_.plan.splits + subtree_.first_split; }
  const PathFactor* factors() const { return task_.plan.factors + subtree_.first_factor; }
  int64_t stride() const { return int64_t(K) * (n_ + 1); }  // of a cell
  V* x_at(int64_t cell) const { return space_.x + cell * stride(); }
  Real leaf(int32_t index) const { return Real(task_.leaf_value[int64_t(index) * task_.plan.width + output_]); }
  void fill_leaf(int32_t index, V* x) const {
    for (int64_t i = 0; i < stride(); ++i) x[i] = V::splat(leaf(index));
  }

  // Slots of a lane; the first derivatives' are pairs with T.
  uint32_t slots_of(int vector, int lane) const {
    if (vector == 0) return 1u << lane & ~(1u << kLastLane);
    const int at = (vector - 1) * L + lane;
    return (1u << lanes_.first[at] | 1u << lanes_.second[at]) & ~(1u << kLastLane);
  }

  // What the sides of a split multiply their child's sums with, by the side that the state takes.
  struct Edges {
    V* own;               // [side][taken][k][vector]
    Real slope[2][3][K];  // of lanes of the split's feature, where the child splits it again
    uint32_t again[2][pair_vectors(kMostPairSlots)];  // these lanes
  };

  // 1 in lanes that keep their derivative across an edge, and in those whose feature it derives by.
  void set_lanes(const SubtreeSplit& split, int side, int vector, V& kept, V& derived, uint32_t& again) const {
    alignas(64) Real rest[L], own[L];
    again = 0;
    for (int i = 0; i < L; ++i) {
      const uint32_t slots = slots_of(vector, i);
      const bool is_absent = slots & split.absent[side], is_own = slots >> split.lane & 1;
      const bool is_again = split.again >> side & 1;
      rest[i] = !is_absent && (!is_own || is_again), own[i] = !is_absent && is_own && !is_again;
      again |= uint32_t(!is_absent && is_own && is_again) << i;
    }
    __builtin_memcpy(&kept, rest, sizeof(V)), __builtin_memcpy(&derived, own, sizeof(V));
  }

  void set_edges(const SubtreeSplit& split, Edges& edges) const {
    V kept[kMostVectors], derived[kMostVectors];
    uint32_t of_values;
    for (int side = 0; side < 2; ++side) {
      for (int v = 0; v <= n_; ++v)
        set_lanes(split, side, v, kept[v], derived[v], v ? edges.again[side][v - 1] : of_values);
      for (int taken = 0; taken < 3; ++taken)
        for (int k = 0; k < K; ++k) {
          const SplitEdge edge = split_edge(split, side, taken, point_[k]);
          const Real a = Real(edge.factor), gain = Real(edge.slope);
          edges.slope[side][taken][k] = gain;
          V* to = edges.own + ((side * 3 + taken) * K + k) * (n_ + 1);
          for (int v = 0; v <= n_; ++v) to[v] = kept[v] * a + derived[v] * gain;
        }
    }
  }

  void add_split(const SubtreeSplit& split) const {
    Edges edges;
    edges.own = space_.edges;
    set_edges(split, edges);
    const V* x[2];
    V leaf_x[2][K * kMostVectors];
    for (int side = 0; side < 2; ++side) {
      x[side] = split.child[side] >= 0 ? x_at(splits()[split.child[side]].first_x) : leaf_x[side];
      if (split.child[side] < 0) fill_leaf(split.leaf[side], leaf_x[side]);
    }
    const Cell* cells = task_.plan.cells + split.first_cell;
    for (int c = 0; c < split.n_cells; ++c) add_cell(split, edges, cells[c], x, x_at(split.first_x + c));
  }

  void add_cell(const SubtreeSplit& split, const Edges& edges, const Cell& cell, const V* const (&x)[2], V* out) const {
    const V *l = x[0] + cell.child[0] * stride(), *r = x[1] + cell.child[1] * stride();
    const V *left = edges.own + cell.side * stride(), *right = edges.own + (3 + cell.side) * stride();
    for (int64_t i = 0; i < stride(); ++i) out[i] = left[i] * l[i] + right[i] * r[i];
    for (int side = 0; side < 2; ++side)
      if ((split.again >> side & 1) && cell.side)
        add_again(split, edges.slope[side][cell.side], edges.again[side], side ? r : l, out);
  }

  // κ / H² times the child's sums without the split's feature, in the lanes of that feature.
  void add_again(const SubtreeSplit& split, const Real (&slope)[K], const uint32_t* lanes, const V* x, V* out) const {
    const int32_t* other = lanes_.other[split.lane];
    const V zero = V::splat(Real(0));
    for (int k = 0; k < K; ++k) {
      const V from = x[int64_t(k) * (n_ + 1)] * slope[k];
      V* to = out + int64_t(k) * (n_ + 1);
      to[0] += V::mix(1u << split.lane, zero, spread(from, lanes_.none));
      for (int v = 0; v < n_; ++v) to[v + 1] += V::mix(lanes[v], zero, spread(from, other + v * L));
    }
  }

  // A factor's g and d in the states outside and inside.
  struct Factor {
    Real g[2][K], d[2];
    explicit Factor(const PathFactor& factor, const double (&point)[K]) {
      for (int o = 0; o < 2; ++o) {
        d[o] = Real(path_slope(factor.z, o));
        for (int k = 0; k < K; ++k) g[o][k] = Real(path_factor(factor.z, o, point[k]));
      }
    }
  };

  // Products over factors by state, 2^n of them, that start from state 0's: d in lanes where `has` says so, else g.
  template <class Has>
  void multiply_out(const PathFactor* first, int n, V* product, const Has& has) const {
    for (int i = 0; i < n; ++i) {
      const Factor factor(first[i], point_);
      for (int v = 0; v < n_; ++v) {
        alignas(64) Real derived[L];
        for (int lane = 0; lane < L; ++lane) derived[lane] = has(v * L + lane, first[i].lane);
        const V d = *reinterpret_cast<const V*>(derived);
        V g = V::splat(Real(1));
        for (int j = 0; j < V::N; ++j) g.v[j] -= d.v[j];
        for (int64_t s = 0; s < int64_t(1) << i; ++s)
          for (int k = 0; k < K; ++k)
            for (int o = 1; o >= 0; --o)
              product[((s | int64_t(o) << i) * K + k) * n_ + v] =
                  product[(s * K + k) * n_ + v] * (g * factor.g[o][k] + d * factor.d[o]);
      }
    }
  }

  template <class Value>
  void start(V* product, const Value& value) const {
    for (int v = 0; v < n_; ++v)
      for (int k = 0; k < K; ++k) {
        alignas(64) Real first[L];
        for (int lane = 0; lane < L; ++lane) first[lane] = value(v * L + lane, k);
        product[k * n_ + v] = *reinterpret_cast<const V*>(first);
      }
  }

  void close_shared(V* x) const {
    uint32_t shared = 0;
    for (int i = 0; i < subtree_.n_shared; ++i) shared |= 1u << factors()[i].lane;
    const auto is_shared = [&](int32_t slot) { return shared >> slot & 1; };
    const auto &first = lanes_.first, &second = lanes_.second;
    const int64_t n_states = int64_t(1) << subtree_.n_shared;
    V *one = space_.once, *other = one + n_states * K * n_, *two = space_.twice;
    start(one, [&](int i, int) { return Real(is_shared(first[i])); });
    start(other, [&](int i, int) { return Real(first[i] != second[i] && is_shared(second[i])); });
    start(two, [&](int i, int) { return Real(first[i] != second[i] && is_shared(first[i]) && is_shared(second[i])); });
    multiply_plain();
    multiply_out(factors(), subtree_.n_shared, one, [&](int i, int32_t slot) { return Real(first[i] == slot); });
    multiply_out(factors(), subtree_.n_shared, other, [&](int i, int32_t slot) { return Real(second[i] == slot); });
    multiply_out(factors(), subtree_.n_shared, two,
                 [&](int i, int32_t slot) { return Real(first[i] == slot || second[i] == slot); });
    const uint16_t* bits = task_.plan.bits + subtree_.first_bits;
    for (int64_t c = 0; c < subtree_.n_cells; ++c)
      for (int k = 0; k < K; ++k) close_cell(x + c * stride() + k * (n_ + 1), int64_t(bits[c]) * K + k);
  }

  void multiply_plain() const {
    Real* all = space_.all;
    for (int k = 0; k < K; ++k) all[k] = 1;
    for (int i = 0; i < subtree_.n_shared; ++i) {
      const Factor factor(factors()[i], point_);
      for (int64_t s = 0; s < int64_t(1) << i; ++s)
        for (int k = 0; k < K; ++k)
          for (int o = 1; o >= 0; --o) all[(s | int64_t(o) << i) * K + k] = all[s * K + k] * factor.g[o][k];
    }
  }

  void close_cell(V* x, int64_t state) const {
    const Real all = space_.all[state];
    const int64_t at = state * n_;
    const V* two = space_.twice + at;
    const V *one = space_.once + at, *other = one + (int64_t(1) << subtree_.n_shared) * K * n_;
    const V t = spread(x[0], lanes_.none);
    for (int v = 0; v < n_; ++v) {
      const V without_first = spread(x[0], lanes_.rest + v * L), without_second = spread(x[0], lanes_.first + v * L);
      x[v + 1] = x[v + 1] * all + one[v] * without_first + other[v] * without_second + two[v] * t;
    }
  }

  void write(const V* x) const {
    V* q = space_.hot;
    const auto &first = lanes_.first, &second = lanes_.second;
    const auto has = [&](int32_t slot) { return slot < kLastLane && (subtree_.lanes >> slot & 1); };
    start(q, [&](int i, int k) {
      if (!has(first[i]) || !has(second[i])) return Real(0);
      return Real(first[i] == second[i] ? weight_[k] : weight_[k] / 2);
    });
    multiply_out(factors() + subtree_.n_shared, subtree_.n_above, q,
                 [&](int i, int32_t slot) { return Real(first[i] == slot || second[i] == slot); });
    V* out = reinterpret_cast<V*>(task_.table) + output_ * task_.n_vectors + subtree_.first_vector - task_.first_vector;
    for (int64_t top = 0; top < int64_t(1) << subtree_.n_above; ++top)
      for (int64_t c = 0; c < subtree_.n_cells; ++c, out += n_)
        for (int v = 0; v < n_; ++v) out[v] = value_of(x + c * stride() + v + 1, q + top * K * n_ + v);
  }

  GLASSWOOD_INLINE V value_of(const V* x, const V* q) const {
    V sum = q[0] * x[0];
    GLASSWOOD_UNROLL
    for (int k = 1; k < K; ++k) sum += q[k * n_] * x[k * (n_ + 1)];
    return sum;
  }
};

template <class Real>
void build_pair_subtree(const BuildTask<Real>& task, const PairSpace<Real>& space, const Subtree& subtree,
                        const PairLanes& lanes, int n_vectors, int output) {
  with_points(subtree.n_points,
              [&]<int K>() { PairBuilder<Real, K>(task, space, subtree, lanes, n_vectors, output).run(); });
}

template <class Real>
void build_pair_chunk(const BuildTask<Real>& task, const PairSpace<Real>& space, const TableChunk& chunk) {
  const PairLanes lanes(chunk.n_slots);
  for (int s = chunk.first_subtree; s < chunk.first_subtree + chunk.n_subtrees; ++s)
    for (int output = 0; output < task.plan.width; ++output)
      build_pair_subtree(task, space, task.plan.subtrees[s], lanes, chunk.state_vectors, output);
}

}  // namespace
}  // namespace glasswood
