// One leaf with a linear model against background rows.
//
// The leaf returns w = clip(b + Σ_e a_e), a_e what the terms of player e add: a_e(x) where a coalition knows e, a_e(y)
// of a background row y where it does not. With Z and U the sets of conditions that the row and the background row do
// not meet, and [K, L] the game "all of K known, none of L", the pair is without the clip
//   b [U, Z] + Σ_e in U a_e(x) [U, Z] + Σ_e in Z a_e(y) [U, Z] + Σ_e else (a_e(x) [U + e, Z] + a_e(y) [U, Z + e]),
// so that of all rows of a pattern U their number and Σ a_e(y) are enough. Where some mix of the two rows leaves the
// leaf's range, the pair is Σ_A w(A) [U + A, Z + E \ A] over the sets A of the players E of the last sum.
#pragma once
#include <stdexcept>

#include "common/linear_term.h"
#include "explain/patterns/leaf_walk.h"
#include "explain/patterns/player_sets.h"

namespace glasswood {

// a! b! / (a + b + 1)!
class BetaTable {
 public:
  explicit BetaTable(int32_t most) : size_(most + 1), beta_(size_ * size_) {
    for (int64_t a = 0; a < size_; ++a) {
      beta_[a * size_] = 1.0 / double(a + 1);
      for (int64_t b = 1; b < size_; ++b)
        beta_[a * size_ + b] = beta_[a * size_ + b - 1] * double(b) / double(a + b + 1);
    }
  }
  double operator()(size_t a, size_t b) const { return beta_[int64_t(a) * size_ + int64_t(b)]; }

 private:
  int64_t size_;
  std::vector<double> beta_;
};

// The value of a row's feature.
inline double value_of(const RowSource& rows, int64_t row, int32_t feature) {
  const int64_t at = row * rows.row_stride + feature * rows.feature_stride;
  return rows.is_double ? static_cast<const double*>(rows.data)[at] : double(static_cast<const float*>(rows.data)[at]);
}

struct LinearModelTerm {
  int32_t number;  // of its player among those of the model
  int32_t feature, category;
  double coefficient, mean;
};

// What a row gives to the model of a leaf, by player.
struct LinearRow {
  std::vector<double> a;
  std::vector<char> lacks;  // whether a number is missing that takes the leaf back to a constant
  bool lacks_any = false;
};

// Background rows of one pattern: sums and extremes of a_e, one of each a player of the model.
struct LinearRows {
  double count = 0;
  std::vector<double> sums, smallest, largest;
  bool lack_any = false;

  void add(double weight, const LinearRow& row) {
    if (sums.empty()) {
      sums.assign(row.a.size(), 0.0);
      smallest = largest = row.a;
    }
    count += weight;
    lack_any |= row.lacks_any;
    for (size_t e = 0; e < row.a.size(); ++e) {
      sums[e] += weight * row.a[e];
      smallest[e] = std::min(smallest[e], row.a[e]), largest[e] = std::max(largest[e], row.a[e]);
    }
  }
};

// Rows of a pattern that are looked at together before they are one by one.
struct LinearBlock {
  int64_t first, end;  // into the leaf's rows
  LinearRows all;
};

struct LinearPatternLeaf {
  double value, low, high, missing;
  int32_t n_positions, n_words;
  std::vector<int32_t> players;   // of the path, then those of the model alone
  std::vector<int32_t> of_model;  // place in `players` of each player of the model
  std::vector<LinearModelTerm> terms;
  std::vector<uint64_t> sets;        // [pattern][word]
  std::vector<LinearRows> patterns;  // [pattern]
  LinearRows all;
  // For leaves that may clip.
  std::vector<int32_t> rows;                     // by pattern
  std::vector<std::vector<LinearBlock>> blocks;  // [pattern]

  bool may_clip() const { return std::isfinite(low) || std::isfinite(high) || missing == missing; }
  const uint64_t* pattern(size_t i) const { return sets.data() + i * n_words; }

  void attribute(const RowSource& source, int64_t row, LinearRow& out) const {
    out.a.assign(of_model.size(), 0.0);
    out.lacks.assign(of_model.size(), 0);
    out.lacks_any = false;
    for (const LinearModelTerm& term : terms) {
      const double x = value_of(source, row, term.feature);
      out.a[term.number] += term.coefficient * term_deviation(x, term.category, term.mean);
      if (missing != missing || !lacks_number(x, term.category)) continue;
      out.lacks[term.number] = 1;
      out.lacks_any = true;
    }
  }
};

class LinearGame {
 public:
  LinearGame(const RowSource& background, std::span<const int64_t> weight, const BetaTable& beta)
      : background_(background), weight_(weight), beta_(beta) {}

  // Writes, for the set Z, values of the players for a_e(x) = 0, then what each a_e(x) adds to them. Returns whether
  // any row passes.
  bool explain_set(const LinearPatternLeaf& leaf, const uint64_t* set, double* numbers) {
    const int64_t n_players = int64_t(leaf.players.size());
    std::fill_n(numbers, (leaf.of_model.size() + 1) * n_players, 0.0);
    bool passes = false;
    for (size_t i = 0; i < leaf.patterns.size(); ++i) {
      if (!meet(leaf, leaf.pattern(i), set)) continue;
      passes = true;
      const double count = leaf.patterns[i].count, *sums = leaf.patterns[i].sums.data();
      add(leaf.value * count, numbers);
      double* known = numbers;
      for (const int32_t place : leaf.of_model) {
        known += n_players;
        const double sum = *sums++;
        if (is_in(leaf, leaf.pattern(i), place)) {
          add(count, known);
        } else if (is_in(leaf, set, place)) {
          add(sum, numbers);
        } else {
          add_with(known_, place, count, known);
          add_with(unknown_, place, sum, numbers);
        }
      }
    }
    return passes;
  }

  // Whether a mix of the row with background rows leaves the leaf's range, or lacks a number.
  static bool clips(const LinearPatternLeaf& leaf, const LinearRow& row) {
    if (!leaf.may_clip()) return false;
    if (row.lacks_any || leaf.all.lack_any) return true;
    const std::vector<double>& a = row.a;
    double low = leaf.value, high = low;
    for (size_t e = 0; e < a.size(); ++e) {
      low += std::min(a[e], leaf.all.smallest[e]);
      high += std::max(a[e], leaf.all.largest[e]);
    }
    return !(low >= leaf.low && high <= leaf.high);
  }

  // Values of the players of a row of the set Z, one background row after the other where mixes of a block clip.
  void explain_pairs(const LinearPatternLeaf& leaf, const uint64_t* set, const LinearRow& row, double* phi) {
    std::fill_n(phi, leaf.players.size(), 0.0);
    for (size_t i = 0; i < leaf.patterns.size(); ++i) {
      if (!meet(leaf, leaf.pattern(i), set)) continue;
      for (const LinearBlock& block : leaf.blocks[i]) {
        if (add_rows(leaf, leaf.pattern(i), set, row, block.all, 1.0, phi)) continue;
        for (int64_t at = block.first; at < block.end; ++at) {
          leaf.attribute(background_, leaf.rows[at], other_);
          one_ = {};
          one_.add(1.0, other_);
          const double weight = double(weight_[leaf.rows[at]]);
          if (!add_rows(leaf, leaf.pattern(i), set, row, one_, weight, phi))
            add_mixed(leaf, leaf.pattern(i), set, row, weight, phi);
        }
      }
    }
  }

 private:
  static constexpr size_t kMostFree = 16;

  const RowSource& background_;
  std::span<const int64_t> weight_;
  const BetaTable& beta_;
  std::vector<int32_t> known_, unknown_, free_;  // places
  std::vector<double> change_, mine_, theirs_, mixed_, by_size_;
  LinearRow other_;
  bool lacks_ = false;                        // whether the numbers of no free player decide that one is missing
  uint32_t row_lacks_ = 0, other_lacks_ = 0;  // bits of free_
  LinearRows one_;
  double base_ = 0;

  static bool is_in(const LinearPatternLeaf& leaf, const uint64_t* set, int32_t place) {
    return place < leaf.n_positions && has_bit(set, place);
  }

  // Whether the two share no position; then known_ and unknown_ are theirs.
  bool meet(const LinearPatternLeaf& leaf, const uint64_t* pattern, const uint64_t* set) {
    known_.clear(), unknown_.clear();
    for (int32_t w = 0; w < leaf.n_words; ++w)
      if (pattern[w] & set[w]) return false;
    for (int32_t p = 0; p < leaf.n_positions; ++p)
      if (has_bit(pattern, p))
        known_.push_back(p);
      else if (has_bit(set, p))
        unknown_.push_back(p);
    return true;
  }

  // The game "all of known_ known, none of unknown_".
  void add(double weight, double* phi) const {
    const size_t k = known_.size(), z = unknown_.size();
    if (k > 0) {
      const double gain = weight * beta_(k - 1, z);
      for (const int32_t place : known_) phi[place] += gain;
    }
    if (z > 0) {
      const double loss = weight * beta_(k, z - 1);
      for (const int32_t place : unknown_) phi[place] -= loss;
    }
  }

  void add_with(std::vector<int32_t>& places, int32_t place, double weight, double* phi) {
    places.push_back(place);
    add(weight, phi);
    places.pop_back();
  }

  // Rows of known_ and unknown_, as often as the weight says, if no mix clips; then base_ is Σ of what does not depend
  // on the players of free_ being known, change_ what each of them adds.
  bool add_rows(const LinearPatternLeaf& leaf, const uint64_t* pattern, const uint64_t* set, const LinearRow& row,
                const LinearRows& rows, double weight, double* phi) {
    const std::vector<double>& a = row.a;
    double low = leaf.value, high = leaf.value;
    base_ = leaf.value * rows.count;
    free_.clear(), change_.clear();
    for (size_t e = 0; e < a.size(); ++e) {
      const int32_t place = leaf.of_model[e];
      const bool knows = is_in(leaf, pattern, place), is_free = !knows && !is_in(leaf, set, place);
      base_ += knows ? a[e] * rows.count : rows.sums[e];
      low += knows ? a[e] : is_free ? std::min(a[e], rows.smallest[e]) : rows.smallest[e];
      high += knows ? a[e] : is_free ? std::max(a[e], rows.largest[e]) : rows.largest[e];
      if (is_free) free_.push_back(int32_t(e)), change_.push_back(a[e] * rows.count - rows.sums[e]);
    }
    if (row.lacks_any || rows.lack_any || !(low >= leaf.low && high <= leaf.high)) return false;
    for (int32_t& place : free_) place = leaf.of_model[place];
    // a_e(x) [U + e, Z] + a_e(y) [U, Z + e] = a_e(y) [U, Z] + (a_e(x) - a_e(y)) [U + e, Z].
    add(base_ * weight, phi);
    for (size_t i = 0; i < free_.size(); ++i) add_with(known_, free_[i], change_[i] * weight, phi);
    return true;
  }

  // One row that add_rows refused, of the weight.
  void add_mixed(const LinearPatternLeaf& leaf, const uint64_t* pattern, const uint64_t* set, const LinearRow& row,
                 double weight, double* phi) {
    find_missing(leaf, pattern, set, row);
    const size_t e = free_.size(), n = e + 1;
    mix_sums();
    by_size_.assign(n * n, 0.0);  // [player of free_ that is known, last: all sets][number known]
    for (uint32_t chosen = 0; chosen < mixed_.size(); ++chosen) {
      const bool lacks = lacks_ || (chosen & row_lacks_) || (~chosen & other_lacks_);
      const double value = weight * model_value(mixed_[chosen], lacks, leaf.missing, leaf.low, leaf.high);
      const size_t size = size_t(std::popcount(chosen));
      by_size_[e * n + size] += value;
      for (uint32_t rest = chosen; rest; rest &= rest - 1) by_size_[size_t(std::countr_zero(rest)) * n + size] += value;
    }
    share_by_size(phi);
  }

  // What the leaf's model returns for each set of free players who are known: added up anew, since what a huge number
  // has added to a sum does not come off it again.
  void mix_sums() {
    mixed_.resize(size_t(1) << free_.size());
    mixed_[0] = base_;
    for (size_t i = 0, n = 1; i < free_.size(); ++i, n *= 2)
      for (size_t chosen = 0; chosen < n; ++chosen) {
        mixed_[n + chosen] = mixed_[chosen] + mine_[i];
        mixed_[chosen] += theirs_[i];
      }
  }

  // Keeps those free players who change anything, with what the two rows give them, and who lacks a number.
  void find_missing(const LinearPatternLeaf& leaf, const uint64_t* pattern, const uint64_t* set, const LinearRow& row) {
    lacks_ = false, row_lacks_ = other_lacks_ = 0;
    base_ = leaf.value;
    mine_.clear(), theirs_.clear();
    size_t n_free = 0, at = 0;
    for (size_t e = 0; e < row.a.size(); ++e) {
      const int32_t place = leaf.of_model[e];
      const bool mine = row.lacks[e], other = other_.lacks[e];
      if (at == free_.size() || free_[at] != int32_t(e)) {
        const bool knows = is_in(leaf, pattern, place);
        lacks_ |= knows ? mine : other;
        base_ += knows ? row.a[e] : other_.a[e];
        continue;
      }
      ++at;
      lacks_ |= mine && other;
      if (row.a[e] == other_.a[e] && mine == other) {
        base_ += row.a[e];
        continue;
      }
      row_lacks_ |= uint32_t(mine) << (n_free % 32), other_lacks_ |= uint32_t(other) << (n_free % 32);
      mine_.push_back(row.a[e]), theirs_.push_back(other_.a[e]);
      free_[n_free++] = place;
    }
    free_.resize(n_free);
    if (n_free > kMostFree)
      throw std::invalid_argument(
          "a leaf clips its model, or lacks numbers of it, where more than 16 features of two rows mix");
  }

  // Sets of one size have the same games, except for who is known.
  void share_by_size(double* phi) const {
    const size_t k = known_.size(), z = unknown_.size(), e = free_.size(), n = e + 1;
    for (size_t size = 0; size <= e; ++size) {
      const double all = by_size_[e * n + size];
      const double gain = k + size > 0 ? beta_(k + size - 1, z + e - size) : 0;
      const double loss = z + e > size ? beta_(k + size, z + e - size - 1) : 0;
      for (const int32_t place : known_) phi[place] += all * gain;
      for (const int32_t place : unknown_) phi[place] -= all * loss;
      for (size_t i = 0; i < e; ++i) {
        const double with = by_size_[i * n + size];
        phi[free_[i]] += with * gain - (all - with) * loss;
      }
    }
  }
};

}  // namespace glasswood
