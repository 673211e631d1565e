// The sums of every slot over the blocks that found rows for it, always in the same order: count, then the packed Gram
// matrix of the slot's columns. A block adds up one slot.
//
// Macro: STRIDE, columns of z.
#include "grow/route.h"

namespace silva {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    grow_add_parts_kernel(const SumRequest* __restrict__ requests, int n_requests, const int* __restrict__ part_counts,
                          const double* __restrict__ parts, const SlotResult* __restrict__ slots,
                          const int* __restrict__ slot_columns, double* __restrict__ results) {
  constexpr int COLUMN_BLOCKS = (STRIDE + 7) / 8, PART = n_tiles(COLUMN_BLOCKS) * 64;
  __shared__ double sums[kBlockThreads];
  __shared__ int total, columns[8 * COLUMN_BLOCKS];
  const SlotResult to = slots[blockIdx.x];
  const int width = to.n_columns, n_entries = width * (width + 1) / 2;
  for (int c = threadIdx.x; c < width; c += kBlockThreads) columns[c] = slot_columns[to.first_column + c];
  const SumRequest request = requests[request_of(requests, n_requests, &SumRequest::first_slot, blockIdx.x)];
  const int slot = int(blockIdx.x) - request.first_slot;
  const int* counts = part_counts + request.first_part + slot;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  int count = 0;
  for (int b = threadIdx.x; b < request.n_blocks; b += kBlockThreads) count += counts[int64_t(b) * request.n_slots];
  if (count) atomicAdd(&total, count);
  __syncthreads();
  double* result = results + to.first;
  if (threadIdx.x == 0) result[0] = total;
  const int lanes = n_entries < kBlockThreads ? n_entries : kBlockThreads, ways = kBlockThreads / lanes;
  const int way = threadIdx.x / lanes;
  for (int first = 0; first < n_entries; first += lanes) {
    const int e = first + threadIdx.x % lanes;
    double sum = 0;
    if (e < n_entries && way < ways) {
      int a = 0, left = e;
      while (left >= width - a) left -= width - a++;
      const double* part = parts + (request.first_part + slot) * PART;
      part += tile_entry(columns[a], columns[a + left], COLUMN_BLOCKS);
#pragma unroll 4
      for (int b = way; b < request.n_blocks; b += ways)
        if (counts[int64_t(b) * request.n_slots]) sum += part[int64_t(b) * request.n_slots * PART];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (way == 0 && e < n_entries) {
      for (int other = 1; other < ways; ++other) sum += sums[other * lanes + threadIdx.x];
      result[1 + e] = sum;
    }
    __syncthreads();
  }
}

}  // namespace silva
