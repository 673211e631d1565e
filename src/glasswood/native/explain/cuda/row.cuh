// The walk of explain/cuda/walk.h for a CUDA thread: how it loads records, codes and accumulators.
//
// Macros: REAL, POINTS, PAIRS, HOT_WORDS, CODE, SHARED (accumulators in shared memory), STAGED (codes there too).
#pragma once
#ifndef STAGED
#define STAGED 0
#endif
using Real = REAL;
#define GLASSWOOD_DEVICE __device__ __forceinline__
#ifdef __CUDACC__
#define GLASSWOOD_LOAD
#endif
#include "explain/cuda/tape_format.h"

#ifdef __CUDACC__

namespace glasswood {

// Whole records, at once and where they are asked for: the compiler would split them and sink their words behind
// branches.
template <class Record>
GLASSWOOD_DEVICE Record load(const Quad* at) {
  union {
    Quad quads[sizeof(Record) / sizeof(Quad)];
    Record record;
  };
#pragma unroll
  for (int i = 0; i < int(sizeof(Record) / sizeof(Quad)); ++i)
    asm volatile("ld.global.nc.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quads[i].word[0]), "=r"(quads[i].word[1]), "=r"(quads[i].word[2]), "=r"(quads[i].word[3])
                 : "l"(at + i));
  return record;
}

// Brings the window after the next into the first cache. Without it all warps of a block wait for each line of the tape
// to come from the second cache, 300 cycles for one to two splits. Windows begin where records do, hence some lines
// more. Nobody waits for what these loads return.
constexpr int LINE = 128;
GLASSWOOD_DEVICE void fetch_ahead(const Quad* at) {
  const char* from = reinterpret_cast<const char*>(at) + (WINDOW + threadIdx.x % 32 * LINE);
  int unused;
  asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(unused) : "l"(from));
}

}  // namespace glasswood
#endif

#include "explain/cuda/walk.h"

namespace glasswood {

#ifdef __CUDACC__
// Through 32-bit addresses that are computed once; from a pointer the compiler derives the window's base at every use.
GLASSWOOD_DEVICE void load_shared(float& value, unsigned at) {
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(at));
}
GLASSWOOD_DEVICE void load_shared(double& value, unsigned at) {
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(value) : "r"(at));
}
GLASSWOOD_DEVICE void store_shared(unsigned at, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(value));
}
GLASSWOOD_DEVICE void store_shared(unsigned at, double value) {
  asm volatile("st.shared.f64 [%0], %1;" ::"r"(at), "d"(value));
}

GLASSWOOD_DEVICE unsigned shared_address(Real* sums) { return unsigned(__cvta_generic_to_shared(sums)); }
using SharedAddress = unsigned;
#else
// Under a host's compiler, where tests run the kernels.
using SharedAddress = char*;
GLASSWOOD_DEVICE void load_shared(Real& value, char* at) { value = *reinterpret_cast<Real*>(at); }
GLASSWOOD_DEVICE void store_shared(char* at, Real value) { *reinterpret_cast<Real*>(at) = value; }
GLASSWOOD_DEVICE char* shared_address(Real* sums) { return reinterpret_cast<char*>(sums); }
#endif

// From an accumulator to the next. Where threads read accumulators of one row side by side, they lie in other banks.
GLASSWOOD_DEVICE unsigned sum_stride() { return STAGED ? 33 : blockDim.x; }

struct DeviceRow {
  const char* codes;
  unsigned code_stride;  // bytes
#if SHARED
  SharedAddress sums;
  GLASSWOOD_DEVICE SharedAddress slot_address(int slot) const {
    return sums + slot * unsigned(sum_stride() * sizeof(Real));
  }
#else
  Real* sums;
  long long stride;
#endif
#if PAIRS
  Real* deltas;
  GLASSWOOD_DEVICE Real* delta(int level) const { return deltas + level * POINTS; }
#else
  GLASSWOOD_DEVICE Real* delta(int) const { return nullptr; }
#endif
  // One 32-by-32-bit multiply-add an address.
  GLASSWOOD_DEVICE int code(int column) const {
    const char* at = codes + static_cast<unsigned long long>(unsigned(column)) * code_stride;
#if STAGED
    return *reinterpret_cast<const CODE*>(at);
#else
    return __ldg(reinterpret_cast<const CODE*>(at));
#endif
  }
  GLASSWOOD_DEVICE void put(int slot, Real value) const {
#if SHARED
    store_shared(slot_address(slot), value);
#else
    sums[slot * stride] = value;
#endif
  }
  GLASSWOOD_DEVICE void add(int slot, Real value) const {
#if SHARED
    const SharedAddress at = slot_address(slot);
    Real sum;
    load_shared(sum, at);
    store_shared(at, sum + value);
#elif defined(__CUDACC__)
    // Added where the accumulator lies: no warp waits for it, and the tape keeps the first cache for itself. No other
    // thread adds there, so the order of the sum is that of the walk.
    atomicAdd(sums + slot * stride, value);
#else
    sums[slot * stride] += value;
#endif
  }
};

#if !STAGED
// A row of codes [column][stride], and its accumulators: `result`, or their copies in shared memory. Those of
// interactions and of leaves have to be 0 before anything is added.
GLASSWOOD_DEVICE void open_row(DeviceRow& row, const CODE* codes, unsigned stride, int n_zeros, Real* result) {
  row.codes = reinterpret_cast<const char*>(codes);
  asm volatile("" : "+l"(row.codes));  // or the compiler adds row and column first, at two more additions a code
  row.code_stride = stride * unsigned(sizeof(CODE));
#if SHARED
  extern __shared__ double shared_sums[];
  Real* sums = reinterpret_cast<Real*>(shared_sums) + threadIdx.x;
  for (int slot = 0; slot < n_zeros; ++slot) sums[slot * blockDim.x] = 0;
  row.sums = shared_address(sums);
#else
  for (int slot = 0; slot < n_zeros; ++slot) result[slot * static_cast<long long>(stride)] = 0;
  row.sums = result;
  row.stride = stride;
#endif
}

GLASSWOOD_DEVICE void close_row(const DeviceRow& row, int n_slots, Real* result, unsigned stride) {
#if SHARED
  for (int slot = 0; slot < n_slots; ++slot) {
    Real sum;
    load_shared(sum, row.slot_address(slot));
    result[slot * static_cast<long long>(stride)] = sum;
  }
#endif
}
#endif

}  // namespace glasswood
