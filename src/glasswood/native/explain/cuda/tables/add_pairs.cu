// Adds up the interactions that rows' keys choose from the tables of a chunk's subtrees (stages.cuh).
//
// Eight threads share an entry: each has QUADS runs of 16 bytes of it, eight runs apart, and their sums of ROWS rows in
// registers. A quarter of a warp reads neighbouring runs, so that no two meet in a bank.
//
// Macros: REAL, QUADS, ROWS_OF_THREAD, THREADS, STAGED.
namespace glasswood {

using Real = REAL;
constexpr int GROUP = 8, ROWS = ROWS_OF_THREAD, TILE = THREADS / GROUP * ROWS;

}  // namespace glasswood

#include "explain/cuda/tables/stages.cuh"

namespace glasswood {

struct PairSums {
  Numbers sum[ROWS][QUADS];

  __device__ __forceinline__ static int place() { return int(threadIdx.x) / GROUP; }
  __device__ __forceinline__ static int quad(int q) { return q * GROUP + int(threadIdx.x) % GROUP; }
  __device__ __forceinline__ PairSums(char*, int) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int q = 0; q < QUADS; ++q)
#pragma unroll
        for (int i = 0; i < PER_QUAD; ++i) sum[r][q].value[i] = 0;
  }
  // Threads that have nothing of an entry read what another one reads, too, and nobody their sums.
  __device__ __forceinline__ void add(const Real* __restrict__ table, const TableRecord& record, const Keys& keys) {
    const unsigned width = record.width;
    unsigned at[QUADS];
#pragma unroll
    for (int q = 0; q < QUADS; ++q) at[q] = unsigned(quad(q)) * PER_QUAD < width ? quad(q) * PER_QUAD : 0;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const Real* entry = table + unsigned(keys.key[r]) * width;
#pragma unroll
      for (int q = 0; q < QUADS; ++q) {
        const Numbers found = *reinterpret_cast<const Numbers*>(entry + at[q]);
#pragma unroll
        for (int i = 0; i < PER_QUAD; ++i) sum[r][q].value[i] += found.value[i];
      }
    }
  }
  __device__ __forceinline__ void write(Real* __restrict__ to, long long stride, int n_slots) const {
#pragma unroll
    for (int q = 0; q < QUADS; ++q)
#pragma unroll
      for (int i = 0; i < PER_QUAD; ++i) {
        const int slot = quad(q) * PER_QUAD + i;
        if (slot >= n_slots) continue;
#pragma unroll
        for (int r = 0; r < ROWS; r += PER_QUAD) {
          Numbers line;
#pragma unroll
          for (int j = 0; j < PER_QUAD; ++j) line.value[j] = sum[r + j][q].value[i];
          *reinterpret_cast<Numbers*>(to + slot * stride + r) = line;
        }
      }
  }
};

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(THREADS, THREADS <= 256 ? 2 : 1)
    add_pairs_kernel(const unsigned short* __restrict__ keys, long long stride,
                     const glasswood::StageChunk* __restrict__ chunks, const glasswood::TableStage* __restrict__ stages,
                     const glasswood::TableRecord* __restrict__ records, const REAL* __restrict__ tables,
                     long long component_size, int sum_bytes, unsigned number_bytes, unsigned key_bytes,
                     unsigned buffer_bytes, REAL* __restrict__ partial) {
  using namespace glasswood;
  extern __shared__ uint4 shared[];
  pass_chunk<PairSums>({keys, stride, chunks, stages, records, tables, component_size, sum_bytes, number_bytes,
                        key_bytes, buffer_bytes, partial},
                       reinterpret_cast<char*>(shared));
}
