// Sums of z z' by leaf: a block routes its rows to the leaves of one record and sums those of each leaf. What it has
// summed of a leaf is a partial, or several; grow/cuda/kernels/add_partials.cu adds them up.
//
// Macros: STRIDE, columns of z: 4, or a multiple of 8; STORED, type of its numbers, which are multiplied and summed as
// doubles.
#include "grow/cuda/kernels/sum_block.cuh"
#if STRIDE <= 4
#include "grow/cuda/kernels/sum_narrow.cuh"
#else
#include "grow/cuda/kernels/sum_wide.cuh"
#endif

namespace glasswood {

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    sum_rows_kernel(GpuRows rows, const SumRecord* __restrict__ records, const int32_t* __restrict__ record_of_block,
                    const RouteInterval* __restrict__ intervals, const RouteNode* __restrict__ nodes,
                    int rows_per_block, int* __restrict__ partial_counts, double* __restrict__ partials) {
  __shared__ Shared shared;
  load_request(shared.block, records, record_of_block, intervals, nodes, rows_per_block);
  const SumRecord& record = shared.block.record;
  const int64_t first_partial =
      record.first_partial + int64_t(blockIdx.x - record.first_block) * (record.n_slots + STRANDS - 1);
  sum_block(shared, rows, rows_per_block, partial_counts + first_partial, partials + first_partial * PARTIAL);
}

}  // namespace glasswood
