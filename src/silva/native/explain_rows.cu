// Schedule of SHAP values and interactions: a thread walks one row through one chunk of trees; chunks and the order of
// the trees in them are fixed, so are the bits of the sums.
//
// Macros: REAL, POINTS (K), HEIGHT (levels of splits with frames in registers), LEVELS (in local memory), PAIRS,
// HOT_WORDS, CODE (type of the rank codes), SHARED (accumulators in shared memory), DELTAS (levels of D).
using Real = REAL;
#define SILVA_DEVICE __device__ __forceinline__
#define SILVA_LOAD
#include "tape_format.h"

namespace silva {

// Whole records, at once and where they are asked for: the compiler would split them and sink the parts behind
// branches.
template <class Record>
SILVA_DEVICE Record load(const Quad* at) {
  union {
    Quad quads[sizeof(Record) / sizeof(Quad)];
    Record record;
  };
#pragma unroll
  for (int i = 0; i < int(sizeof(Record) / sizeof(Quad)); ++i)
    asm volatile("ld.global.nc.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quads[i].part[0]), "=r"(quads[i].part[1]), "=r"(quads[i].part[2]), "=r"(quads[i].part[3])
                 : "l"(at + i));
  return record;
}

// Brings the window after the next into the first cache. Without it all warps of a block wait for each line of the tape
// to come from the second cache, 300 cycles for one to two splits. Windows begin where records do, hence some lines
// more. Nobody waits for what these loads return.
constexpr int LINE = 128;
SILVA_DEVICE void fetch_ahead(const Quad* at) {
  const char* from = reinterpret_cast<const char*>(at) + (WINDOW + threadIdx.x % 32 * LINE);
  int unused;
  asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(unused) : "l"(from));
}

}  // namespace silva

#include "walk.h"

namespace silva {

// Through 32-bit addresses that are computed once; from a pointer the compiler derives the window's base at every use.
SILVA_DEVICE void load_shared(float& value, unsigned at) {
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(at));
}
SILVA_DEVICE void load_shared(double& value, unsigned at) {
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(value) : "r"(at));
}
SILVA_DEVICE void store_shared(unsigned at, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(value));
}
SILVA_DEVICE void store_shared(unsigned at, double value) {
  asm volatile("st.shared.f64 [%0], %1;" ::"r"(at), "d"(value));
}

struct DeviceRow {
  const char* codes;
  unsigned code_stride;  // bytes
#if SHARED
  unsigned sums;  // address in shared memory
#else
  Real* sums;
  long long sum_stride;
#endif
#if PAIRS
  Real* deltas;
  SILVA_DEVICE Real* delta(int level) const { return deltas + level * POINTS; }
#else
  SILVA_DEVICE Real* delta(int) const { return nullptr; }
#endif
  // One 32-by-32-bit multiply-add an address.
  SILVA_DEVICE int code(int column) const {
    const char* at = codes + static_cast<unsigned long long>(unsigned(column)) * code_stride;
    return __ldg(reinterpret_cast<const CODE*>(at));
  }
  SILVA_DEVICE void add(int slot, Real value) const {
#if SHARED
    const unsigned at = sums + slot * unsigned(blockDim.x * sizeof(Real));
    Real sum;
    load_shared(sum, at);
    store_shared(at, sum + value);
#else
    sums[slot * sum_stride] += value;
#endif
  }
};

}  // namespace silva

extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS)
    explain_rows_kernel(const silva::Quad* __restrict__ tape, const long long* __restrict__ chunk_starts,
                        const long long* __restrict__ slot_offsets, const CODE* __restrict__ codes, int n_rows,
                        unsigned stride, Real* __restrict__ partial) {
  using namespace silva;
  const int n_tiles = (n_rows + blockDim.x - 1) / blockDim.x, chunk = blockIdx.x / n_tiles;
  const int row = (blockIdx.x - chunk * n_tiles) * blockDim.x + threadIdx.x;
  const long long first_slot = slot_offsets[chunk];
  const int n_slots = int(slot_offsets[chunk + 1] - first_slot);
  Real* result = partial + first_slot * stride + row;
  Walk<POINTS, DeviceRow> walk;
  walk.row.codes = reinterpret_cast<const char*>(codes + row);
  asm volatile("" : "+l"(walk.row.codes));  // or the compiler adds row and column first, at two more additions a code
  walk.row.code_stride = stride * unsigned(sizeof(CODE));
#if PAIRS
  Real deltas[DELTAS * POINTS];
  walk.row.deltas = deltas;
#endif
#if SHARED
  extern __shared__ double shared_sums[];
  Real* sums = reinterpret_cast<Real*>(shared_sums) + threadIdx.x;
  for (int slot = 0; slot < n_slots; ++slot) sums[slot * blockDim.x] = 0;
  walk.row.sums = unsigned(__cvta_generic_to_shared(sums));
#else
  for (int slot = 0; slot < n_slots; ++slot) result[slot * static_cast<long long>(stride)] = 0;
  walk.row.sums = result;
  walk.row.sum_stride = stride;
#endif
  const Quad* start = tape + chunk_starts[chunk];
  fetch_ahead(start - WINDOW / int(sizeof(Quad)));
  walk.chunk<HEIGHT, LEVELS>(start);
#if SHARED
  for (int slot = 0; slot < n_slots; ++slot) {
    Real sum;
    load_shared(sum, walk.row.sums + slot * unsigned(blockDim.x * sizeof(Real)));
    result[slot * static_cast<long long>(stride)] = sum;
  }
#endif
}
