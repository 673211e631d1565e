// How many rows of a list, which stands in the order of their ranks, lie below evenly spaced ranks: a thread a rank.
#include "grow/cuda/shared/records.h"

namespace silva {

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    count_ranks_kernel(const CountRequest* __restrict__ requests, int n_requests, int* __restrict__ answers) {
  __shared__ CountRequest request;
  __shared__ int64_t end;
  if (threadIdx.x == 0) {
    request = requests[request_of(requests, n_requests, &CountRequest::first_block, blockIdx.x)];
    end = request.total ? *request.total : request.last;
  }
  __syncthreads();
  const int edge = (int(blockIdx.x) - request.first_block) * kBlockThreads + threadIdx.x + 1;
  if (edge >= request.n_cells) return;
  const int32_t rank = cell_edge(request.low, request.span, request.n_cells, edge);
  int64_t low = request.first, high = end;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (request.ranks[middle] < rank)
      low = middle + 1;
    else
      high = middle;
  }
  answers[request.first_answer + edge - 1] = int32_t(low);
}

}  // namespace silva
