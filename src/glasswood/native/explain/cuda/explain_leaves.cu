// SHAP values and interactions where leaves hold linear models, leaf by leaf; explain/cpu/linear.h has the game.
//
// A leaf has an entry for each feature that its path tests or its model reads: z, the product of the cover ratios on
// the path, and o, whether the row meets the tests (both 1 without tests); a, what the terms of the feature add. At the
// quadrature's points t with weights w, g = z + (o - z) t, and v being the value at the means,
//   P = w Π g,  V = v + t Σ a o / g,  κ = (o - z) / g,  β = a o z / g²,
//   phi_i = Σ P (κ_i V + β_i),  Phi_ij = 1/2 Σ P (κ_i κ_j V + κ_i β_j + κ_j β_i),
// sums over the points: the derivatives of the leaf's multilinear extension P V / w. With o = 1 no g is 0, with o = 0 κ
// is -1 / (1 - t).
//
// Macros: those of explain/cuda/row.cuh, MIN_BLOCKS, INPUT (type of X).
#include "explain/cuda/row.cuh"
// Behind the macros of row.cuh.
#include "common/linear_term.h"
#include "explain/cuda/leaf_format.h"

using Input = INPUT;

namespace glasswood {

struct Models {
  const LeafRecord* leaf;
  const EntryRecord* entry;
  const TermRecord* term;
  const PathTest* extra;
  const int* pair_slot;  // of entry i with each entry before it that has tests; -1: not wanted
  const Real* numbers;   // [entry][1 + K]: z, and 1 / g where o = 1
};

// How the leaf's value at the row, less that at the means, is shared out among the terms.
struct Shares {
  double factor;
  bool is_of_missing;  // equal shares of the missing numbers
};

template <int K>
struct LeafWalk {
  DeviceRow row;
  Models models;
  const Input* x;
  long long feature_stride;
  Real t[K], weight[K], cold[K];  // cold: 1 / (1 - t)
  unsigned met[HOT_WORDS];        // o of the entries with tests

  GLASSWOOD_DEVICE double number(const TermRecord& term) const { return double(x[term.feature * feature_stride]); }
  GLASSWOOD_DEVICE bool lacks(const TermRecord& term) const { return lacks_number(number(term), term.category); }
  GLASSWOOD_DEVICE double addend(const TermRecord& term) const {
    return term.coefficient * term_deviation(number(term), term.category, term.mean);
  }
  GLASSWOOD_DEVICE bool passes(const PathTest& test) const {
    return unsigned(row.code(test.column)) - unsigned(test.lower) < test.width;
  }
  GLASSWOOD_DEVICE bool meets(const EntryRecord& entry) const {
    bool all = passes(entry.test);
    for (int at = entry.first_extra; at < entry.end_extra; ++at) all &= passes(models.extra[at]);
    return all;
  }
  GLASSWOOD_DEVICE bool is_met(int number) const { return met[HOT_WORDS == 1 ? 0 : number / 32] >> number % 32 & 1; }

  // As attribute_terms and attribute_missing of explain/cpu/linear.h.
  GLASSWOOD_DEVICE Shares share(const LeafRecord& leaf) const {
    double sum = 0;
    int n_missing = 0;
    for (int at = leaf.first_term; at < leaf.end_term; ++at) {
      const TermRecord term = models.term[at];
      sum += addend(term);
      n_missing += lacks(term);
    }
    if (n_missing > 0 && leaf.missing == leaf.missing)
      return {leaf.weight * (leaf.missing - leaf.at_means) / n_missing, true};
    const double value = leaf.value + sum, returned = value < leaf.low    ? leaf.low
                                                      : value > leaf.high ? leaf.high
                                                                          : value;
    const bool is_within = returned == value && leaf.at_means == leaf.value;
    return {leaf.weight * (is_within || sum == 0 ? 1 : (returned - leaf.at_means) / sum), false};
  }
  GLASSWOOD_DEVICE Real part_of(const EntryRecord& entry, const Shares& shares) const {
    double sum = 0;
    for (int at = entry.first_term; at < entry.end_term; ++at) {
      const TermRecord term = models.term[at];
      sum += shares.is_of_missing ? double(lacks(term)) : addend(term);
    }
    return Real(shares.factor * sum);
  }

  GLASSWOOD_DEVICE void explain(const LeafRecord& leaf) {
    const Shares shares = share(leaf);
    const EntryRecord* entries = models.entry + leaf.first_entry;
    const Real* numbers = models.numbers + leaf.first_entry * static_cast<long long>(1 + K);
    Real product[K], value[K];
#pragma unroll
    for (int k = 0; k < K; ++k) product[k] = weight[k], value[k] = 0;
#pragma unroll
    for (int word = 0; word < HOT_WORDS; ++word) met[word] = 0;
    for (int e = 0; e < leaf.n_tested; ++e) {
      const EntryRecord entry = entries[e];
      const Real z = numbers[e * (1 + K)], o = meets(entry);
      met[HOT_WORDS == 1 ? 0 : e / 32] |= unsigned(o) << e % 32;
#pragma unroll
      for (int k = 0; k < K; ++k) product[k] *= z + (o - z) * t[k];
      if (entry.first_term == entry.end_term) continue;
      const Real a = o * part_of(entry, shares);
#pragma unroll
      for (int k = 0; k < K; ++k) value[k] += a * numbers[e * (1 + K) + 1 + k];
    }
    Real untested = 0;
    for (int e = leaf.n_tested; e < leaf.n_entries; ++e) untested += part_of(entries[e], shares);
    Real all = 0, unmet = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      value[k] = Real(leaf.centred) + t[k] * (value[k] + untested);
      all += product[k];
      unmet += product[k] * value[k] * cold[k];
    }
    for (int e = 0; e < leaf.n_tested; ++e) {
      const EntryRecord entry = entries[e];
      Real phi = -unmet;
      if (is_met(e)) {
        const Real z = numbers[e * (1 + K)], az = part_of(entry, shares) * z;
        phi = 0;
#pragma unroll
        for (int k = 0; k < K; ++k) {
          const Real inverse = numbers[e * (1 + K) + 1 + k];
          phi += product[k] * inverse * ((1 - z) * value[k] + az * inverse);
        }
      }
      row.add(entry.slot, phi);
    }
    for (int e = leaf.n_tested; e < leaf.n_entries; ++e) row.add(entries[e].slot, part_of(entries[e], shares) * all);
#if PAIRS
    explain_pairs(leaf, shares, product, value);
#endif
  }

  // κ and β of an entry.
  GLASSWOOD_DEVICE void sides(const LeafRecord& leaf, int e, const Shares& shares, Real (&kappa)[K],
                              Real (&beta)[K]) const {
    const Real* numbers = models.numbers + (leaf.first_entry + e) * static_cast<long long>(1 + K);
    const bool is_tested = e < leaf.n_tested, is_cold = is_tested && !is_met(e);
    const Real a = is_cold ? Real(0) : part_of(models.entry[leaf.first_entry + e], shares);
    const Real z = is_tested ? numbers[0] : Real(1);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Real inverse = is_tested ? numbers[1 + k] : Real(1);
      kappa[k] = is_cold ? -cold[k] : (1 - z) * inverse;
      beta[k] = a * z * inverse * inverse;
    }
  }
  GLASSWOOD_DEVICE void explain_pairs(const LeafRecord& leaf, const Shares& shares, const Real (&product)[K],
                                      const Real (&value)[K]) const {
    const int* slot = models.pair_slot + leaf.first_pair;
    for (int i = 0; i < leaf.n_entries; ++i) {
      Real kappa_i[K], beta_i[K], with_kappa[K], with_beta[K];
      sides(leaf, i, shares, kappa_i, beta_i);
#pragma unroll
      for (int k = 0; k < K; ++k) {
        with_kappa[k] = product[k] * (kappa_i[k] * value[k] + beta_i[k]);
        with_beta[k] = product[k] * kappa_i[k];
      }
      for (int j = 0; j < i && j < leaf.n_tested; ++j, ++slot) {
        if (*slot < 0) continue;
        Real kappa[K], beta[K], sum = 0;
        sides(leaf, j, shares, kappa, beta);
#pragma unroll
        for (int k = 0; k < K; ++k) sum += with_kappa[k] * kappa[k] + with_beta[k] * beta[k];
        row.add(*slot, Real(0.5) * sum);
      }
    }
  }
};

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(64, MIN_BLOCKS)
    explain_leaves_kernel(const glasswood::PartRecord* __restrict__ parts, const long long* __restrict__ slot_offsets,
                          const glasswood::LeafRecord* __restrict__ leaves,
                          const glasswood::EntryRecord* __restrict__ entries,
                          const glasswood::TermRecord* __restrict__ terms,
                          const glasswood::PathTest* __restrict__ extra, const int* __restrict__ pair_slots,
                          const Real* __restrict__ numbers, long long pass_size, const Real* __restrict__ points,
                          const Input* __restrict__ X, long long row_stride, long long feature_stride,
                          const CODE* __restrict__ codes, int n_rows, unsigned stride, Real* __restrict__ partial) {
  using namespace glasswood;
  const int n_tiles = (n_rows + blockDim.x - 1) / blockDim.x, at = blockIdx.x / n_tiles;
  const int row = (blockIdx.x - at * n_tiles) * blockDim.x + threadIdx.x;
  const PartRecord part = parts[at];
  LeafWalk<POINTS> walk;
  open_row(walk.row, codes + row, stride, int(slot_offsets[at + 1] - slot_offsets[at]),
           partial + slot_offsets[at] * stride + row);
  walk.models = {leaves, entries, terms, extra, pair_slots, numbers + part.pass * pass_size};
  walk.x = X + min(row, n_rows - 1) * row_stride;  // codes have room for rows beyond the last, X has none
  walk.feature_stride = feature_stride;
  const Real* of_pass = points + part.pass * 3 * POINTS;
#pragma unroll
  for (int k = 0; k < POINTS; ++k) {
    walk.t[k] = of_pass[k];
    walk.weight[k] = of_pass[POINTS + k];
    walk.cold[k] = of_pass[2 * POINTS + k];
  }
  for (int leaf = part.first_leaf; leaf < part.end_leaf; ++leaf) walk.explain(leaves[leaf]);
  close_row(walk.row, int(slot_offsets[at + 1] - slot_offsets[at]), partial + slot_offsets[at] * stride + row, stride);
}
