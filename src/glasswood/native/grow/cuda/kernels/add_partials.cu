// The sums of every slot over the partials that blocks have written of it (grow/cuda/kernels/sum_rows.cu), always in
// the same order: count, then the packed Gram matrix of the slot's columns. Blocks share the `entries` of a slot;
// within a block threads share its partials.
//
// Macro: STRIDE, columns of z.
#include "grow/cuda/shared/records.h"

namespace glasswood {

struct FoundPartials {
  int partials[kBlockThreads], starts[kBlockThreads / 32 + 1], total;
};

// Which of the candidates first .. first + kBlockThreads - 1 hold rows of the slot, in their order; returns how many.
// Candidate c is strand c % STRANDS of block c / STRANDS.
__device__ __forceinline__ int find_partials(FoundPartials& found, const SumRecord& record, int slot, const int* counts,
                                             int first) {
  constexpr int STRANDS = sum_strands(STRIDE);
  const int pieces = record.n_slots + STRANDS - 1, candidate = first + int(threadIdx.x);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int partial = candidate / STRANDS * pieces + slot + candidate % STRANDS;
  const int count = candidate < record.n_blocks * STRANDS ? count_of_slot(counts[partial], slot) : 0;
  const unsigned holders = __ballot_sync(0xffffffffu, count > 0);
  if (lane == 0) found.starts[warp + 1] = __popc(holders);
  if (count) atomicAdd(&found.total, count);
  __syncthreads();
  if (threadIdx.x == 0) {
    found.starts[0] = 0;
    for (int w = 0; w < kBlockThreads / 32; ++w) found.starts[w + 1] += found.starts[w];
  }
  __syncthreads();
  if (count) found.partials[found.starts[warp] + __popc(holders & ((1u << lane) - 1))] = partial;
  __syncthreads();
  return found.starts[kBlockThreads / 32];
}

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    add_partials_kernel(const SumRecord* __restrict__ records, int n_records, const int* __restrict__ partial_counts,
                        const double* __restrict__ partials, const SlotResult* __restrict__ slots,
                        const int* __restrict__ slot_columns, int entries) {
  constexpr int COLUMN_BLOCKS = (STRIDE + 7) / 8, PARTIAL = n_tiles(COLUMN_BLOCKS) * 64;
  constexpr int STRANDS = sum_strands(STRIDE);
  __shared__ FoundPartials found;
  __shared__ double sums[kBlockThreads];
  const int blocks = entry_blocks(STRIDE, entries), at = int(blockIdx.x) / blocks;
  const int entries_from = int(blockIdx.x) % blocks * entries;
  const SlotResult to = slots[at];
  const int width = to.n_columns, n_entries = width * (width + 1) / 2;
  if (entries_from >= n_entries) return;
  const SumRecord record = records[record_of(records, n_records, &SumRecord::first_slot, at)];
  const int lanes = n_entries < entries ? n_entries : entries, ways = kBlockThreads / lanes;
  const int way = threadIdx.x / lanes, e = entries_from + int(threadIdx.x) % lanes;
  const double* entry = partials + record.first_partial * PARTIAL;
  if (e < n_entries) {
    int a = 0, left = e;
    while (left >= width - a) left -= width - a++;
    entry += tile_entry(slot_columns[to.first_column + a], slot_columns[to.first_column + a + left], COLUMN_BLOCKS);
  }
  if (threadIdx.x == 0) found.total = 0;
  __syncthreads();
  double sum = 0;
  for (int first = 0; first < record.n_blocks * STRANDS; first += kBlockThreads) {
    const int n = find_partials(found, record, at - record.first_slot, partial_counts + record.first_partial, first);
    if (e < n_entries && way < ways) {
#pragma unroll 8
      for (int i = way; i < n; i += ways) sum += entry[int64_t(found.partials[i]) * PARTIAL];
    }
    __syncthreads();
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (way == 0 && e < n_entries) {
    for (int other = 1; other < ways; ++other) sum += sums[other * lanes + threadIdx.x];
    to.to[1 + e] = sum;
  }
  if (threadIdx.x == 0 && entries_from == 0) to.to[0] = found.total;
}

}  // namespace glasswood
