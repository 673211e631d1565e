// Fills the tables of subtrees leaf by leaf: a leaf's game makes an entry for each set of conditions that a row does
// not meet, and a state's entry is the sum over the leaves, in float64. Against background rows, how many of them are
// in each state of the subtree says how many meet which conditions of a leaf. Where players have several features, the
// shares of the covers make the game.
#pragma once
#include "common/arena.h"
#include "explain/tables/kernels.h"
#include "explain/tables/leaf_games/cell_conditions.h"
#include "explain/tables/leaf_games/leaf_entries.h"
#include "explain/tables/leaf_games/leaf_shares.h"
#include "explain/tables/pairs.h"
#include "explain/tables/wanted.h"
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace glasswood {
namespace {

// A leaf's entries of weight 1, one a set of conditions that are not met.
struct LeafEntries {
  const double* entries;
  const uint16_t* unmet;  // [cell], kLeafLanes apart
  int32_t n_below, n_positions;
};

// A state that background rows are in.
struct SeenState {
  int32_t cell;
  uint32_t above;
  int64_t count;
};

// Whether `task` is a game against background rows.
template <class Real>
bool has_background(const LeafGameTask<Real>& task) {
  return task.count.few || task.count.many || task.seen.first;
}

// A state that few explained rows are in.
struct WantedState {
  int32_t state, cell;
  uint32_t outside;  // features of the path alone that it does not meet
};

// How many background rows meet which of a leaf's conditions. Out of line, as the loops below, it keeps its registers.
__attribute__((noinline)) void count_sets(const SeenState* seen, int32_t n_seen, const uint16_t* unmet,
                                          const SubtreeLeaf& leaf, int64_t* count) {
  const uint32_t all = (1u << leaf.n_positions) - 1;
  const int32_t n_below = leaf.n_below;
  __builtin_memset(count, 0, sizeof(int64_t) << leaf.n_positions);
  for (int32_t i = 0; i < n_seen; ++i)
    count[all & ~(uint32_t(unmet[seen[i].cell * kLeafLanes]) | ~seen[i].above << n_below)] += seen[i].count;
}

// The sets of a leaf's conditions that wanted states do not meet.
struct WantedSets {
  const WantedState* states;
  int32_t n;
  const uint16_t* unmet;  // as of LeafEntries
  int32_t n_below;
  GLASSWOOD_INLINE uint32_t operator[](int32_t i) const {
    return unmet[states[i].cell * kLeafLanes] | states[i].outside << n_below;
  }
};

using EightSums = Pack<double, 8>;

// Adds a leaf's entries to the sums of wanted states, `size` numbers each.
__attribute__((noinline)) void add_entries(const WantedSets& of, const double* entries, int size, double value,
                                           double* sums) {
  const WantedSets sets = of;
  for (int first = 0; first < size; first += 8)
    for (int32_t i = 0; i < sets.n; ++i)
      *reinterpret_cast<EightSums*>(sums + i * size + first) +=
          *reinterpret_cast<const EightSums*>(entries + sets[i] * int64_t(size) + first) * value;
}

// The same from the leaf's tables, where these are larger than what few states take.
__attribute__((noinline)) void add_looked_up(const WantedSets& of, const LeafTables& tables,
                                             const LanePositions& positions, int size, double value, double* sums) {
  for (int first = 0; first < size; first += 8)
    for (int32_t i = 0; i < of.n; ++i)
      *reinterpret_cast<EightSums*>(sums + i * size + first) +=
          entry_of(positions, tables.t[0], tables.t[1], first, of[i]) * value;
}

template <class Real>
struct LeafGameSpace {
  double* entries;  // [leaf][set][number]
  LeafBits* unmet;  // [leaf / kLeafLanes][cell], a lane a leaf
  LeafTables tables;
  int64_t* count;  // [set]
  SeenState* seen;
  LeafEntries* leaves;  // of the subtree
  const double** at;    // [leaf]: its entries for the state above
  double* value;        // [leaf]
  // For few rows:
  WantedStates found;
  WantedState* wanted;
  double* sums;  // [output][wanted state][number]

  LeafGameSpace(const LeafGameTask<Real>& task, Arena& arena, int most_numbers) {
    constexpr int64_t kSets = int64_t(1) << kMostPositions;
    const auto& plan = task.plan;
    const int64_t n_sets = plan.most_patterns < kSets ? plan.most_patterns : kSets;
    entries = arena.take<double>(plan.most_patterns * most_numbers);
    unmet = arena.take<LeafBits>(plan.most_unmet / kLeafLanes);
    tables.sums = arena.take<double>(n_sets * (kMostPositions / 2));
    tables.last = arena.take<double>(n_sets);
    for (double*& t : tables.t) t = arena.take<double>(n_sets);
    count = arena.take<int64_t>(n_sets);
    seen = arena.take<SeenState>(plan.most_states);
    leaves = arena.take<LeafEntries>(plan.most_leaves);
    at = arena.take<const double*>(plan.most_leaves);
    value = arena.take<double>(plan.most_leaves);
    if (task.n_rows == 0) return;
    found = WantedStates(plan, task.n_rows, arena);
    wanted = arena.take<WantedState>(task.n_rows);
    const int64_t most_wanted = task.n_rows < plan.most_states ? task.n_rows : plan.most_states;
    sums = arena.take<double>(most_wanted * plan.width * most_numbers);
  }
};

// The state above of states of a subtree that rise: no division each.
class AboveOf {
 public:
  explicit AboveOf(const Subtree& subtree) : n_cells_(subtree.n_cells), end_(subtree.n_cells) {}
  GLASSWOOD_INLINE int32_t operator()(int32_t state) {
    for (; state >= end_; end_ += n_cells_) ++above_;
    return above_;
  }

 private:
  int32_t n_cells_, end_, above_ = 0;
};

// Lanes L of a vector, of which a state has some.
template <class Real, int L>
class LeafGameBuilder {
 public:
  LeafGameBuilder(const LeafGameTask<Real>& task, const LeafGameSpace<Real>& space, const TableChunk& chunk)
      : task_(task),
        space_(space),
        chunk_(chunk),
        size_(chunk.state_vectors * L),
        of_pairs_(task.plan.content == TableContent::kPairs),
        two_(points(2), points(2) + kMostPoints),
        four_(points(4), points(4) + kMostPoints),
        eight_(points(8), points(8) + kMostPoints) {}

  // `index` counts from the first subtree of the task; `keys` are those of few rows, or null.
  void run(const Subtree& subtree, int index, const uint16_t* keys) const {
    const int32_t n_seen = find_seen(subtree, index), n_wanted = keys ? find_wanted(subtree, keys) : 0;
    multiply_out_all(subtree);
    if (keys && has_background(task_) && !of_pairs_) return sum_wanted(subtree, n_seen, n_wanted);
    double* entries = space_.entries;
    for (int i = 0; i < subtree.n_leaves; ++i) {
      const SubtreeLeaf& leaf = task_.plan.leaves[subtree.first_leaf + i];
      const uint16_t* unmet = unmet_of(subtree, i);
      fill_all(leaf, unmet, n_seen, entries);
      space_.leaves[i] = {entries, unmet, leaf.n_below, leaf.n_positions};
      entries += int64_t(size_) << leaf.n_positions;
    }
    for (int output = 0; output < task_.plan.width; ++output) {
      find_values(subtree, output);
      if (keys)
        write_wanted(subtree, n_wanted, table_of(subtree, output));
      else
        write(subtree, table_of(subtree, output));
    }
  }

 private:
  static constexpr int kTogether = L == 8 ? 4 : 2;
  static constexpr int kMostFilled = 2;  // entries of a leaf that are filled for each wanted state

  const LeafGameTask<Real>& task_;
  const LeafGameSpace<Real>& space_;
  const TableChunk& chunk_;
  int32_t size_;  // numbers of an entry
  bool of_pairs_;
  LeafPoints<2> two_;
  LeafPoints<4> four_;
  LeafPoints<8> eight_;

  Real* table_of(const Subtree& subtree, int output) const {
    return task_.table + (output * task_.n_vectors + subtree.first_vector - task_.first_vector) * L;
  }
  const double* points(int n) const { return task_.points + (n - 1) * 2 * kMostPoints; }

  void multiply_out_all(const Subtree& subtree) const {
    const SubtreeLeaf* leaves = task_.plan.leaves + subtree.first_leaf;
    for (int first = 0; first < subtree.n_leaves; first += kLeafLanes) {
      const uint16_t* of_state[kLeafLanes];
      for (int i = 0; i < kLeafLanes; ++i) {
        const int leaf = first + i < subtree.n_leaves ? first + i : first;
        of_state[i] = task_.plan.unmet + leaves[leaf].first_unmet;
      }
      multiply_out(of_state, task_.plan.axis_states + subtree.first_axis, subtree.n_axes,
                   space_.unmet + int64_t(first / kLeafLanes) * subtree.n_cells);
    }
  }

  // As in LeafEntries.
  const uint16_t* unmet_of(const Subtree& subtree, int leaf) const {
    const LeafBits* first = space_.unmet + int64_t(leaf / kLeafLanes) * subtree.n_cells;
    return reinterpret_cast<const uint16_t*>(first) + leaf % kLeafLanes;
  }

  int32_t find_seen(const Subtree& subtree, int index) const {
    if (task_.seen.first) return take_seen(subtree, index);
    const int64_t first = subtree.first_vector - task_.first_count;
    if (task_.count.few) return find_counts(subtree, task_.count.few + first);
    return task_.count.many ? find_counts(subtree, task_.count.many + first) : 0;
  }

  // Most states have no row.
  template <class Count>
  int32_t find_counts(const Subtree& subtree, const Count* count) const {
    AboveOf above_of(subtree);
    int32_t n_seen = 0;
    const auto take = [&](int32_t state) {
      const int32_t above = above_of(state);
      space_.seen[n_seen++] = {state - above * subtree.n_cells, uint32_t(above), int64_t(count[state])};
    };
    int32_t first = 0;
#if defined(__AVX512BW__)
    constexpr int32_t kCounts = sizeof(Count) == 2 ? 32 : 8;
    for (; first + kCounts <= subtree.n_states; first += kCounts) {
      const __m512i some = _mm512_loadu_si512(count + first);
      uint32_t taken = sizeof(Count) == 2 ? _mm512_test_epi16_mask(some, some) : _mm512_test_epi64_mask(some, some);
      for (; taken; taken &= taken - 1) take(first + __builtin_ctz(taken));
    }
#else
    constexpr int32_t kCounts = 8;
    for (; first + kCounts <= subtree.n_states; first += kCounts) {
      Count any = 0;
      for (int32_t s = 0; s < kCounts; ++s) any |= count[first + s];
      for (int32_t s = 0; any && s < kCounts; ++s)
        if (count[first + s]) take(first + s);
    }
#endif
    for (; first < subtree.n_states; ++first)
      if (count[first]) take(first);
    return n_seen;
  }

  int32_t take_seen(const Subtree& subtree, int index) const {
    const int64_t *first = task_.seen.first + index, at = *first - *task_.seen.first;
    const int32_t n_seen = int32_t(first[1] - *first);
    AboveOf above_of(subtree);
    for (int32_t i = 0; i < n_seen; ++i) {
      const int32_t state = task_.seen.states[at + i], above = above_of(state);
      space_.seen[i] = {state - above * subtree.n_cells, uint32_t(above), 0};
    }
    for (int32_t i = 0; i < n_seen; ++i)
      space_.seen[i].count = task_.seen.few ? int64_t(task_.seen.few[at + i]) : task_.seen.many[at + i];
    return n_seen;
  }

  int32_t find_wanted(const Subtree& subtree, const uint16_t* keys) const {
    space_.found.find(subtree, task_.plan, keys, task_.n_rows);
    AboveOf above_of(subtree);
    for (int32_t i = 0; i < space_.found.n_states; ++i) {
      const int32_t state = space_.found.states[i], above = above_of(state);
      space_.wanted[i] = {state, state - above * subtree.n_cells, ((1u << subtree.n_above) - 1) & ~uint32_t(above)};
    }
    return space_.found.n_states;
  }

  void fill_all(const SubtreeLeaf& leaf, const uint16_t* unmet, int32_t n_seen, double* entries) const {
    const bool is_vector = kFillsVectors && has_background(task_) && !of_pairs_;
    if (is_vector) {
      make_tables(leaf, unmet, n_seen);
      return fill_vectors(leaf, LanePositions(lanes_of(leaf), leaf.n_positions), entries);
    }
    __builtin_memset(entries, 0, (sizeof(double) * size_) << leaf.n_positions);
    if (!has_background(task_)) return fill_by_shares(leaf, entries);
    make_tables(leaf, unmet, n_seen);
    fill_values(leaf, entries);
    if (of_pairs_) with_points(leaf, [&](const auto& points) { fill_pairs(points, leaf, entries); });
  }

  // T_0 and T_1 of values.
  void make_tables(const SubtreeLeaf& leaf, const uint16_t* unmet, int32_t n_seen) const {
    count_sets(space_.seen, n_seen, unmet, leaf, space_.count);
    with_points(leaf, [&](const auto& points) {
      make_value_tables(points, leaf.n_positions, space_.count, task_.total, space_.tables);
    });
  }

  // Values of the states that few rows are in, leaf by leaf: the entries of one leaf and the sums stay in the
  // first-level cache.
  void sum_wanted(const Subtree& subtree, int32_t n_seen, int32_t n_wanted) const {
    const int width = task_.plan.width;
    const int64_t n_sums = int64_t(n_wanted) * size_;
    __builtin_memset(space_.sums, 0, sizeof(double) * n_sums * width);
    for (int i = 0; i < subtree.n_leaves; ++i) {
      const SubtreeLeaf& leaf = task_.plan.leaves[subtree.first_leaf + i];
      const uint16_t* unmet = unmet_of(subtree, i);
      make_tables(leaf, unmet, n_seen);
      const LanePositions positions(lanes_of(leaf), leaf.n_positions);
      const bool is_filled = kFillsVectors && 1 << leaf.n_positions <= kMostFilled * n_wanted;
      if (is_filled) fill_vectors(leaf, positions, space_.entries);
      const double* value = task_.leaf_value + int64_t(leaf.leaf) * width;
      for (int output = 0; output < width; ++output) {
        const WantedSets of{space_.wanted, n_wanted, unmet, leaf.n_below};
        double* sums = space_.sums + output * n_sums;
        if (is_filled)
          add_entries(of, space_.entries, size_, value[output], sums);
        else
          add_looked_up(of, space_.tables, positions, size_, value[output], sums);
      }
    }
    for (int output = 0; output < width; ++output)
      write_sums(n_wanted, space_.sums + output * n_sums, table_of(subtree, output));
  }

  void write_sums(int32_t n_wanted, const double* sums, Real* out) const {
    for (int i = 0; i < n_wanted; ++i)
      for (int first = 0; first < size_; first += 8, sums += 8)
        reinterpret_cast<const EightSums*>(sums)->store(out + int64_t(space_.wanted[i].state) * size_ + first);
  }

  // Calls use(points) with as many as the leaf needs.
  template <class Use>
  void with_points(const SubtreeLeaf& leaf, const Use& use) const {
    if (leaf.n_positions <= 4)
      use(two_);
    else if (leaf.n_positions <= 8)
      use(four_);
    else
      use(eight_);
  }

  const uint8_t* lanes_of(const SubtreeLeaf& leaf) const { return task_.plan.leaf_lanes + leaf.first_lane; }

  // Where a position's values are in the entry of the empty set.
  double* values_at(const SubtreeLeaf& leaf, int p, double* entries) const {
    const int lane = lanes_of(leaf)[p];
    return entries + (of_pairs_ ? pair_of(lane, lane, chunk_.n_slots) : lane);
  }
  double* pairs_at(const SubtreeLeaf& leaf, int p, int q, double* entries) const {
    const uint8_t* lanes = lanes_of(leaf);
    const int low = lanes[p] < lanes[q] ? lanes[p] : lanes[q], high = lanes[p] + lanes[q] - low;
    return entries + pair_of(low, high, chunk_.n_slots);
  }

  void fill_values(const SubtreeLeaf& leaf, double* entries) const {
    const int d = leaf.n_positions;
    const double *t0 = space_.tables.t[0], *t1 = space_.tables.t[1];
    const int64_t size = size_;
    double* at[kMostPositions];
    for (int p = 0; p < d; ++p) at[p] = values_at(leaf, p, entries);
    for (uint32_t set = 0; set < 1u << d; ++set)
      for (int p = 0; p < d; ++p) at[p][set * size] = t0[set] - t1[set | 1u << p];
  }

  void fill_vectors(const SubtreeLeaf& leaf, const LanePositions& positions, double* entries) const {
    for (int first = 0; first < size_; first += 8)
      fill_lanes(positions, leaf.n_positions, space_.tables.t[0], space_.tables.t[1], first, size_, entries);
  }

  // Halves of interactions.
  template <int Q>
  void fill_pairs(const LeafPoints<Q>& points, const SubtreeLeaf& leaf, double* entries) const {
    const int d = leaf.n_positions;
    make_pair_tables(points, d, space_.count, task_.total, space_.tables);
    const double *t0 = space_.tables.t[0], *t1 = space_.tables.t[1], *t2 = space_.tables.t[2];
    for (int p = 0; p < d; ++p)
      for (int q = 0; q < p; ++q) {
        double* to = pairs_at(leaf, p, q, entries);
        const uint32_t i = 1u << p, j = 1u << q;
        for (uint32_t set = 0; set < 1u << d; ++set)
          to[int64_t(set) * size_] = (t0[set] - t1[set | i] - t1[set | j] + t2[set | i | j]) / 2;
      }
  }

  // Values, and halves of interactions, of the covers' game.
  void fill_by_shares(const SubtreeLeaf& leaf, double* entries) const {
    const double* share = task_.plan.leaf_shares + leaf.first_lane;
    const int d = leaf.n_positions, n_points = (d + 1) / 2;
    const double* t = points(n_points > 0 ? n_points : 1);
    multiply_shares(share, d, t, t + kMostPoints, n_points, space_.tables.sums);
    const auto fill = [&](int p, int q, double* to) {
      double* others = space_.tables.t[0];
      integrate_others(share, d, p, q, t, n_points, space_.tables.sums, others);
      const uint32_t own = 1u << p | 1u << q;
      const auto slope = [&](uint32_t set, int i) { return double(!(set >> i & 1)) - share[i]; };
      for (uint32_t set = 0; set < 1u << d; ++set) {
        const double both = p == q ? slope(set, p) : slope(set, p) * slope(set, q) / 2;
        to[int64_t(set) * size_] = both * others[set & ~own];
      }
    };
    for (int p = 0; p < d; ++p) {
      fill(p, p, values_at(leaf, p, entries));
      for (int q = 0; of_pairs_ && q < p; ++q) fill(p, q, pairs_at(leaf, p, q, entries));
    }
  }

  void find_values(const Subtree& subtree, int output) const {
    for (int i = 0; i < subtree.n_leaves; ++i) {
      const int32_t leaf = task_.plan.leaves[subtree.first_leaf + i].leaf;
      space_.value[i] = task_.leaf_value[int64_t(leaf) * task_.plan.width + output];
    }
  }

  void find_entries(const Subtree& subtree, uint32_t outside) const {
    for (int i = 0; i < subtree.n_leaves; ++i) {
      const LeafEntries& leaf = space_.leaves[i];
      space_.at[i] = leaf.entries + (int64_t(outside) << leaf.n_below) * size_;
    }
  }

  void write_wanted(const Subtree& subtree, int32_t n_wanted, Real* out) const {
    for (int i = 0; i < n_wanted; ++i) {
      const WantedState& one = space_.wanted[i];
      find_entries(subtree, one.outside);
      write_cells<1>(subtree.n_leaves, one.cell, out + int64_t(one.state) * size_);
    }
  }

  void write(const Subtree& subtree, Real* out) const {
    for (uint32_t above = 0; above < 1u << subtree.n_above; ++above) {
      find_entries(subtree, ((1u << subtree.n_above) - 1) & ~above);
      int32_t cell = 0;
      for (; cell + kTogether <= subtree.n_cells; cell += kTogether, out += kTogether * size_)
        write_cells<kTogether>(subtree.n_leaves, cell, out);
      for (; cell < subtree.n_cells; ++cell, out += size_) write_cells<1>(subtree.n_leaves, cell, out);
    }
  }

  // Entries of N cells, which share the look-up of each leaf.
  template <int N>
  GLASSWOOD_INLINE void write_cells(int n_leaves, int32_t cell, Real* out) const {
    if (size_ == L) return write_vectors<N>(n_leaves, cell, L, 0, out);
    for (int first = 0; first < size_; first += L) write_vectors<N>(n_leaves, cell, size_, first, out + first);
  }

  template <int N>
  GLASSWOOD_INLINE void write_vectors(int n_leaves, int32_t cell, int size, int first, Real* out) const {
    using V = Pack<double, L>;
    V sum[N];
    for (V& one : sum) one = V::splat(0);
    for (int i = 0; i < n_leaves; ++i) {
      const double *entries = space_.at[i] + first, value = space_.value[i];
      const uint16_t* unmet = space_.leaves[i].unmet + cell * kLeafLanes;
      GLASSWOOD_UNROLL
      for (int c = 0; c < N; ++c)
        sum[c] += *reinterpret_cast<const V*>(entries + int64_t(unmet[c * kLeafLanes]) * size) * value;
    }
    for (int c = 0; c < N; ++c) sum[c].store(out + int64_t(c) * size);
  }
};

template <class Real, int L>
void build_leaf_game_chunk(const LeafGameTask<Real>& task, const LeafGameSpace<Real>& space, const TableChunk& chunk) {
  const LeafGameBuilder<Real, L> builder(task, space, chunk);
  const int first = task.plan.chunks[task.first_chunk].first_subtree;
  for (int s = chunk.first_subtree; s < chunk.first_subtree + chunk.n_subtrees; ++s)
    builder.run(task.plan.subtrees[s], s - first, task.keys ? task.keys + int64_t(s - first) * task.n_rows : nullptr);
}

// Numbers of the largest entry.
template <class Real>
int most_numbers(const LeafGameTask<Real>& task) {
  int most = 1;
  for (int c = task.first_chunk; c < task.first_chunk + task.n_chunks; ++c)
    most = task.plan.chunks[c].state_vectors > most ? task.plan.chunks[c].state_vectors : most;
  return most * task.plan.lanes;
}

template <class Real>
int64_t leaf_game_workspace(const LeafGameTask<Real>& task) {
  Arena arena{nullptr};
  LeafGameSpace<Real>(task, arena, most_numbers(task));
  return arena.used();
}

template <class Real>
void build_leaf_game(const LeafGameTask<Real>& task) {
  const int numbers = most_numbers(task);
  share_out(task.team, task.n_chunks, [&](int64_t i, int32_t thread) {
    Arena arena{task.workspace + thread * task.workspace_size};
    const LeafGameSpace<Real> space(task, arena, numbers);
    if (task.plan.lanes == 8)
      build_leaf_game_chunk<Real, 8>(task, space, task.plan.chunks[task.first_chunk + i]);
    else
      build_leaf_game_chunk<Real, 16>(task, space, task.plan.chunks[task.first_chunk + i]);
  });
}

}  // namespace
}  // namespace glasswood
