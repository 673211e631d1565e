// One row against one background row: leaves, margins of coalitions, responses, indices.
#pragma once
#include "common/arena.h"
#include "explain/coalitions/cube.h"
#include "explain/coalitions/indices.h"
#include "explain/coalitions/models.h"
#include "explain/coalitions/reached.h"
#include "explain/coalitions/responses.h"

namespace glasswood {
namespace {

inline int64_t cube_bytes(int d) { return int64_t(8) << (d > kLaneBits ? d : kLaneBits); }

struct PairSpace {
  char *known, *unknown, *scratch;  // cubes: [output or response], one, one
  uint32_t *hits, *blocks;
  int64_t* end;  // [output]: of its hits
  int32_t *number, *player;
  double* coefficients;  // of a linear leaf's coalitions
  double* index;         // of players or pairs of them
  IndexSpace* indices;

  PairSpace(const CoalitionTask& task, Arena& arena) {
    const CoalitionLeaves& leaves = task.leaves;
    const int64_t cube = cube_bytes(task.most);
    const int n_cubes = leaves.n_outputs > task.n_responses ? leaves.n_outputs : task.n_responses;
    known = arena.take<char>(n_cubes * cube);
    unknown = arena.take<char>(cube);
    scratch = arena.take<char>(cube);
    hits = arena.take<uint32_t>(leaves.n_leaves);
    blocks = arena.take<uint32_t>(leaves.n_leaves / kLeafBlock);
    end = arena.take<int64_t>(leaves.n_outputs);
    number = arena.take<int32_t>(leaves.n_players);
    player = arena.take<int32_t>(leaves.n_players);
    coefficients = arena.take<double>(leaves.models.number ? cube / 8 : 0);
    index = arena.take<double>(kMostPlayers * kMostPlayers + kMostPlayers);
    indices = arena.take<IndexSpace>(1);
    if (!arena.start) return;
    for (int32_t p = 0; p < leaves.n_players; ++p) number[p] = -1;
    *indices = IndexSpace();
  }
};

template <class Mask>
class Pair {
 public:
  Pair(const CoalitionTask& task, const PairSpace& space, int32_t thread)
      : task_(task),
        leaves_(task.leaves),
        space_(space),
        players_(task.leaves, space.number, space.player),
        thread_(thread) {}

  int d() const { return players_.d(); }
  // Whether the call has been interrupted: a pair of many players may take longer than users wait for that.
  bool ended() const { return has_ended(task_.team, thread_); }

  // Finds the leaves and the players of the pair.
  void open(int64_t row, int64_t other) {
    row_ = row, other_ = other;
    a_ = static_cast<const Mask*>(task_.rows.masks) + row * leaves_.n_leaves;
    c_ = static_cast<const Mask*>(task_.background.masks) + other * leaves_.n_leaves;
    players_.clear();
    int64_t n = 0;
    const int64_t n_ranges = leaves_.width > 1 ? 1 : leaves_.n_outputs;
    for (int64_t o = 0; o < n_ranges; ++o) space_.end[o] = n = find(leaves_.first[o], leaves_.first[o + 1], n);
    if (leaves_.models.number) {
      const PairModels models = models_of_pair();
      for (int64_t i = 0; i < n; ++i) models.each_player(space_.hits[i], [&](int32_t p) { players_.add_player(p); });
    }
    players_.close();
  }
  void close() { players_.clear(); }

  // Margins of all coalitions, [output] cubes of `stride()` vectors.
  Doubles* margins() {
    const int64_t cube = cube_bytes(d());
    const int n_outputs = leaves_.n_outputs;
    int64_t i = 0;
    if (leaves_.width > 1) {
      for (int o = 0; o < n_outputs; ++o)
        add_leaves(0, space_.end[0], o, leaves_.base[o], space_.known + o * cube, space_.unknown);
    } else {
      for (int o = 0; o < n_outputs; i = space_.end[o++])
        add_leaves(i, space_.end[o], 0, leaves_.base[o], space_.known + o * cube, space_.unknown);
    }
    return cubes();
  }
  int32_t player(int i) const { return players_.player(i); }

  // Calls visit(leaf, output, P, N) for each leaf that is reached; the output of a vector's first number is 0.
  template <class Visit>
  void each_leaf(const Visit& visit) const {
    const int64_t n_ranges = leaves_.width > 1 ? 1 : leaves_.n_outputs;
    for (int64_t o = 0, i = 0; o < n_ranges; ++o)
      for (; i < space_.end[o]; ++i) {
        const int64_t leaf = space_.hits[i];
        visit(leaf, o, c_[leaf], a_[leaf]);
      }
  }
  template <class Visit>
  void each_player(int64_t leaf, Mask mask, const Visit& visit) const {
    for (uint64_t rest = mask; rest; rest &= rest - 1) visit(players_.player_at(leaf, __builtin_ctzll(rest)));
  }

  Doubles* cubes() const { return reinterpret_cast<Doubles*>(space_.known); }
  int64_t stride() const { return cube_bytes(d()) / int64_t(sizeof(Doubles)); }

  // Writes margins [coalition][output].
  void write_margins(double* to) {
    const double* margin = reinterpret_cast<const double*>(margins());
    const int k = leaves_.n_outputs;
    for (int64_t s = 0; s < int64_t(1) << d(); ++s)
      for (int o = 0; o < k; ++o) to[s * k + o] = margin[o * stride() * kLanes + s];
  }

  // Takes responses [coalition][response]; lanes beyond the coalitions repeat them.
  Doubles* read_responses(const double* from) {
    double* cube = reinterpret_cast<double*>(space_.known);
    const int64_t n = stride() * kLanes;
    for (int64_t s = 0; s < n; ++s)
      for (int r = 0; r < task_.n_responses; ++r)
        cube[r * n + s] = from[(s & ((int64_t(1) << d()) - 1)) * task_.n_responses + r];
    return cubes();
  }

  // Adds the indices of the responses, [response] cubes, times the share.
  void add_indices(Doubles* v, double share, double* sums) {
    space_.indices->set(d() > kLaneBits ? d() : kLaneBits, task_.index);
    Doubles* scratch = reinterpret_cast<Doubles*>(space_.scratch);
    for (int r = 0; r < task_.n_responses; ++r) {
      Doubles* of_response = v + r * stride();
      if (task_.index == CoalitionIndex::kValues) add_values(of_response, share, sums + r);
      if (task_.index == CoalitionIndex::kPairs) add_pairs(of_response, scratch, share, sums + r);
      if (task_.index == CoalitionIndex::kSets) add_sets(of_response, scratch, share, sums + r);
    }
  }

 private:
  const CoalitionTask& task_;
  const CoalitionLeaves& leaves_;
  const PairSpace& space_;
  PairPlayers<Mask> players_;
  int32_t thread_;
  int64_t row_ = 0, other_ = 0;
  const Mask *a_ = nullptr, *c_ = nullptr;

  PairModels models_of_pair() const {
    return PairModels(leaves_.models, task_.rows.source, row_, task_.background.source, other_);
  }

  int64_t find(int64_t first, int64_t end, int64_t n) {
    const int64_t n_blocks = leaves_.n_leaves / kLeafBlock;
    const Mask* shared_a = static_cast<const Mask*>(task_.rows.shared) + row_ * n_blocks;
    const Mask* shared_c = static_cast<const Mask*>(task_.background.shared) + other_ * n_blocks;
    int64_t n_live = 0;
    for (int64_t block = first / kLeafBlock; block < end / kLeafBlock; ++block) {
      space_.blocks[n_live] = uint32_t(block);
      n_live += (shared_a[block] & shared_c[block]) == 0;
    }
    for (int64_t i = 0; i < n_live; ++i) {
      const int64_t start = int64_t(space_.blocks[i]) * kLeafBlock;
      for (uint64_t rest = disjoint(a_ + start, c_ + start); rest; rest &= rest - 1) {
        const int64_t leaf = start + __builtin_ctzll(rest);
        space_.hits[n++] = uint32_t(leaf);
        players_.add_mask(leaf, a_[leaf] | c_[leaf]);
      }
    }
    return n;
  }

  // Adds the hits first ... end - 1, at place `o` of their values.
  void add_leaves(int64_t first, int64_t end, int o, double base, char* known, char* unknown) {
    if (leaves_.models.number) return add_models(first, end, base, known, unknown);
    Cube<int64_t> cube(known, unknown, d());
    for (int64_t i = first; i < end; ++i) {
      const int64_t leaf = space_.hits[i];
      cube.add(players_.numbers_of(leaf, c_[leaf]), players_.numbers_of(leaf, a_[leaf]),
               leaves_.value[leaf * leaves_.width + o]);
    }
    cube.finish(base, leaves_.unit);
  }

  // Values for all sets of the equation's players that the path leaves free, as monomials.
  void add_models(int64_t first, int64_t end, double base, char* known, char* unknown) {
    Cube<double> cube(known, unknown, d());
    const PairModels models = models_of_pair();
    for (int64_t i = first; i < end && !ended(); ++i) {
      const int64_t leaf = space_.hits[i];
      const uint32_t p = players_.numbers_of(leaf, c_[leaf]), n = players_.numbers_of(leaf, a_[leaf]);
      uint32_t free = 0;
      models.each_player(leaf, [&](int32_t player) { free |= 1u << players_.number_of(player); });
      free &= ~(p | n);
      add_model(models, leaf, p, n, free, cube);
    }
    cube.finish(base, 1.0);
  }

  void add_model(const PairModels& models, int64_t leaf, uint32_t p, uint32_t n, uint32_t free, Cube<double>& cube) {
    int bit[kMostPlayers], n_free = 0;
    for (uint32_t rest = free; rest; rest &= rest - 1) bit[n_free++] = __builtin_ctz(rest);
    double* v = space_.coefficients;
    const auto set_of = [&](int64_t s) {
      uint32_t set = 0;
      for (int i = 0; i < n_free; ++i) set |= uint32_t(s >> i & 1) << bit[i];
      return set;
    };
    models.values(leaf, p, free, [&](int32_t player) { return players_.number_of(player); }, v);
    for (int i = 0; i < n_free; ++i)
      for (int64_t s = 0; s < int64_t(1) << n_free; ++s)
        if (s >> i & 1) v[s] -= v[s ^ (int64_t(1) << i)];
    for (int64_t s = 0; s < int64_t(1) << n_free; ++s) cube.add(p | set_of(s), n, v[s]);
  }

  void add_values(Doubles* v, double share, double* sums) {
    double* phi = space_.index;
    space_.indices->values(v, v, phi);
    for (int i = 0; i < d(); ++i) sums[int64_t(players_.player(i)) * task_.n_responses] += share * phi[i];
  }

  // Halves of the pairs' indices, main effects on the diagonal.
  void add_pairs(Doubles* v, Doubles* scratch, double share, double* sums) {
    const int most = space_.indices->d();
    double *pair = space_.index, *phi = pair + kMostPlayers * kMostPlayers;
    space_.indices->pairs(v, scratch, pair);
    space_.indices->values(v, v, phi);
    for (int i = 0; i < d(); ++i)
      for (int j = i + 1; j < d(); ++j) {
        const double half = pair[i * most + j] / 2;
        phi[i] -= half, phi[j] -= half;
        add_pair(i, j, share * half, sums);
        add_pair(j, i, share * half, sums);
      }
    for (int i = 0; i < d(); ++i) add_pair(i, i, share * phi[i], sums);
  }
  void add_pair(int i, int j, double value, double* sums) {
    const int64_t place = task_.places[players_.player(i)];
    if (place >= 0) sums[(place * leaves_.n_players + players_.player(j)) * task_.n_responses] += value;
  }

  void add_sets(const Doubles* v, Doubles* scratch, double share, double* sums) {
    constexpr int64_t kTogether = 16;
    for (int64_t i = 0; i < task_.n_sets && (i % kTogether || !ended()); ++i) {
      const int32_t* of_set = task_.sets + i * 4;
      uint32_t set = 0;
      bool counts = true;
      for (int at = 0; counts && at < 4 && of_set[at] >= 0; ++at) {
        const int32_t number = players_.number_of(of_set[at]);
        counts = number >= 0;
        if (counts) set |= 1u << number;
      }
      if (counts) sums[i * task_.n_responses] += share * space_.indices->of_set(v, scratch, set, task_.is_banzhaf);
    }
  }
};

}  // namespace
}  // namespace glasswood
