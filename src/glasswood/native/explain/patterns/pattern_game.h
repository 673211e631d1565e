// What one leaf of weight 1 gives against the patterns of a background, in counts of background rows.
//
// A row of the set Z and a pattern U of n rows out of m (sets of conditions that are not met), k of them: if Z and U
// share no position, the pair is the game "all of U known, none of Z", in which each position of U has
// (k - 1)! z! / (k + z)!, each of Z -k! (z - 1)! / (k + z)!, times n / m. Otherwise nothing.
#pragma once
#include "explain/patterns/background_patterns.h"
#include "explain/patterns/player_sets.h"

namespace glasswood {

// a! b! / (a + b + 1)! for a = 0, 1, ..., or b = 0, 1, ...: one table serves both. Banzhaf's index has
// 2^-(a + b) instead.
class BetaRow {
 public:
  void set(int32_t a, int32_t most, IndexKind kind = IndexKind::kShapley) {
    if (a == a_ && int32_t(beta_.size()) > most) return;
    a_ = a;
    const bool is_shapley = kind == IndexKind::kShapley;
    beta_.assign(most + 1, is_shapley ? 1.0 / (a + 1) : std::ldexp(1.0, -a));
    for (int32_t b = 1; b <= most; ++b) beta_[b] = is_shapley ? beta_[b - 1] * b / (a + b + 1) : beta_[b - 1] / 2;
  }
  double operator[](int32_t b) const { return beta_[b]; }

 private:
  int32_t a_ = -1;
  std::vector<double> beta_;
};

// Patterns of one leaf.
struct LeafPatterns {
  const uint64_t* sets;
  const int64_t* count;
  int64_t n;
  int32_t n_words, n_positions;

  const uint64_t* operator[](int64_t i) const { return sets + i * n_words; }
};

inline bool shares_any(const uint64_t* a, const uint64_t* b, int32_t n_words) {
  uint64_t shared = 0;
  for (int32_t w = 0; w < n_words; ++w) shared |= a[w] & b[w];
  return shared != 0;
}

template <class Visit>
void each_of(const uint64_t* set, int32_t n_words, const Visit& visit) {
  for (int32_t w = 0; w < n_words; ++w)
    for (uint64_t rest = set[w]; rest; rest &= rest - 1) visit(64 * w + std::countr_zero(rest));
}

class PatternGame {
 public:
  // Values [position]. Whether any pattern lets the row pass.
  bool explain(const LeafPatterns& patterns, const uint64_t* set, double* phi) {
    const int32_t n_words = patterns.n_words, n_positions = patterns.n_positions, z = set_size(set, n_words);
    with_.set(z, n_positions);
    if (z > 0) without_.set(z - 1, n_positions);
    std::fill_n(phi, n_positions, 0.0);
    double lost = 0;
    bool passes = false;
    for (int64_t i = 0; i < patterns.n; ++i) {
      const uint64_t* pattern = patterns[i];
      if (shares_any(pattern, set, n_words)) continue;
      passes = true;
      const int32_t k = set_size(pattern, n_words);
      const double count = double(patterns.count[i]);
      if (z > 0) lost += count * without_[k];
      if (k == 0) continue;
      const double gained = count * with_[k - 1];
      each_of(pattern, n_words, [&](int32_t position) { phi[position] += gained; });
    }
    if (passes) each_of(set, n_words, [&](int32_t position) { phi[position] = -lost; });
    return passes;
  }

  // Halves of interactions [position][position], main effects on the diagonal.
  bool explain_pairs(const LeafPatterns& patterns, const uint64_t* set, double* pairs) {
    const int32_t n_words = patterns.n_words, d = patterns.n_positions, z = set_size(set, n_words);
    std::vector<double> phi(d);
    const bool passes = explain(patterns, set, phi.data());
    std::fill_n(pairs, int64_t(d) * d, 0.0);
    if (z > 1) both_without_.set(z - 2, d);
    for (int64_t i = 0; passes && i < patterns.n; ++i) {
      const uint64_t* pattern = patterns[i];
      if (shares_any(pattern, set, n_words)) continue;
      const int32_t k = set_size(pattern, n_words);
      const double half = double(patterns.count[i]) / 2;
      each_of(pattern, n_words, [&](int32_t p) {
        if (k > 1) each_of(pattern, n_words, [&](int32_t q) { pairs[p * d + q] += half * with_[k - 2]; });
        each_of(set, n_words, [&](int32_t q) {
          pairs[p * d + q] -= half * without_[k - 1];
          pairs[q * d + p] -= half * without_[k - 1];
        });
      });
      each_of(set, n_words, [&](int32_t p) {
        if (z > 1) each_of(set, n_words, [&](int32_t q) { pairs[p * d + q] += half * both_without_[k]; });
      });
    }
    close_diagonal(phi.data(), d, pairs);
    return passes;
  }

  // The index of each set. Whether any pattern lets the row pass.
  bool explain_sets(const LeafPatterns& patterns, const uint64_t* set, std::span<const PlacedSet> wanted,
                    IndexKind kind, double* index) {
    passing_.clear();
    for (int64_t i = 0; i < patterns.n; ++i)
      if (!shares_any(patterns[i], set, patterns.n_words))
        passing_.push_back({patterns[i], set_size(patterns[i], patterns.n_words), double(patterns.count[i])});
    if (passing_.empty()) return false;
    const int32_t z = set_size(set, patterns.n_words);
    for (size_t b = 0; b < less_.size() && int32_t(b) <= z; ++b)
      less_[b].set(z - int32_t(b), patterns.n_positions, kind);
    for (const PlacedSet& one : wanted) *index++ = index_of(one, set);
    return true;
  }

 private:
  struct Passing {
    const uint64_t* pattern;
    int32_t size;
    double count;
  };
  BetaRow with_, without_, both_without_;  // [k] of z, z - 1 and z - 2 conditions that the row does not meet
  std::array<BetaRow, kMostOrder + 1> less_;
  std::vector<Passing> passing_;

  static void close_diagonal(const double* phi, int32_t d, double* pairs) {
    for (int32_t p = 0; p < d; ++p) {
      pairs[p * d + p] = phi[p];
      for (int32_t q = 0; q < d; ++q)
        if (q != p) pairs[p * d + p] -= pairs[p * d + q];
    }
  }

  // The index of a set with b positions in Z. Each position must be in Z or in U; the game of the others is "all of
  // U \ S known, none of Z \ S".
  double index_of(const PlacedSet& one, const uint64_t* set) const {
    std::array<int32_t, kMostOrder> known;
    int32_t n_known = 0, b = 0;
    for (int32_t i = 0; i < one.order; ++i)
      if (has_bit(set, one.positions[i]))
        ++b;
      else
        known[n_known++] = one.positions[i];
    double sum = 0;
    for (const Passing& row : passing_) {
      bool has_all = true;
      for (int32_t i = 0; i < n_known; ++i) has_all &= has_bit(row.pattern, known[i]);
      if (has_all) sum += row.count * less_[b][row.size - n_known];
    }
    return b % 2 ? -sum : sum;
  }
};

}  // namespace glasswood
