// Adds up the vectors that rows' keys choose from the tables of a chunk's subtrees.
//
// A block takes a tile of rows and a chunk. Tables, keys and records of a stage of subtrees lie in shared memory while
// those of the next are on their way. Narrow tables have a column for each slot, and sums are registers; of wide ones
// only the subtree's own features, and sums are shared memory, [slot][row], which only their own thread touches.
//
// Macros: REAL, WIDE, THREADS, STAGED (0: tables of any size, read where they lie).
#include "common/cuda/async_copy.cuh"
#include "explain/cuda/tables/format.h"

namespace silva {

using Real = REAL;
constexpr int PER_QUAD = 16 / int(sizeof(Real));
constexpr int ROWS = (WIDE ? 8 : 16) / int(sizeof(Real)), TILE = THREADS * ROWS;

struct alignas(16) Numbers {
  Real value[PER_QUAD];
};
struct alignas(2 * ROWS) Keys {
  unsigned short key[ROWS];
};
struct alignas(ROWS * sizeof(Real)) RowSums {
  Real value[ROWS];
};

// The buffer of a stage in shared memory: tables, keys, records.
struct StageBuffer {
  char* base;
  unsigned table_bytes, key_bytes;  // room
  __device__ __forceinline__ Real* table() const { return reinterpret_cast<Real*>(base); }
  __device__ __forceinline__ unsigned short* keys() const {
    return reinterpret_cast<unsigned short*>(base + table_bytes);
  }
  __device__ __forceinline__ TableRecord* records() const {
    return reinterpret_cast<TableRecord*>(base + table_bytes + key_bytes);
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

#if WIDE
struct Sums {
  RowSums* mine;  // of slot 0; the next slot's are THREADS behind

  // The slot behind the chunk's takes what fills up the lanes of subtrees.
  __device__ __forceinline__ Sums(char* shared, int n_slots) : mine(reinterpret_cast<RowSums*>(shared) + threadIdx.x) {
    for (int slot = 0; slot <= n_slots; ++slot)
#pragma unroll
      for (int r = 0; r < ROWS; ++r) mine[slot * THREADS].value[r] = 0;
  }
  // Up to 4 * FOURS lanes. All loads stand before all stores, which the compiler cannot tell apart. Neighbouring
  // threads take the lanes in another order, so that they meet in fewer banks.
  template <int FOURS>
  __device__ __forceinline__ void add_lanes(const Real* const (&row)[ROWS], const int4* slots) {
    const int turn = FOURS == 2 ? threadIdx.x & 1 : 0;
    Numbers found[ROWS][FOURS * 4 / PER_QUAD];
    RowSums* at[FOURS * 4];
    RowSums sum[FOURS * 4];
#pragma unroll
    for (int four = 0; four < FOURS; ++four) {
      const int place = four ^ turn;
      const int4 slot = slots[place];
#pragma unroll
      for (int q = 0; q < 4 / PER_QUAD; ++q)
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
          found[r][four * 4 / PER_QUAD + q] = reinterpret_cast<const Numbers*>(row[r] + place * 4)[q];
      at[four * 4] = mine + slot.x * THREADS, at[four * 4 + 1] = mine + slot.y * THREADS;
      at[four * 4 + 2] = mine + slot.z * THREADS, at[four * 4 + 3] = mine + slot.w * THREADS;
#pragma unroll
      for (int lane = four * 4; lane < four * 4 + 4; ++lane) sum[lane] = *at[lane];
    }
#pragma unroll
    for (int lane = 0; lane < FOURS * 4; ++lane) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) sum[lane].value[r] += found[r][lane / PER_QUAD].value[lane % PER_QUAD];
      *at[lane] = sum[lane];
    }
  }
  __device__ __forceinline__ void add(const Real* table, const TableRecord& record, const Keys& keys) {
    const Real* row[ROWS];
    const int width = record.width;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) row[r] = table + unsigned(keys.key[r]) * unsigned(width);
    const int4* slots = reinterpret_cast<const int4*>(record.slot);
    if (width == 4) add_lanes<1>(row, slots);
    if (width == 8 || width == 16) add_lanes<2>(row, slots);
    if (width == 12) add_lanes<3>(row, slots);
    if (width < 16) return;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) row[r] += 8;
    add_lanes<2>(row, slots + 2);
  }
  __device__ __forceinline__ void write(Real* __restrict__ to, long long slot_stride, int n_slots) const {
    for (int slot = 0; slot < n_slots; ++slot)
      *reinterpret_cast<RowSums*>(to + slot * slot_stride) = mine[slot * THREADS];
  }
};
#else
constexpr int NARROW = 8;  // slots

struct Sums {
  static constexpr int QUADS = NARROW / PER_QUAD;
  Numbers sum[ROWS][QUADS];

  __device__ __forceinline__ Sums(char*, int) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int q = 0; q < QUADS; ++q)
#pragma unroll
        for (int i = 0; i < PER_QUAD; ++i) sum[r][q].value[i] = 0;
  }
  // Odd threads read the quads of a vector in another order, so that neighbours meet in fewer banks.
  __device__ __forceinline__ static int place(int q) { return q ^ int(threadIdx.x & 1); }
  __device__ __forceinline__ void add(const Real* __restrict__ table, const TableRecord&, const Keys& keys) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const Numbers* row = reinterpret_cast<const Numbers*>(table + unsigned(keys.key[r]) * unsigned(NARROW));
#pragma unroll
      for (int q = 0; q < QUADS; ++q) {
        const Numbers found = row[place(q)];
#pragma unroll
        for (int i = 0; i < PER_QUAD; ++i) sum[r][q].value[i] += found.value[i];
      }
    }
  }
  __device__ __forceinline__ void write(Real* __restrict__ to, long long stride, int n_slots) const {
    const bool is_odd = threadIdx.x & 1;
#pragma unroll
    for (int slot = 0; slot < NARROW; ++slot) {
      if (slot >= n_slots) return;
      RowSums line;
      const int q = slot / PER_QUAD, i = slot % PER_QUAD;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) line.value[r] = is_odd ? sum[r][q ^ 1].value[i] : sum[r][q].value[i];
      *reinterpret_cast<RowSums*>(to + slot * stride) = line;
    }
  }
};
#endif

// Keys come one subtree ahead.
__device__ __forceinline__ void add_stage(Sums& sums, const StageBuffer& at, int n_subtrees, long long first) {
  const Keys* keys = reinterpret_cast<const Keys*>(at.keys()) + threadIdx.x;
  Keys next = *keys;
  for (int i = 0; i < n_subtrees; ++i) {
    const Keys mine = next;
    if (i + 1 < n_subtrees) next = keys[(i + 1) * THREADS];
    const TableRecord& record = at.records()[i];
    sums.add(at.table() + int(record.table - first), record, mine);
  }
}

}  // namespace silva

extern "C" __global__ void __launch_bounds__(THREADS, THREADS <= 256 ? 2 : 1)
    add_tables_kernel(const unsigned short* __restrict__ keys, long long stride,
                      const silva::StageChunk* __restrict__ chunks, const silva::TableStage* __restrict__ stages,
                      const silva::TableRecord* __restrict__ records, const REAL* __restrict__ tables,
                      long long component_size, int sum_bytes, unsigned table_bytes, unsigned key_bytes,
                      unsigned buffer_bytes, REAL* __restrict__ partial) {
  using namespace silva;
  extern __shared__ uint4 shared[];
  char* const memory = reinterpret_cast<char*>(shared);
  // Tiles of a chunk side by side, which read the same tables.
  const unsigned n_tiles = unsigned((stride + TILE - 1) / TILE);
  const StageChunk chunk = chunks[blockIdx.x / n_tiles];
  const long long first_row = static_cast<long long>(blockIdx.x % n_tiles) * TILE;
  const REAL* table = tables + chunk.component * component_size;
  const int last = chunk.first_stage + chunk.n_stages;
  const long long row = first_row + threadIdx.x * ROWS;
  const bool is_active = row < stride;
  Sums sums(memory, chunk.n_slots);
#if STAGED
  const auto buffer_of = [&](int s) {
    return StageBuffer{memory + sum_bytes + ((s - chunk.first_stage) & 1) * buffer_bytes, table_bytes, key_bytes};
  };
  TableStage stage = stages[chunk.first_stage], next = stages[min(chunk.first_stage + 1, last - 1)];
  fetch_stage(stage, table, keys, stride, records, first_row, buffer_of(chunk.first_stage));
  end_copies();
  for (int s = chunk.first_stage; s < last; ++s) {
    if (s + 1 < last) fetch_stage(next, table, keys, stride, records, first_row, buffer_of(s + 1));
    end_copies();
    const TableStage after = stages[min(s + 2, last - 1)];  // nobody waits for where the next tables lie
    await_copies<1>();
    __syncthreads();
    if (is_active) add_stage(sums, buffer_of(s), stage.n_subtrees, stage.table);
    __syncthreads();
    stage = next, next = after;
  }
#else
  if (is_active)
    for (int s = chunk.first_stage; s < last; ++s)
      for (int i = stages[s].first_subtree; i < stages[s].first_subtree + stages[s].n_subtrees; ++i) {
        const TableRecord& record = records[i];
        sums.add(table + record.table, record, *reinterpret_cast<const Keys*>(keys + i * stride + row));
      }
#endif
  if (!is_active) return;
  REAL* to = partial + chunk.first_slot * stride + row;
  sums.write(to, stride, chunk.n_slots);
}
