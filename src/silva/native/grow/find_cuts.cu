// The cuts of a part of a list: a warp a request, a lane a target.
#include "grow/route.h"

namespace silva {

struct ListRanks {
  const int32_t* ranks;
  __device__ __forceinline__ int32_t operator()(int64_t position) const { return ranks[position]; }
};

extern "C" __global__ void __launch_bounds__(kGrid)
    grow_find_cuts_kernel(const CutsRequest* __restrict__ requests, CutsAnswer* __restrict__ answers) {
  __shared__ int32_t cuts[kGrid];
  __shared__ int n;
  const CutsRequest request = requests[blockIdx.x];
  const ListRanks ranks{request.ranks};
  const int lane = threadIdx.x;
  if (lane < n_targets(request.first, request.last))
    cuts[lane] = int32_t(next_change(ranks, grid_target(request.first, request.last, lane), request.last));
  __syncthreads();
  if (lane == 0) n = settle_cuts(ranks, request.first, request.last, cuts);
  __syncthreads();
  CutsAnswer& answer = answers[blockIdx.x];
  if (lane == 0) answer.n = n;
  if (lane >= n) return;
  answer.cuts[lane] = cuts[lane];
  answer.ranks[lane] = ranks(cuts[lane]);
  answer.more[lane] = has_more_cuts(ranks, request.first, request.last, cuts, n, lane);
}

}  // namespace silva
