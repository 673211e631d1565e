// Shapley values, interactions and indices of sets from a number v(S) for each coalition S of d players, by folding
// halves: a sum over the coalitions that hold player i is the sum of the upper halves by bit i.
//
// With w_r(t) = t! (d - t - r)! / (d - r + 1)!, the index of a set T of r players is
//   Σ_S v(S) (-1)^(r - |S ∩ T|) w_r(|S| - |S ∩ T|).
// Players without effect change no index: only the weights change, and stay consistent. Vectors of more lanes than
// coalitions are therefore as good.
#pragma once
#include "explain/coalitions/kernels.h"
#include "explain/coalitions/vector_math.h"

namespace glasswood {
namespace {

// t! (d - t - r)! / (d - r + 1)!, 0 where no coalition is so large; of Banzhaf's index 2^(r - d).
inline double weight_of(int t, int d, int r, bool is_banzhaf) {
  if (t < 0 || t > d - r) return 0;
  if (is_banzhaf) return 1 / double(int64_t(1) << (d - r));
  double result = 1.0 / (d - r + 1);
  for (int i = 1; i <= t; ++i) result = result * i / (d - r - t + i);
  return result;
}

// w_r(t) for t = -2 ... d.
struct SetWeights {
  double of_size[kMostPlayers + 3];

  SetWeights(int d, int r, bool is_banzhaf) {
    for (int t = -2; t <= d; ++t) of_size[t + 2] = weight_of(t, d, r, is_banzhaf);
  }
  double operator[](int t) const { return of_size[t + 2]; }
};

// A number for each size of a coalition, as vectors by the size of what numbers the vectors.
struct SizeWeights {
  Doubles by_high[kMostPlayers + 1];

  template <class Weight>
  void set(int d, const Weight& weight) {
    for (int high = 0; high <= d - kLaneBits; ++high)
      for (int lane = 0; lane < kLanes; ++lane) by_high[high][lane] = weight(high + __builtin_popcount(lane));
  }
  Doubles operator[](int64_t s) const { return by_high[__builtin_popcountll(s)]; }
};

// Writes the sum over the coalitions of each player to `of`; x is used up.
inline void fold(Doubles* x, int bits, double* of) {
  for (int i = bits - 1; i >= 0; --i) {
    const int64_t half = int64_t(1) << i;
    Doubles sum{};
    for (int64_t k = 0; k < half; ++k) sum += x[k + half], x[k] += x[k + half];
    of[kLaneBits + i] = sum_of(sum);
  }
  for (int i = 0; i < kLaneBits; ++i) {
    of[i] = 0;
    for (int lane = 0; lane < kLanes; ++lane)
      if (lane >> i & 1) of[i] += x[0][lane];
  }
}

class IndexSpace {
 public:
  // Sets the index for d players, at least as many as lanes.
  void set(int d, CoalitionIndex index) {
    if (d == d_) return;
    d_ = d;
    const SetWeights one(d, 1, false);
    out_.set(d, [&](int s) { return one[s]; });
    both_.set(d, [&](int s) { return one[s] + one[s - 1]; });
    if (index != CoalitionIndex::kPairs) return;
    const SetWeights two(d, 2, false);
    none_.set(d, [&](int s) { return two[s]; });
    single_.set(d, [&](int s) { return two[s] + two[s - 1]; });
    pair_.set(d, [&](int s) { return two[s] + 2 * two[s - 1] + two[s - 2]; });
  }

  // Values [player] of v, which is used up unless `to` has room for as many vectors.
  void values(Doubles* v, Doubles* to, double* phi) const {
    const int bits = d_ - kLaneBits;
    const double empty = v[0][0];
    Doubles total{};
    for (int64_t s = 0; s < int64_t(1) << bits; ++s) {
      const Doubles x = v[s] - empty;
      total += x * out_[s];
      to[s] = x * both_[s];
    }
    fold(to, bits, phi);
    const double without = sum_of(total);
    for (int i = 0; i < d_; ++i) phi[i] -= without;
  }

  // Indices of all pairs i < j, to pair[i * d + j]; `to` has room for as many vectors as v.
  void pairs(const Doubles* v, Doubles* to, double* pair) const {
    const int bits = d_ - kLaneBits;
    const double empty = v[0][0];
    double single[kMostPlayers];
    Doubles total{};
    for (int64_t s = 0; s < int64_t(1) << bits; ++s) {
      const Doubles x = v[s] - empty;
      total += x * none_[s];
      to[s] = x * single_[s];
    }
    const double none = sum_of(total);
    fold(to, bits, single);
    for (int64_t s = 0; s < int64_t(1) << bits; ++s) to[s] = (v[s] - empty) * pair_[s];
    for (int j = bits - 1; j >= 0; --j) {
      const int64_t half = int64_t(1) << j;
      for (int64_t k = 0; k < half; ++k) to[k] += to[k + half];
      double with[kMostPlayers];
      fold(to + half, j, with);
      for (int i = 0; i < kLaneBits + j; ++i) pair[i * d_ + kLaneBits + j] = with[i];
    }
    for (int j = 1; j < kLaneBits; ++j)
      for (int i = 0; i < j; ++i) {
        pair[i * d_ + j] = 0;
        for (int lane = 0; lane < kLanes; ++lane)
          if (lane >> i & lane >> j & 1) pair[i * d_ + j] += to[0][lane];
      }
    for (int j = 1; j < d_; ++j)
      for (int i = 0; i < j; ++i) pair[i * d_ + j] += none - single[i] - single[j];
  }

  // Index of the set T; `to` has room for half as many vectors as v.
  double of_set(const Doubles* v, Doubles* to, uint32_t T, bool is_banzhaf) const {
    constexpr uint32_t kLow = kLanes - 1;
    int bits = d_ - kLaneBits;
    const Doubles* from = v;
    for (uint32_t rest = T >> kLaneBits; rest;) {
      const int bit = 31 - __builtin_clz(rest);
      rest ^= 1u << bit;
      const int64_t half = int64_t(1) << bit;
      for (int64_t s = 0; s < int64_t(1) << (bits - 1); ++s) {
        const int64_t at = (s >> bit << (bit + 1)) | (s & (half - 1));
        to[s] = from[at + half] - from[at];
      }
      --bits, from = to;
    }
    const int r = __builtin_popcount(T), n_low = __builtin_popcount(T & kLow);
    const SetWeights w(d_, r, is_banzhaf);
    Doubles weight[kMostPlayers + 1];
    for (int high = 0; high <= bits; ++high)
      for (int lane = 0; lane < kLanes; ++lane) {
        const double size = w[high + __builtin_popcount(lane & ~T)];
        weight[high][lane] = (n_low - __builtin_popcount(lane & T & kLow)) % 2 ? -size : size;
      }
    Doubles sum{};
    for (int64_t s = 0; s < int64_t(1) << bits; ++s) sum += from[s] * weight[__builtin_popcountll(s)];
    return sum_of(sum);
  }

  int d() const { return d_; }

 private:
  int d_ = -1;
  SizeWeights out_, both_, none_, single_, pair_;
};

}  // namespace
}  // namespace glasswood
