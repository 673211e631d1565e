// Indices of sets of players in the path-dependent game.
//
// A leaf's position j has the cover share z_j of its edges, and o_j = 1 where the row meets all of its conditions. With
// g_j(t) = z_j + (o_j - z_j) t the index of S is
//   Π_{j in S} (o_j - z_j) ∫₀¹ Π_{j not in S} g_j(t) dt,
// by Gauss-Legendre points, or the integrand at t = 1/2 for Banzhaf's. 0 < g_j < 1 unless z_j = 0.
#pragma once
#include "explain/cpu/quadrature.h"
#include "explain/leaves.h"
#include "explain/patterns/leaf_walk.h"
#include "explain/patterns/player_sets.h"

namespace glasswood {

class CoverWalk {
 public:
  CoverWalk(ForestView forest, Players players) : walk_(std::move(forest), std::move(players)) {
    for (const PatternTree& tree : walk_.trees()) add_shares(tree);
  }

  const LeafWalk& walk() const { return walk_; }

  // Writes the index of each set [row][set][output].
  void indices(const RowSource& rows, const PlayerSets& sets, IndexKind kind, const PatternTarget& out,
               const Team& team) const {
    const int64_t k = walk_.n_outputs();
    const SetGame game{*this, sets, points_of(kind), std::vector<int32_t>(sets.n_players(), -1)};
    walk_.explain(rows, sets.n_sets() * k, 1.0, team, game, vector_writer(out, k));
  }

 private:
  struct LeafShares {
    std::vector<int64_t> first;  // [leaf]
    std::vector<double> shares;  // [position] of one leaf after the other
  };
  LeafWalk walk_;
  std::vector<LeafShares> shares_;  // [tree]
  int32_t most_ = 1;                // positions of a leaf

  // Adds the shares of all leaves in the order of the walk; a split's shares hold for what is above it.
  void add_shares(const PatternTree& tree) {
    const ForestView& forest = walk_.forest();
    LeafShares result;
    std::vector<double> shares((tree.depth + 1) * int64_t(tree.depth + 1), 1.0);
    std::vector<PatternTree::Visit> above(tree.depth + 1);
    for (const PatternTree::Visit& visit : tree.visits) {
      double* now = shares.data() + visit.depth * int64_t(tree.depth + 1);
      if (visit.depth > 0) {
        const PatternTree::Visit& parent = above[visit.depth - 1];
        std::copy_n(now - tree.depth - 1, tree.depth + 1, now);
        now[parent.position] *= cover_ratio(forest, parent.node, visit.node);
      }
      above[visit.depth] = visit;
      if (visit.player >= 0) continue;
      result.first.push_back(int64_t(result.shares.size()));
      result.shares.insert(result.shares.end(), now, now + visit.position);
      most_ = std::max(most_, visit.position);
    }
    shares_.push_back(std::move(result));
  }

  struct Quadrature {
    std::vector<double> t, weight;
  };

  // Exact for any leaf and any set.
  Quadrature points_of(IndexKind kind) const {
    if (kind == IndexKind::kBanzhaf) return {{0.5}, {1.0}};
    const int n = (most_ + 1) / 2;
    const std::vector<double> both = gauss_legendre(n);
    return {{both.begin(), both.begin() + n}, {both.begin() + n, both.end()}};
  }

  struct SetGame {
    const CoverWalk& all;
    const PlayerSets& sets;
    Quadrature points;
    std::vector<int32_t> position_of;
    std::vector<PlacedSet> wanted = {};
    std::vector<double> inverse = {}, product = {};  // [position][point], [point]
    int32_t tree = 0;
    const double* shares = nullptr;
    int64_t n_positions = 0;

    void begin(int32_t now) { tree = now; }
    int64_t open(int32_t leaf, std::span<const int32_t> path) {
      sets.find(path, position_of, wanted);
      shares = all.shares_[tree].shares.data() + all.shares_[tree].first[leaf];
      n_positions = int64_t(path.size());
      return int64_t(wanted.size());
    }
    bool play(const uint64_t* set, double* numbers) {
      if (!multiply(set)) return false;
      for (const PlacedSet& one : wanted) *numbers++ = index_of(one, set);
      return true;
    }
    void add(const double* index, const RowAtLeaf& at, double* to) const {
      for (size_t i = 0; i < wanted.size(); ++i)
        to[wanted[i].number * all.walk_.n_outputs() + at.output] += index[i] * at.value;
    }

    // Π g_j and 1 / g_j; whether no factor is 0.
    bool multiply(const uint64_t* set) {
      const int64_t n_points = int64_t(points.t.size());
      product = points.weight;
      inverse.resize(n_positions * n_points);
      for (int64_t p = 0; p < n_positions; ++p) {
        const double z = shares[p];
        const bool is_met = !has_bit(set, int32_t(p));
        if (z == 0 && !is_met) return false;
        for (int64_t k = 0; k < n_points; ++k) {
          const double g = is_met ? z + (1 - z) * points.t[k] : z * (1 - points.t[k]);
          product[k] *= g;
          inverse[p * n_points + k] = 1 / g;
        }
      }
      return true;
    }

    double index_of(const PlacedSet& one, const uint64_t* set) const {
      const int64_t n_points = int64_t(points.t.size());
      double sum = 0, sides = 1;
      for (int32_t i = 0; i < one.order; ++i)
        sides *= double(!has_bit(set, one.positions[i])) - shares[one.positions[i]];
      for (int64_t k = 0; k < n_points; ++k) {
        double rest = product[k];
        for (int32_t i = 0; i < one.order; ++i) rest *= inverse[one.positions[i] * n_points + k];
        sum += rest;
      }
      return sides * sum;
    }
  };
};

}  // namespace glasswood
