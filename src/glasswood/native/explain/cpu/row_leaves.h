// Path-dependent values of one row with leaves in the lanes: blocks of 16 leaves of a tree of up to 12 players.
//
// A leaf's value for player i is v (o_i - z_i) ∫ Π_{j != i} (z_j + (o_j - z_j) t) dt (explain/cpu/shap.h). With P pairs
// of players, those that the path does not test with z = o = 1, and s = t / (1 - t),
//   Π_{j != i} = (1 - t)^(2P - 1) Π_{j != i} (z_j + o_j s).
// With R_0 and R_1 the sums over the quadrature points of the product over the other pairs and of s times it, the
// players i and j of a pair get v (o_i - z_i) (z_j R_0 + o_j R_1) and v (o_j - z_j) (z_i R_0 + o_i R_1). No factor is
// below 0.
//
// Control flow does not follow the row: its way decides on bits alone, so that no branch is mispredicted. A leaf costs
// less than half of what the walk of explain/cpu/row_walk.h takes for a split, and that walk leaves few splits out.
// Included by explain/cpu/kernels.cpp only.
#pragma once
#include "common/lanes.h"
#include "common/vectors.h"
#include "explain/cpu/row_task.h"

namespace glasswood {
namespace {

template <class Real, int P>
class RowLeaves {
 public:
  RowLeaves(const RowWalkTask<Real>& task, const RowSpace<Real>& space, const RowTree& tree)
      : task_(task), space_(space), tree_(tree), phi_(reinterpret_cast<V*>(space.phi)) {
    for (int v = 0; v < kVectors; ++v)
      for (int lane = 0; lane < L::width; ++lane) bit_[v][lane] = Integer(1) << (v * L::width + lane);
    for (int s = 0; s < kSlots; ++s) bit_of_slot_[s] = uint16_t(1 << s);
  }

  // Adds to total [player][output].
  void run(double* total) {
    const int width = task_.width;
    for (int i = 0; i < kSlots * width; ++i) phi_[i] = V{};
    pass_upper();
    const BlockPart* part = task_.parts + tree_.first_part;
    const BlockSplit<Real>* split = task_.block_splits + tree_.first_split;
    const Real* part_z = task_.part_z + tree_.first_z;
    const Real* value = task_.block_value + tree_.first_block * kBlockLeaves * width;
    for (int b = 0; b < tree_.n_blocks; ++b, value += kBlockLeaves * width) {
      const LeafBlock block = task_.blocks[tree_.first_block + b];
      enter(part, block.n_parts, part_z);
      for (int i = 0; i < block.n_splits; ++i) apply(split[i]);
      part += block.n_parts, split += block.n_splits, part_z += block.n_parts * kSlots;
      for (int v = 0; v < kVectors; ++v) add_leaves(v, value + v * L::width);
    }
    for (int slot = 0; slot < tree_.n_slots; ++slot)
      for (int o = 0; o < width; ++o) {
        double sum = 0;
        for (int lane = 0; lane < L::width; ++lane) sum += double(phi_[slot * width + o][lane]);
        total[task_.slot_player[tree_.first_slot + slot] * int64_t(task_.n_outputs) + tree_.output + o] += sum;
      }
  }

 private:
  using L = Lanes<Real, kVectorBytes / int(sizeof(Real))>;
  using V = typename L::Value;
  using Mask = typename L::Mask;
  using Integer = typename L::Integer;
  static constexpr int kSlots = 2 * P, kVectors = kBlockLeaves / L::width;
  typedef uint16_t Bits __attribute__((vector_size(16 * sizeof(uint16_t))));  // [slot]
  static_assert(kBlockSlots <= 16);

  const RowWalkTask<Real>& task_;
  const RowSpace<Real>& space_;
  const RowTree& tree_;
  V* phi_;
  Mask bit_[kVectors];
  Bits bit_of_slot_{};
  // Of the block at work: cover shares of the players, and bits of the leaves whose conditions on a player are met.
  V z_[kSlots][kVectors];
  union {
    Bits all;
    uint16_t of[16];
  } met_;

  GLASSWOOD_INLINE Mask lanes_of(uint32_t bits, int v) const { return ((Mask{} + Integer(bits)) & bit_[v]) != 0; }

  void pass_upper() {
    uint16_t* met = space_.met;
    met[0] = uint16_t(~0);
    const UpperSplit* upper = task_.upper + tree_.first_upper;
    for (int i = 0; i < tree_.n_upper; ++i) {
      const uint16_t above = met[upper[i].edge], without = uint16_t(above & ~(1 << upper[i].slot));
      const bool left = row_goes_left(task_, upper[i], upper[i].flags);
      met[1 + 2 * i] = left ? above : without;
      met[2 + 2 * i] = left ? without : above;
    }
  }

  GLASSWOOD_INLINE void enter(const BlockPart* parts, int n_parts, const Real* part_z) {
    met_.all = Bits{};
    for (int p = 0; p < n_parts; ++p, part_z += kSlots) {
      const Bits meets = Bits(((Bits{} + space_.met[parts[p].edge]) & bit_of_slot_) != 0);
      met_.all |= meets & (Bits{} + uint16_t(parts[p].leaves));
      for (int v = 0; v < kVectors; ++v) {
        const Mask lanes = lanes_of(parts[p].leaves, v);
        GLASSWOOD_UNROLL
        for (int s = 0; s < kSlots; ++s)
          z_[s][v] = p ? L::select(lanes, L::splat(part_z[s]), z_[s][v]) : L::splat(part_z[s]);
      }
    }
  }

  GLASSWOOD_INLINE void apply(const BlockSplit<Real>& split) {
    const bool left = row_goes_left(task_, split, split.flags);
    met_.of[split.slot] &= uint16_t(~split.leaves[left ? 1 : 0]);
    for (int v = 0; v < kVectors; ++v)
      z_[split.slot][v] *= L::select(lanes_of(split.leaves[0], v), L::splat(split.ratio[0]),
                                     L::select(lanes_of(split.leaves[1], v), L::splat(split.ratio[1]), L::splat(1)));
  }

  GLASSWOOD_INLINE void add_leaves(int v, const Real* value) {
    V z[kSlots], plain[P], times_s[P];
    Mask met[kSlots];
    GLASSWOOD_UNROLL
    for (int s = 0; s < kSlots; ++s) z[s] = z_[s][v], met[s] = lanes_of(met_.of[s], v);
    GLASSWOOD_UNROLL
    for (int j = 0; j < P; ++j) plain[j] = times_s[j] = V{};
    const Real* points = task_.points + tree_.first_point;
    GLASSWOOD_NO_UNROLL
    for (int k = 0; k < tree_.n_points; ++k) {
      const V s = L::splat(points[k]), none{};
      V pair[P], before[P], after = V{} + points[tree_.n_points + k];
      GLASSWOOD_UNROLL
      for (int j = 0; j < P; ++j)
        pair[j] = (z[2 * j] + L::select(met[2 * j], s, none)) * (z[2 * j + 1] + L::select(met[2 * j + 1], s, none));
      before[1] = pair[0];
      GLASSWOOD_UNROLL
      for (int j = 2; j < P; ++j) before[j] = before[j - 1] * pair[j - 1];
      GLASSWOOD_UNROLL
      for (int j = P - 1; j >= 0; --j) {
        const V others = j ? before[j] * after : after;
        plain[j] += others, times_s[j] += s * others;
        after *= pair[j];
      }
    }
    GLASSWOOD_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      const V others = z[s ^ 1] * plain[s / 2] + L::select(met[s ^ 1], times_s[s / 2], V{});
      const V gain = (L::select(met[s], L::splat(1), V{}) - z[s]) * others;
      for (int o = 0; o < task_.width; ++o) {
        V values;
        __builtin_memcpy(&values, value + o * kBlockLeaves, sizeof(V));
        phi_[s * task_.width + o] += gain * values;
      }
    }
  }
};

template <class Real, int P>
__attribute__((noinline)) void explain_leaves(const RowWalkTask<Real>& task, const RowSpace<Real>& space,
                                              const RowTree& tree, double* total) {
  RowLeaves<Real, P>(task, space, tree).run(total);
}

template <class Real>
void explain_row_by_blocks(const RowWalkTask<Real>& task, const RowSpace<Real>& space, const RowTree& tree,
                           double* total) {
  if (tree.n_pairs == pairs_of(1))
    explain_leaves<Real, pairs_of(1)>(task, space, tree, total);
  else
    explain_leaves<Real, pairs_of(kBlockSlots)>(task, space, tree, total);
}

}  // namespace
}  // namespace glasswood
