// The candidates of a range of a list, all of whose ranks stand here: a block a record, a lane a target.
#include "grow/cuda/shared/records.h"

namespace glasswood {

struct ListRanks {
  const int32_t* ranks;
  __device__ __forceinline__ int32_t operator()(int64_t position) const { return ranks[position]; }
  __device__ __forceinline__ int64_t next_change(int64_t at, int64_t last) const {
    return glasswood::next_change(*this, at, last);
  }
};

extern "C" __global__ void __launch_bounds__(kBlockThreads)
    find_candidates_kernel(const CandidatesRecord* __restrict__ records, int* __restrict__ answers) {
  __shared__ int32_t candidates[kGrid];
  __shared__ int n;
  const CandidatesRecord record = records[blockIdx.x];
  const int64_t first = record.first, last = record.total ? *record.total : record.last;
  const ListRanks list{record.ranks};
  const int lane = threadIdx.x;
  if (lane < n_targets(first, last)) candidates[lane] = int32_t(list.next_change(grid_target(first, last, lane), last));
  __syncthreads();
  if (lane == 0) n = find_candidates(list, first, last, [&](int j) { return int64_t(candidates[j]); }, candidates);
  __syncthreads();
  auto& answer = *reinterpret_cast<CandidatesAnswer*>(answers + record.first_answer);
  if (lane == 0) answer.n = n;
  if (lane >= n) return;
  answer.candidates[lane] = candidates[lane];
  answer.ranks[lane] = list(candidates[lane]);
  answer.more[lane] = has_more_candidates(list, first, last, candidates, n, lane);
}

}  // namespace glasswood
