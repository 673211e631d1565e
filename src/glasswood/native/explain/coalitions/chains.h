// Pairs of rows that differ on too many players for all coalitions: the margins while players join one after the other.
//
// A leaf with P and N is reached after the last of P has joined and until the first of N does: two entries of an array
// of differences, whatever the number of players. Its Shapley values have a closed form: with p and n players,
// v (p - 1)! n! / (p + n)! for each of P and -v p! (n - 1)! / (p + n)! for each of N.
#pragma once
#include "explain/coalitions/pair.h"

namespace glasswood {
namespace {

// 1 / (p C(p + n, n)) = (p - 1)! n! / (p + n)!
inline double share_of_leaf(int p, int n) {
  double choose = 1;
  for (int i = 1; i <= n; ++i) choose = choose * (p + i) / i;
  return 1 / (p * choose);
}

template <class Mask>
class PairChains {
 public:
  PairChains(const CoalitionTask& task, int64_t pair, Pair<Mask>& of)
      : task_(task), leaves_(task.leaves), pair_(pair), of_(of) {}

  // Margins [chain][players that have joined][output].
  void write_margins() {
    const int64_t k = leaves_.n_outputs, steps = of_.d() + 1;
    double* to = task_.margins + task_.first[pair_] * k;
    typedef int64_t Aliased __attribute__((may_alias));
    Aliased* differences = reinterpret_cast<Aliased*>(to);  // until they are summed
    for (int32_t chain = 0; chain < task_.n_chains && !of_.ended();
         ++chain, to += steps * k, differences += steps * k) {
      const int32_t* rank = task_.ranks + (pair_ * task_.n_chains + chain) * int64_t(leaves_.n_players);
      for (int64_t i = 0; i < steps * k; ++i) differences[i] = 0;
      of_.each_leaf([&](int64_t leaf, int64_t output, Mask p, Mask n) {
        int32_t first = 0, last = of_.d();
        of_.each_player(leaf, p, [&](int32_t player) { first = rank[player] >= first ? rank[player] + 1 : first; });
        of_.each_player(leaf, n, [&](int32_t player) { last = rank[player] < last ? rank[player] : last; });
        if (first > last) return;
        for (int64_t o = 0; o < leaves_.width; ++o) {
          const int64_t v = leaves_.value[leaf * leaves_.width + o];
          differences[first * k + output + o] += v;
          if (last < of_.d()) differences[(last + 1) * k + output + o] -= v;
        }
      });
      for (int64_t i = k; i < steps * k; ++i) differences[i] += differences[i - k];
      for (int64_t i = 0; i < steps * k; ++i) to[i] = leaves_.base[i % k] + leaves_.unit * double(differences[i]);
    }
  }

  void write_values() {
    const int64_t k = leaves_.n_outputs;
    double* to = task_.margin_values + pair_ * leaves_.n_players * k;
    for (int64_t i = 0; i < leaves_.n_players * k; ++i) to[i] = 0;
    of_.each_leaf([&](int64_t leaf, int64_t output, Mask p, Mask n) {
      const int n_p = __builtin_popcountll(p), n_n = __builtin_popcountll(n);
      const double gain = n_p ? leaves_.unit * share_of_leaf(n_p, n_n) : 0;
      const double loss = n_n ? leaves_.unit * share_of_leaf(n_n, n_p) : 0;
      for (int64_t o = 0; o < leaves_.width; ++o) {
        const double v = double(leaves_.value[leaf * leaves_.width + o]);
        of_.each_player(leaf, p, [&](int32_t player) { to[player * k + output + o] += v * gain; });
        of_.each_player(leaf, n, [&](int32_t player) { to[player * k + output + o] -= v * loss; });
      }
    });
  }

 private:
  const CoalitionTask& task_;
  const CoalitionLeaves& leaves_;
  int64_t pair_;
  Pair<Mask>& of_;
};

}  // namespace
}  // namespace glasswood
