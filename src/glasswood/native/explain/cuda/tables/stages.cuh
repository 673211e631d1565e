// A chunk of subtrees passes a tile of rows: tables, keys and records of a stage of subtrees lie in shared memory while
// those of the next are on their way.
//
// Needs Real, THREADS, ROWS (neighbouring rows of a thread), TILE (of a block) and STAGED (0: tables of any size, read
// where they lie).
#pragma once
#include "common/cuda/async.cuh"
#include "explain/cuda/tables/format.h"

namespace glasswood {

constexpr int PER_QUAD = 16 / int(sizeof(Real));

struct alignas(16) Numbers {
  Real value[PER_QUAD];
};
struct alignas(2 * ROWS < 16 ? 2 * ROWS : 16) Keys {
  unsigned short key[ROWS];
};

// The buffer of a stage in shared memory: tables, keys, records.
struct StageBuffer {
  char* base;
  unsigned number_bytes, key_bytes;  // room
  __device__ __forceinline__ Real* table() const { return reinterpret_cast<Real*>(base); }
  __device__ __forceinline__ unsigned short* keys() const {
    return reinterpret_cast<unsigned short*>(base + number_bytes);
  }
  __device__ __forceinline__ TableRecord* records() const {
    return reinterpret_cast<TableRecord*>(base + number_bytes + key_bytes);
  }
};

__device__ __forceinline__ void copy_all(void* target, const void* source, int n_quads) {
  for (int i = threadIdx.x; i < n_quads; i += THREADS)
    copy_chunk(static_cast<uint4*>(target) + i, static_cast<const uint4*>(source) + i);
}

__device__ __forceinline__ void fetch_stage(const TableStage& stage, const Real* __restrict__ table,
                                            const unsigned short* __restrict__ keys, long long stride,
                                            const TableRecord* __restrict__ records, long long first_row,
                                            const StageBuffer& to) {
  copy_all(to.table(), table + stage.table, stage.n_numbers / PER_QUAD);
  copy_all(to.records(), records + stage.first_subtree, stage.n_subtrees * int(sizeof(TableRecord) / 16));
  const int n_rows = int(min(static_cast<long long>(TILE), stride - first_row));
  constexpr int line = TILE / 8;
  for (int i = threadIdx.x; i < stage.n_subtrees * line; i += THREADS) {
    const int subtree = i / line, at = i - subtree * line;
    if (at * 8 < n_rows)
      copy_chunk(reinterpret_cast<uint4*>(to.keys()) + i,
                 reinterpret_cast<const uint4*>(keys + (stage.first_subtree + subtree) * stride + first_row) + at);
  }
}

// Keys come one subtree ahead.
template <class Sums>
__device__ __forceinline__ void add_stage(Sums& sums, const StageBuffer& at, int n_subtrees, long long first) {
  const Keys* keys = reinterpret_cast<const Keys*>(at.keys()) + Sums::place();
  Keys next = *keys;
  for (int i = 0; i < n_subtrees; ++i) {
    const Keys mine = next;
    if (i + 1 < n_subtrees) next = keys[(i + 1) * (TILE / ROWS)];
    const TableRecord& record = at.records()[i];
    sums.add(at.table() + int(record.table - first), record, mine);
  }
}

// Where everything lies, and how a block divides its shared memory.
struct ChunkPass {
  const unsigned short* __restrict__ keys;
  long long stride;
  const StageChunk* __restrict__ chunks;
  const TableStage* __restrict__ stages;
  const TableRecord* __restrict__ records;
  const Real* __restrict__ tables;
  long long component_size;
  int sum_bytes;
  unsigned number_bytes, key_bytes, buffer_bytes;
  Real* __restrict__ partial;
};

// Sums: made of (shared memory, chunk); place(): of a thread's rows among the tile's; add; write.
template <class Sums>
__device__ __forceinline__ void pass_chunk(const ChunkPass& pass, char* memory) {
  // Tiles of a chunk side by side, which read the same tables.
  const unsigned n_tiles = unsigned((pass.stride + TILE - 1) / TILE);
  const StageChunk chunk = pass.chunks[blockIdx.x / n_tiles];
  const long long first_row = static_cast<long long>(blockIdx.x % n_tiles) * TILE;
  const Real* table = pass.tables + chunk.component * pass.component_size;
  const int last = chunk.first_stage + chunk.n_stages;
  const long long row = first_row + Sums::place() * ROWS;
  const bool is_active = row < pass.stride;
  Sums sums(memory, chunk.n_slots);
#if STAGED
  const auto buffer_of = [&](int s) {
    return StageBuffer{memory + pass.sum_bytes + ((s - chunk.first_stage) & 1) * pass.buffer_bytes, pass.number_bytes,
                       pass.key_bytes};
  };
  TableStage stage = pass.stages[chunk.first_stage], next = pass.stages[min(chunk.first_stage + 1, last - 1)];
  fetch_stage(stage, table, pass.keys, pass.stride, pass.records, first_row, buffer_of(chunk.first_stage));
  end_copies();
  for (int s = chunk.first_stage; s < last; ++s) {
    if (s + 1 < last) fetch_stage(next, table, pass.keys, pass.stride, pass.records, first_row, buffer_of(s + 1));
    end_copies();
    const TableStage after = pass.stages[min(s + 2, last - 1)];  // nobody waits for where the next tables lie
    await_copies<1>();
    __syncthreads();
    if (is_active) add_stage(sums, buffer_of(s), stage.n_subtrees, stage.table);
    __syncthreads();
    stage = next, next = after;
  }
#else
  if (is_active)
    for (int s = chunk.first_stage; s < last; ++s) {
      const TableStage stage = pass.stages[s];
      for (int i = stage.first_subtree; i < stage.first_subtree + stage.n_subtrees; ++i) {
        const TableRecord& record = pass.records[i];
        sums.add(table + record.table, record, *reinterpret_cast<const Keys*>(pass.keys + i * pass.stride + row));
      }
    }
#endif
  if (is_active) sums.write(pass.partial + chunk.first_slot * pass.stride + row, pass.stride, chunk.n_slots);
}

}  // namespace glasswood
