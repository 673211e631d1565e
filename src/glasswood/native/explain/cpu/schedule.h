// Explanations on the CPU: the schedule over blocks of rows, trees and passes. Included by explain/cpu/kernels.cpp
// only.
#pragma once
#include "explain/cpu/passes.h"

namespace glasswood {
namespace {

template <class L>
inline void add_and_clear(double* total, typename L::Value& sum) {
  typename L::Real lanes[L::width];
  __builtin_memcpy(lanes, &sum, sizeof(sum));
  GLASSWOOD_NO_UNROLL  // or no vectors are made of it
      for (int lane = 0; lane < L::width; ++lane) total[lane] += double(lanes[lane]);
  sum = typename L::Value{};
}

// Calls take(pointer to the result of the output's type).
template <class Real, class Take>
inline void with_target(const ExplainTask<Real>& task, const Take& take) {
  if (task.double_out)
    take(task.out64);
  else
    take(task.out32);
}

// Whether a call is to end before the tree at `root` is walked; asked where a number of splits lies behind `asked` that
// take some milliseconds. Trees that share slots are always walked to their end.
inline bool ends_before(int32_t root, int32_t& asked, const Team& team, int32_t thread) {
  constexpr int32_t kSplits = 1 << 14;
  if (root - asked < kSplits) return false;
  asked = root;
  return has_ended(team, thread);
}

// The values of trees that share slots, of one block of rows, added to the block's totals.
template <class Real>
void explain_trees(const ExplainTask<Real>& task, const ShapTree* trees, ExplainWorkspace<Real>& space, int block) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t F = task.n_features, P = task.n_players;
  double* total = space.total + int64_t(block) * task.n_totals * W;
  for (int t = 0; t < trees->n_sharing; ++t)
    for_each_pass(trees[t].n_points,
                  ValuePass<Real>{task, trees[t], space, space.tile + block * F * W, space.raw + block * F * W});
  for (int slot = 0; slot < trees->n_slots; ++slot) {
    const int32_t* place = task.total_of + trees->output * P + task.slot_player[trees->first_slot + slot];
    for (int o = 0; o < task.width; ++o)
      add_and_clear<ExplainLanes<Real>>(total + place[o * P] * int64_t(W), space.phi[slot * task.width + o]);
  }
}

// Trees that are one linear model: the terms are the values. total_of(output, player): of the outputs that are wanted.
template <class Real, class TotalOf>
void explain_lone_leaves(const ExplainTask<Real>& task, ExplainWorkspace<Real>& space, int block, int first_output,
                         int end_output, const TotalOf& total_of) {
  using L = ExplainLanes<Real>;
  constexpr int W = L::width;
  const int64_t F = task.n_features;
  for (int i = 0; i < task.n_lone_leaves; ++i) {
    const LoneLeaf lone = task.lone_leaves[i];
    if (lone.output < first_output || lone.output >= end_output) continue;
    const LinearLeaf& model = task.models[lone.leaf];
    attribute_terms<L>(model, task.terms, space.raw + block * F * W, space.attributed);
    for (int64_t at = model.first; at < model.end; ++at)
      add_and_clear<L>(total_of(lone.output, task.terms[at].player), space.attributed[at - model.first]);
  }
}

template <class Real, class Out>
void write_values(const ExplainTask<Real>& task, const ExplanationTarget<Out>& out, const double* total,
                  int64_t first_row, int n_rows) {
  constexpr int W = ExplainLanes<Real>::width;
  for (int64_t p = 0; p < task.n_players; ++p)
    for (int64_t o = 0; o < task.n_outputs; ++o) {
      const double* from = total + task.total_of[o * task.n_players + p] * int64_t(W);
      Out* to = out.data + first_row * out.row_stride + p * out.feature_stride + o * out.output_stride;
      for (int row = 0; row < n_rows; ++row) to[row * out.row_stride] = Out(from[row]);
    }
}

// The rows of task.n_blocks blocks, tree by tree: a tree's nodes are read from memory once for all of them.
template <class Real>
void explain_rows(const ExplainTask<Real>& task, ExplainWorkspace<Real>& space, int32_t thread, int64_t first_row,
                  int n_rows) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t F = task.n_features, P = task.n_players, size = int64_t(task.n_totals) * W;
  const int n_blocks = (n_rows + W - 1) / W;
  const auto total_of_block = [&](int block) { return space.total + block * size; };
  const auto rows_of_block = [&](int block) { return n_rows - block * W < W ? n_rows - block * W : W; };
  for (int block = 0; block < n_blocks; ++block) {
    encode_rows<Real>(task.coding, task.rows, first_row + block * W, rows_of_block(block), W, W,
                      space.tile + block * F * W);
    if (task.models) copy_rows(task.rows, F, first_row + block * W, rows_of_block(block), W, space.raw + block * F * W);
  }
  __builtin_memset(space.total, 0, sizeof(double) * n_blocks * size);
  __builtin_memset(space.phi, 0, sizeof(space.phi[0]) * task.max_slots * task.width);
  for (int32_t t = 0, asked = 0; t < task.n_trees; t += task.trees[t].n_sharing) {
    if (ends_before(task.trees[t].root, asked, task.team, thread)) return;
    for (int block = 0; block < n_blocks; ++block) explain_trees(task, task.trees + t, space, block);
  }
  for (int block = 0; block < n_blocks; ++block)
    explain_lone_leaves(task, space, block, 0, task.n_outputs, [&](int output, int player) {
      return total_of_block(block) + task.total_of[output * P + player] * int64_t(W);
    });
  with_target(task, [&](const auto& out) {
    for (int block = 0; block < n_blocks; ++block)
      write_values(task, out, total_of_block(block), first_row + block * W, rows_of_block(block));
  });
}

template <class Real>
void collect_pairs(const ExplainTask<Real>& task, const ShapTree& tree, ExplainWorkspace<Real>& space) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t P = task.n_players;
  const int32_t* player = task.slot_player + tree.first_slot;
  for (int a = 0; a < tree.n_slots; ++a) {
    add_and_clear<ExplainLanes<Real>>(space.total + int64_t(player[a]) * W, space.phi[a]);
    for (int b = 0; b < a; ++b) {
      auto& upper = space.pairs[a * tree.n_slots + b];
      auto& lower = space.pairs[b * tree.n_slots + a];
      auto sum = upper + lower;
      upper = lower = decltype(sum){};
      for (int side = 0; side < 2; ++side) {
        const int64_t row = task.selected[player[side ? b : a]], column = player[side ? a : b];
        if (row < 0) continue;
        auto kept = sum;
        add_and_clear<ExplainLanes<Real>>(space.pair_total + (row * P + column) * W, kept);
      }
    }
  }
}

// Phi_ii = phi_i - Σ_{j != i} Phi_ij; then everything goes to the result.
template <class Real>
void write_interactions(const ExplainTask<Real>& task, ExplainWorkspace<Real>& space, int64_t first_row, int n_rows,
                        int output) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t P = task.n_players;
  for (int64_t p = 0; p < P; ++p) {
    const int64_t i = task.selected[p];
    if (i < 0) continue;
    double* row_total = space.pair_total + i * P * W;
    for (int lane = 0; lane < W; ++lane) {
      double rest = space.total[p * W + lane];
      for (int64_t j = 0; j < P; ++j)
        if (j != p) rest -= row_total[j * W + lane];
      row_total[p * W + lane] = rest;
    }
    with_target(task, [&](const auto& out) {
      for (int row = 0; row < n_rows; ++row)
        for (int64_t j = 0; j < P; ++j)
          out.data[(first_row + row) * out.row_stride + i * out.feature_stride + j * out.second_stride +
                   output * out.output_stride] = row_total[j * W + row];
    });
  }
}

template <class Real>
void interact_block(const ExplainTask<Real>& task, ExplainWorkspace<Real>& space, int32_t thread, int64_t first_row,
                    int n_rows) {
  constexpr int W = ExplainLanes<Real>::width;
  const int64_t P = task.n_players, slots = task.max_slots;
  encode_rows<Real>(task.coding, task.rows, first_row, n_rows, W, W, space.tile);
  if (task.models) copy_rows(task.rows, task.n_features, first_row, n_rows, W, space.raw);
  __builtin_memset(space.phi, 0, sizeof(space.phi[0]) * slots);
  __builtin_memset(space.pairs, 0, sizeof(space.pairs[0]) * slots * slots);
  for (int output = 0; output < task.n_outputs; ++output) {
    __builtin_memset(space.total, 0, sizeof(double) * P * W);
    __builtin_memset(space.pair_total, 0, sizeof(double) * task.n_selected * P * W);
    for (int32_t t = 0, asked = 0; t < task.n_trees; ++t) {
      const ShapTree& tree = task.trees[t];
      if (ends_before(tree.root, asked, task.team, thread)) return;
      if (task.width == 1 && tree.output != output) continue;
      for_each_pass(tree.n_points, InteractionPass<Real>{task, tree, space, output});
      collect_pairs(task, tree, space);
    }
    explain_lone_leaves(task, space, 0, output, output + 1,
                        [&](int, int player) { return space.total + int64_t(player) * W; });
    write_interactions(task, space, first_row, n_rows, output);
  }
}

template <class Real, class Rows>
void for_each_task(const ExplainTask<Real>& task, bool interactions, const Rows& explain) {
  const int64_t n_rows = task.rows.n_rows, size = (interactions ? 1 : task.n_blocks) * ExplainLanes<Real>::width;
  const int64_t n_tasks = (n_rows + size - 1) / size;
  share_out(task.team, n_tasks, [&](int64_t t, int32_t thread) {
    Arena arena{task.workspace + thread * task.workspace_size};
    ExplainWorkspace<Real> space(task, arena, interactions);
    const int64_t rest = n_rows - t * size;
    explain(task, space, thread, t * size, int(rest < size ? rest : size));
  });
}

template <class Real>
void explain_values(const ExplainTask<Real>& task) {
  for_each_task(task, false, explain_rows<Real>);
}

template <class Real>
void explain_interactions(const ExplainTask<Real>& task) {
  for_each_task(task, true, interact_block<Real>);
}

template <class Real>
int64_t explain_workspace(const ExplainTask<Real>& task, bool interactions) {
  Arena arena{nullptr};
  ExplainWorkspace<Real>(task, arena, interactions);
  return arena.used();
}

}  // namespace
}  // namespace glasswood
