// Adds up the vectors that rows' keys choose from the tables of a chunk's subtrees (stages.cuh).
//
// Narrow tables have a column for each slot, and sums are registers; of wide ones only the subtree's own features, and
// sums are shared memory, [slot][row], which only their own thread touches.
//
// Macros: REAL, WIDE, THREADS, STAGED.
namespace glasswood {

using Real = REAL;
constexpr int ROWS = (WIDE ? 8 : 16) / int(sizeof(Real)), TILE = THREADS * ROWS;

}  // namespace glasswood

#include "explain/cuda/tables/stages.cuh"

namespace glasswood {

struct alignas(ROWS * sizeof(Real)) RowSums {
  Real value[ROWS];
};

#if WIDE
struct Sums {
  __device__ __forceinline__ static int place() { return threadIdx.x; }
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
  __device__ __forceinline__ static int place() { return threadIdx.x; }
  // Odd threads read the quads of a vector in another order, so that neighbours meet in fewer banks.
  __device__ __forceinline__ static int turned(int q) { return q ^ int(threadIdx.x & 1); }
  __device__ __forceinline__ void add(const Real* __restrict__ table, const TableRecord&, const Keys& keys) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const Numbers* row = reinterpret_cast<const Numbers*>(table + unsigned(keys.key[r]) * unsigned(NARROW));
#pragma unroll
      for (int q = 0; q < QUADS; ++q) {
        const Numbers found = row[turned(q)];
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

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(THREADS, THREADS <= 256 ? 2 : 1)
    add_tables_kernel(const unsigned short* __restrict__ keys, long long stride,
                      const glasswood::StageChunk* __restrict__ chunks,
                      const glasswood::TableStage* __restrict__ stages,
                      const glasswood::TableRecord* __restrict__ records, const REAL* __restrict__ tables,
                      long long component_size, int sum_bytes, unsigned number_bytes, unsigned key_bytes,
                      unsigned buffer_bytes, REAL* __restrict__ partial) {
  using namespace glasswood;
  extern __shared__ uint4 shared[];
  pass_chunk<Sums>({keys, stride, chunks, stages, records, tables, component_size, sum_bytes, number_bytes, key_bytes,
                    buffer_bytes, partial},
                   reinterpret_cast<char*>(shared));
}
