// Adds up values from tables by points (format.h, docs/internals/tables.md): the cell of a row's key chooses an entry,
// and the bits of its path the factors that the entry's numbers are multiplied with. Sums are shared memory,
// [slot][row], which only their own thread touches.
//
// Macros: REAL, POINTS, THREADS, STAGED.
namespace glasswood {

using Real = REAL;
constexpr int ROWS = 8 / int(sizeof(Real)), TILE = THREADS * ROWS;

}  // namespace glasswood

#include "explain/cuda/tables/stages.cuh"

namespace glasswood {

struct alignas(ROWS * sizeof(Real)) RowSums {
  Real value[ROWS];
};
// Filled up to 16 bytes, which no loop reads.
struct alignas(16) AtPoints {
  Real k[(POINTS + 3) / 4 * 4];
};

__device__ __forceinline__ Real dot(const AtPoints& a, const AtPoints& b) {
  Real sum = 0;
#pragma unroll
  for (int k = 0; k < POINTS; ++k) sum += a.k[k] * b.k[k];
  return sum;
}

__device__ __forceinline__ void multiply(AtPoints& product, const AtPoints& factor) {
#pragma unroll
  for (int k = 0; k < POINTS; ++k) product.k[k] *= factor.k[k];
}

struct PointSums {
  __device__ __forceinline__ static int place() { return threadIdx.x; }
  RowSums* mine;  // of slot 0; the next slot's are THREADS behind

  __device__ __forceinline__ PointSums(char* shared, int n_slots)
      : mine(reinterpret_cast<RowSums*>(shared) + threadIdx.x) {
    for (int slot = 0; slot < n_slots; ++slot)
#pragma unroll
      for (int r = 0; r < ROWS; ++r) mine[slot * THREADS].value[r] = 0;
  }
  // With P the product of the factors g = z (1 - t) + o t of the features above alone, features below gain X P, those
  // above (o - z) / g T P, which is the same for all that the row is outside of.
  __device__ __forceinline__ void add(const Real* table, const TableRecord& record, const Keys& keys) {
    const int n_below = record.n_built, n_above = record.n_lanes - n_below;
    const AtPoints* const gains = reinterpret_cast<const AtPoints*>(table) + 2;
    const Real* const z = reinterpret_cast<const Real*>(gains + n_above);
    const Real* const entries = z + (n_above + 3) / 4 * 4;
    const AtPoints t = gains[-2];
    const AtPoints* entry[ROWS];
    unsigned inside[ROWS];
    AtPoints product[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const unsigned key = keys.key[r];
      inside[r] = record.n_cells == 1 ? key : unsigned(static_cast<unsigned long long>(key) * record.per_cell >> 32);
      const unsigned cell = key - inside[r] * record.n_cells;
      entry[r] = reinterpret_cast<const AtPoints*>(entries + cell * record.width + cell / 8 * 4);
#pragma unroll
      for (int k = 0; k < POINTS; ++k) product[r].k[k] = 1;
    }
    for (int f = 0; f < n_above; ++f) {
      const Real above = z[f];
#pragma unroll
      for (int k = 0; k < POINTS; ++k) {
        const Real out = above - above * t.k[k], in = out + t.k[k];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) product[r].k[k] *= inside[r] >> f & 1 ? in : out;
      }
    }
    for (int lane = 0; lane < n_below; ++lane) {
      RowSums gain;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) gain.value[r] = dot(entry[r][lane], product[r]);
      add_to(record.slot[lane], gain);
    }
    RowSums outside;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      multiply(product[r], entry[r][n_below]);
      outside.value[r] = dot(gains[-1], product[r]);
    }
    for (int f = 0; f < n_above; ++f) {
      const AtPoints gain = gains[f];
      RowSums sum = outside;
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
        if (inside[r] >> f & 1) sum.value[r] = dot(gain, product[r]);
      add_to(record.slot[n_below + f], sum);
    }
  }
  __device__ __forceinline__ void add_to(int slot, const RowSums& gain) {
    RowSums sum = mine[slot * THREADS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) sum.value[r] += gain.value[r];
    mine[slot * THREADS] = sum;
  }
  __device__ __forceinline__ void write(Real* __restrict__ to, long long slot_stride, int n_slots) const {
    for (int slot = 0; slot < n_slots; ++slot)
      *reinterpret_cast<RowSums*>(to + slot * slot_stride) = mine[slot * THREADS];
  }
};

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(THREADS, THREADS <= 256 ? 2 : 1)
    add_points_kernel(const unsigned short* __restrict__ keys, long long stride,
                      const glasswood::StageChunk* __restrict__ chunks,
                      const glasswood::TableStage* __restrict__ stages,
                      const glasswood::TableRecord* __restrict__ records, const REAL* __restrict__ tables,
                      long long component_size, int sum_bytes, unsigned number_bytes, unsigned key_bytes,
                      unsigned buffer_bytes, REAL* __restrict__ partial) {
  using namespace glasswood;
  extern __shared__ uint4 shared[];
  pass_chunk<PointSums>({keys, stride, chunks, stages, records, tables, component_size, sum_bytes, number_bytes,
                         key_bytes, buffer_bytes, partial},
                        reinterpret_cast<char*>(shared));
}
