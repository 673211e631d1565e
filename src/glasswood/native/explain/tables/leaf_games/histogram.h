// Background rows pass: the same keys as of explained rows, and a count in place of a vector.
#pragma once
#include "explain/tables/entries.h"

namespace glasswood {
namespace {

template <class Real, class Count>
void count_tile(const CountTask<Real>& task, const PassSpace<Real>& space, const TableChunk& chunk, int row, int n_rows,
                Count* counts) {
  const int64_t* weight = task.weight + row;
  for (int i = 0; i < chunk.n_subtrees; ++i) {
    const uint16_t* keys = space.keys + i * space.tile;
    Count* count = counts + task.pass.plan.subtrees[chunk.first_subtree + i].first_vector - task.first_count;
    for (int r = 0; r < n_rows; ++r) count[keys[r] / kKeyScale] += Count(weight[r]);
  }
}

// What a thread needs; the codes of all rows are shared.
template <class Real>
PassSpace<Real> count_space(const CountTask<Real>& task, Arena& arena, int16_t* codes) {
  PassSpace<Real> space;
  space.tile = task.pass.tile;
  space.encoded = arena.take<float>(int64_t(task.pass.coding.n_features) * kEncoded);
  space.keys = arena.take<uint16_t>(int64_t(task.pass.plan.most_subtrees) * space.tile);
  space.codes = codes;
  space.stride = (task.pass.rows.n_rows + space.tile - 1) / space.tile * space.tile;
  return space;
}

template <class Real>
int64_t count_workspace(const CountTask<Real>& task) {
  Arena arena{nullptr};
  count_space(task, arena, nullptr);
  return arena.used();
}

// A chunk has one thread, so that no two add to the same count.
template <class Real, class Count>
void count_chunk(const CountTask<Real>& task, const PassSpace<Real>& space, const TableChunk& chunk, Count* counts) {
  const int n_rows = int(task.pass.rows.n_rows), size = task.pass.tile;
  if (task.begins) __builtin_memset(counts + chunk.first_vector - task.first_count, 0, sizeof(Count) * chunk.n_vectors);
  for (int row = 0; row < n_rows; row += size) {
    const int n = n_rows - row < size ? n_rows - row : size;
    find_tile_keys(task.pass, space, chunk, row, n);
    count_tile(task, space, chunk, row, n, counts);
  }
}

template <class Real>
void count_states(const CountTask<Real>& task) {
  const PassTask<Real>& pass = task.pass;
  const int n_rows = int(pass.rows.n_rows), size = pass.tile, n_tiles = (n_rows + size - 1) / size;
  const auto space_of = [&](int32_t thread) {
    Arena arena{pass.workspace + thread * pass.workspace_size};
    return count_space(task, arena, task.codes);
  };
  const auto rows_of = [&](int64_t tile) { return n_rows - tile * size < size ? int(n_rows - tile * size) : size; };
  share_out(pass.team, task.is_encoded ? 0 : n_tiles, [&](int64_t tile, int32_t thread) {
    PassSpace<Real> space = space_of(thread);
    space.codes += tile * size;
    encode_block(pass, space, tile * size, rows_of(tile));
  });
  share_out(pass.team, pass.n_chunks, [&](int64_t c, int32_t thread) {
    const PassSpace<Real> space = space_of(thread);
    const TableChunk& chunk = pass.plan.chunks[pass.first_chunk + c];
    if (task.count.few)
      count_chunk(task, space, chunk, task.count.few);
    else
      count_chunk(task, space, chunk, task.count.many);
  });
}

}  // namespace
}  // namespace glasswood
