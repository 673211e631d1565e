// How many rows of a list, which stands in the order of their ranks, lie below evenly spaced ranks: a thread a rank.
#include "grow/cuda/shared/records.h"

namespace glasswood {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    count_ranks_kernel(const CountRecord* __restrict__ records, int n_records, int* __restrict__ answers) {
  __shared__ CountRecord record;
  __shared__ int64_t end;
  if (threadIdx.x == 0) {
    record = records[record_of(records, n_records, &CountRecord::first_block, blockIdx.x)];
    end = record.total ? *record.total : record.last;
  }
  __syncthreads();
  const int edge = (int(blockIdx.x) - record.first_block) * kBlockThreads + threadIdx.x + 1;
  if (edge >= record.n_cells) return;
  const int32_t rank = cell_edge(record.low, record.span, record.n_cells, edge);
  int64_t low = record.first, high = end;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (record.ranks[middle] < rank)
      low = middle + 1;
    else
      high = middle;
  }
  answers[record.first_answer + edge - 1] = int32_t(low);
}

}  // namespace glasswood
