// Blocks of rows, each a task of one thread.
#pragma once
#include "explain/tables/totals.h"

namespace glasswood {
namespace {

template <class Real>
void begin_block(const PassTask<Real>& task, PassSpace<Real>& space, int64_t first_row, int n_rows) {
  encode_block(task, space, first_row, n_rows);
  double* total = space.total;
  for (int output = 0; output < task.n_outputs; ++output) {
    const OutputTotals<Real> totals(task, output);
    __builtin_memset(total, 0, sizeof(double) * n_rows * totals.stride);
    total += space.stride * totals.stride;
  }
}

template <class Real, int L>
void pass_block(const PassTask<Real>& task, const PassSpace<Real>& space, int n_rows) {
  double* total = space.total;
  for (int output = 0; output < task.n_outputs; ++output) {
    const OutputTotals<Real> totals(task, output);
    pass_chunks<Real, L>(task, space, output, n_rows, [&](const TableChunk& chunk, int row, int n) {
      add_sums<Real, L>(task, space, chunk, total + row * totals.stride, totals.stride, n);
    });
    total += space.stride * totals.stride;
  }
}

template <class Real>
int64_t pass_workspace(const PassTask<Real>& task) {
  Arena arena{nullptr}, kept{nullptr};
  PassSpace<Real>(task, arena, task.blocks ? kept : arena);
  return arena.used();
}

template <class Real>
int64_t block_size(const PassTask<Real>& task) {
  Arena arena{nullptr}, kept{nullptr};
  PassSpace<Real>(task, arena, kept);
  return kept.used();
}

// Calls of(space, first row, rows) for each task's block.
template <class Real, class Of>
void for_each_block(const PassTask<Real>& task, const Of& of) {
  const int64_t n_rows = task.rows.n_rows, size = task.rows_together;
  share_out(task.team, task.n_tasks, [&](int64_t t, int32_t thread) {
    Arena arena{task.workspace + thread * task.workspace_size}, kept{task.blocks + t * task.block_size};
    PassSpace<Real> space(task, arena, task.blocks ? kept : arena);
    const int64_t first = (task.first_task + t) * size, rest = n_rows - first;
    const int n = int(rest < size ? rest : size);
    of(space, first, n);
  });
}

template <class Real>
void begin_all(const PassTask<Real>& task) {
  for_each_block(task, [&](PassSpace<Real>& space, int64_t first, int n) { begin_block(task, space, first, n); });
}

// Keys of all rows, [subtree of the chunks][row].
template <class Real>
void find_all_keys(const PassTask<Real>& task, uint16_t* keys) {
  const int64_t n_rows = task.rows.n_rows;
  for_each_block(task, [&](PassSpace<Real>& space, int64_t first, int n) {
    uint16_t* to = keys + first;
    for (const TableChunk *chunk = task.plan.chunks + task.first_chunk, *end = chunk + task.n_chunks; chunk < end;
         ++chunk, to += chunk[-1].n_subtrees * n_rows)
      for (int row = 0; row < n; row += space.tile) {
        const int size = n - row < space.tile ? n - row : space.tile;
        find_tile_keys(task, space, *chunk, row, size);
        for (int s = 0; s < chunk->n_subtrees; ++s)
          __builtin_memcpy(to + s * n_rows + row, space.keys + s * space.tile, sizeof(uint16_t) * size);
      }
  });
}

template <class Real>
void pass_all(const PassTask<Real>& task) {
  for_each_block(task, [&](PassSpace<Real>& space, int64_t first, int n) {
    if (task.begins) begin_block(task, space, first, n);
    if (task.plan.lanes == 8)
      pass_block<Real, 8>(task, space, n);
    else
      pass_block<Real, 16>(task, space, n);
    if (!task.ends) return;
    if (task.double_out)
      write_rows(task, space, task.out64, first, n);
    else
      write_rows(task, space, task.out32, first, n);
  });
}

}  // namespace
}  // namespace glasswood
