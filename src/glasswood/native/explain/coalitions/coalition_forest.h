// A forest laid out for coalitions, and the masks of rows at its leaves.
#pragma once
#include <memory>

#include "common/leaf_patterns.h"
#include "common/unset_vector.h"
#include "explain/coalitions/conditions.h"
#include "explain/coalitions/kernels.h"
#include "explain/coalitions/path_averages.h"
#include "explain/leaves.h"

namespace glasswood {

// Masks of rows at all leaves, and what the masks of each block of leaves share.
struct CoalitionMasks {
  UnsetVector<uint8_t> masks, shared;
  int64_t n_rows = 0;
};

class CoalitionForest {
 public:
  CoalitionForest(ForestView forest, Players players)
      : forest_(std::move(forest)), players_(std::move(players)), coding_(forest_) {
    number_players();
    for (int32_t tree = 0; tree < forest_.n_trees(); ++tree) trees_.push_back(tree_of(tree));
    lay_out();
  }
  CoalitionForest(const CoalitionForest&) = delete;

  const ForestView& forest() const { return forest_; }
  int32_t n_players() const { return players_.n; }
  int32_t n_outputs() const { return forest_.n_outputs(); }
  int64_t n_leaves() const { return n_leaves_; }
  int32_t mask_bytes() const { return mask_bytes_; }
  // Players that any split or equation asks for: no two rows differ on more.
  int32_t n_used() const { return n_used_; }

  CoalitionLeaves leaves() const {
    const bool is_linear = forest_.is_linear();
    return {n_leaves_,
            mask_bytes_,
            forest_.width,
            n_outputs(),
            n_players(),
            first_.data(),
            value_.data(),
            base_.data(),
            unit_,
            is_local_ ? nullptr : bit_player_.data(),
            player_bit_.data(),
            first_place_.data(),
            place_player_.data(),
            {is_linear ? number_.data() : nullptr, forest_.linear_offsets.data(), forest_.linear_feature.data(),
             forest_.linear_category.data(), forest_.linear_coefficient.data(), forest_.linear_mean.data(),
             forest_.leaf_value.data(), forest_.leaf_range.data(),
             forest_.leaf_missing.empty() ? nullptr : forest_.leaf_missing.data(), weight_.data(),
             players_.of_feature.data()}};
  }

  // What GPUs ask of codes of rows (glasswood/cuda/codes.py): a node sends codes of its column below its rank to the
  // left. The bits of up to kGpuBits players are their own; of more, each leaf numbers those of its path.
  struct GpuLeaves {
    std::vector<LeafCondition> conditions;
    std::vector<int32_t> first;        // [leaf + 1]
    std::vector<int32_t> first_place;  // [leaf + 1], into `place`
    std::vector<uint16_t> place;       // the player's number in `player_bit`, by leaf and bit
    int32_t n_bits = 0;
    bool is_wide = false;  // more than kGpuBits players: there are places
  };
  GpuLeaves gpu_leaves(std::span<const int32_t> column, std::span<const int32_t> rank) const {
    if (n_used_ > kGpuPlayers)
      throw std::invalid_argument("a GPU has up to " + std::to_string(kGpuPlayers) + " players");
    std::vector<std::vector<LeafCondition>> of_leaf(n_leaves_, {{0, 1, 0, 0}});
    for (size_t tree = 0; tree < trees_.size(); ++tree) {
      int64_t leaf = tree_first_[tree];
      std::vector<LeafCondition> path;
      const PatternTree& visits = trees_[tree];
      std::vector<PatternTree::Visit> above(visits.depth + 1);
      for (const PatternTree::Visit& visit : visits.visits) {
        above[visit.depth] = visit;
        path.resize(visit.depth);
        if (visit.depth > 0) {
          const PatternTree::Visit& parent = above[visit.depth - 1];
          const uint32_t bound = uint32_t(rank[parent.node]);
          path[visit.depth - 1] = {column[parent.node], visit.is_left ? 0 : bound, visit.is_left ? bound : ~0u,
                                   player_bit_[parent.player]};
        }
        if (visit.player < 0) of_leaf[leaf++] = joined(path);
      }
    }
    GpuLeaves result;
    result.first.assign(1, 0), result.first_place.assign(1, 0);
    result.is_wide = n_used_ > kGpuBits;
    result.n_bits = result.is_wide ? 1 : n_used_;
    for (auto& conditions : of_leaf) {
      if (result.is_wide) number_by_path(conditions, result);
      result.conditions.insert(result.conditions.end(), conditions.begin(), conditions.end());
      result.first.push_back(int32_t(result.conditions.size()));
    }
    return result;
  }

  // Values of leaves in units of as many bits, a power of two times the 64 bits' own.
  std::vector<int32_t> short_values() const {
    std::vector<int32_t> result;
    for (const int64_t value : value_) result.push_back(int32_t(std::nearbyint(std::ldexp(double(value), -kShort))));
    return result;
  }
  double short_unit() const { return std::ldexp(unit_, kShort); }
  const std::vector<int64_t>& values() const { return value_; }
  const std::vector<int64_t>& first() const { return first_; }
  const std::vector<double>& base() const { return base_; }
  const std::vector<int32_t>& player_bit() const { return player_bit_; }
  const std::vector<int32_t>& bit_player() const { return bit_player_; }
  PathAverages path_averages() const { return {forest_, trees_, tree_first_}; }
  double unit() const { return unit_; }

  CoalitionMasks masks_of(const RowSource& rows, const Team& team) const {
    CoalitionMasks result;
    result.n_rows = rows.n_rows;
    result.masks.resize(rows.n_rows * n_leaves_ * mask_bytes_);
    result.shared.resize(rows.n_rows * n_leaves_ / kLeafBlock * mask_bytes_);
    const int64_t together = PatternRows::rows_together(trees_, 64);
    share_out(team, (rows.n_rows + together - 1) / together, [&](int64_t block, int32_t) {
      const int64_t first = block * together, n = std::min(together, rows.n_rows - first);
      if (mask_bytes_ == 1) fill<uint8_t>(rows, first, n, result);
      if (mask_bytes_ == 2) fill<uint16_t>(rows, first, n, result);
      if (mask_bytes_ == 4) fill<uint32_t>(rows, first, n, result);
      if (mask_bytes_ == 8) fill<uint64_t>(rows, first, n, result);
    });
    return result;
  }

 private:
  static constexpr int kShort = 31;                             // bits of 64 that 32 leave out
  static constexpr int32_t kGpuBits = 32, kGpuPlayers = 32768;  // as in glasswood/explain/cuda/coalitions.py
  ForestView forest_;
  Players players_;
  Coding coding_;
  std::vector<PatternTree> trees_;
  bool is_local_ = false;  // bits of masks are positions of the leaf's path
  int32_t mask_bytes_ = 1, n_used_ = 0;
  std::vector<int32_t> bit_player_, player_bit_;  // [bit], [player]
  int64_t n_leaves_ = 0;
  std::vector<int64_t> first_;       // [output + 1]
  std::vector<int64_t> tree_first_;  // [tree]: its first leaf
  std::vector<int64_t> value_, first_place_;
  std::vector<int32_t> place_player_, number_;
  std::vector<double> base_, weight_;
  double unit_ = 1;

  // One condition a column.
  static std::vector<LeafCondition> joined(const std::vector<LeafCondition>& path) {
    std::vector<LeafCondition> result;
    for (const LeafCondition& one : path) {
      const auto same = std::find_if(result.begin(), result.end(),
                                     [&](const LeafCondition& other) { return other.column == one.column; });
      if (same == result.end()) {
        result.push_back(one);
      } else {
        same->low = std::max(same->low, one.low);
        same->high = std::min(same->high, one.high);
      }
    }
    return result;
  }

  // The bits of a leaf's conditions become the places of their players on its path.
  static void number_by_path(std::vector<LeafCondition>& conditions, GpuLeaves& to) {
    const auto first = to.place.size();
    for (LeafCondition& one : conditions) {
      const auto own = to.place.begin() + first, found = std::find(own, to.place.end(), uint16_t(one.bit));
      const auto place = int32_t(found - own);
      if (found == to.place.end()) to.place.push_back(uint16_t(one.bit));
      one.bit = place;
    }
    to.first_place.push_back(int32_t(to.place.size()));
    to.n_bits = std::max(to.n_bits, int32_t(to.place.size() - first));
  }

  void number_players() {
    player_bit_.assign(players_.n, -1);
    const auto use = [&](int32_t feature) {
      if (feature < 0 || player_bit_[players_.of(feature)] >= 0) return;
      player_bit_[players_.of(feature)] = n_used_++;
      bit_player_.push_back(players_.of(feature));
    };
    for (const int32_t feature : forest_.feature) use(feature);
    for (const int32_t feature : forest_.linear_feature) use(feature);
    is_local_ = n_used_ > 64;
  }

  // Positions become the bits of the players where one mask holds them all.
  PatternTree tree_of(int32_t tree) const {
    PatternTree result = pattern_tree(forest_, players_, tree);
    if (is_local_) {
      if (result.n_words > 1)
        throw std::invalid_argument("tree " + std::to_string(tree) +
                                    " tests more than 64 features on a path, which exact responses do not support; "
                                    "pass groups of features, or explain the margin");
      return result;
    }
    for (PatternTree::Visit& visit : result.visits)
      if (visit.player >= 0) visit.position = player_bit_[visit.player];
    return result;
  }

  void lay_out() {
    int32_t n_bits = is_local_ ? 0 : n_used_;
    if (is_local_)
      for (const PatternTree& tree : trees_)
        for (const PatternTree::Visit& visit : tree.visits)
          if (visit.player < 0) n_bits = std::max(n_bits, visit.position);
    mask_bytes_ = n_bits <= 8 ? 1 : n_bits <= 16 ? 2 : n_bits <= 32 ? 4 : 8;
    const int64_t n_ranges = forest_.width > 1 ? 1 : n_outputs();
    tree_first_.resize(trees_.size());
    first_.assign(1, 0);
    for (int64_t output = 0; output < n_ranges; ++output) {
      for (size_t tree = 0; tree < trees_.size(); ++tree) {
        if (forest_.width == 1 && forest_.tree_output[tree] != output) continue;
        tree_first_[tree] = n_leaves_;
        n_leaves_ += int64_t(trees_[tree].visits.size() + 1) / 2;
      }
      n_leaves_ = (n_leaves_ + kLeafBlock - 1) / kLeafBlock * kLeafBlock;
      first_.push_back(n_leaves_);
    }
    place_leaves();
  }

  void place_leaves() {
    const WeightedLeaves weighted(forest_, true, true);
    choose_unit(weighted);
    std::vector<int32_t> leaf_of(forest_.feature.size(), -1);
    for (int32_t node = 0, leaf = 0; node < int32_t(leaf_of.size()); ++node)
      if (!forest_.is_split(node)) leaf_of[node] = leaf++;
    const int64_t width = forest_.width;
    value_.assign(n_leaves_ * width, 0);
    number_.assign(n_leaves_, 0);
    weight_.assign(n_leaves_, 0);
    first_place_.assign(n_leaves_ + 1, 0);
    std::vector<std::vector<int32_t>> places(is_local_ ? n_leaves_ : 0);
    for (size_t tree = 0; tree < trees_.size(); ++tree) {
      int64_t leaf = tree_first_[tree];
      std::vector<int32_t> path;
      for (const PatternTree::Visit& visit : trees_[tree].visits) {
        if (visit.player >= 0) {
          if (is_local_)
            path.resize(std::max<size_t>(path.size(), visit.position + 1)), path[visit.position] = visit.player;
          continue;
        }
        number_[leaf] = leaf_of[visit.node];
        weight_[leaf] = forest_.tree_weight[tree];
        for (int64_t o = 0; o < width; ++o)
          value_[leaf * width + o] = int64_t(std::nearbyint(weighted.values[number_[leaf] * width + o] / unit_));
        if (is_local_) places[leaf].assign(path.begin(), path.begin() + visit.position);
        ++leaf;
      }
    }
    for (int64_t leaf = 0; leaf < n_leaves_ && is_local_; ++leaf) {
      place_player_.insert(place_player_.end(), places[leaf].begin(), places[leaf].end());
      first_place_[leaf + 1] = int64_t(place_player_.size());
    }
  }

  // The largest power of two that no sum of leaves, one a tree, overflows in.
  void choose_unit(const WeightedLeaves& weighted) {
    const int64_t width = forest_.width;
    base_.assign(forest_.base_score.begin(), forest_.base_score.end());
    if (forest_.is_linear()) return;
    std::vector<double> reach(n_outputs(), 0.0);
    int64_t leaf = 0;
    for (int32_t tree = 0; tree < forest_.n_trees(); ++tree) {
      const int64_t end = leaf + (forest_.tree_offsets[tree + 1] - forest_.tree_offsets[tree] + 1) / 2;
      for (int64_t o = 0; o < width; ++o) {
        double most = 0;
        for (int64_t i = leaf; i < end; ++i) most = std::max(most, std::abs(weighted.values[i * width + o]));
        const int64_t output = width > 1 ? o : forest_.tree_output[tree];
        reach[output] += most;
        base_[output] += weighted.middle[tree * width + o];
      }
      leaf = end;
    }
    const double most = *std::max_element(reach.begin(), reach.end());
    constexpr int kBits = 61;
    if (most > 0) unit_ = std::ldexp(1.0, std::max(std::ilogb(most) + 1 - kBits, -1000));
  }

  template <class Mask>
  void fill(const RowSource& rows, int64_t first, int64_t n, CoalitionMasks& to) const {
    const int64_t n_blocks = n_leaves_ / kLeafBlock;
    Mask* masks = reinterpret_cast<Mask*>(to.masks.data()) + first * n_leaves_;
    Mask* shared = reinterpret_cast<Mask*>(to.shared.data()) + first * n_blocks;
    std::fill_n(masks, n * n_leaves_, Mask(~Mask(0)));
    PatternRows walked(forest_, coding_);
    walked.encode(rows, first, n);
    for (size_t tree = 0; tree < trees_.size(); ++tree)
      walked.walk(trees_[tree], [&](int32_t leaf, int32_t, std::span<const int32_t>, const uint64_t* sets) {
        for (int64_t row = 0; row < n; ++row) masks[row * n_leaves_ + tree_first_[tree] + leaf] = Mask(sets[row]);
      });
    for (int64_t block = 0; block < n * n_blocks; ++block) {
      Mask all = Mask(~Mask(0));
      for (int leaf = 0; leaf < kLeafBlock; ++leaf) all &= masks[block * kLeafBlock + leaf];
      shared[block] = all;
    }
  }
};

}  // namespace glasswood
