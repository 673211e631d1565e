// What a block of the kernel that sums rows (grow/cuda/kernels/sum_rows.cu) knows.
#pragma once
#include "grow/cuda/shared/records.h"

namespace glasswood {

constexpr int THREADS = sum_threads(STRIDE), WARPS = THREADS / 32;
constexpr int ROUTED = 8;  // rows that a thread routes together
constexpr int NO_SLOT = 255;
constexpr unsigned ALL = 0xffffffffu;

struct Block {
  SumRecord record;
  int64_t first;  // position
  int n_positions;
  RouteInterval intervals[kMostIntervals];
  RouteNode nodes[kMostNodes];
};

__device__ __forceinline__ void load_request(Block& block, const SumRecord* records, const int* record_of_block,
                                             const RouteInterval* intervals, const RouteNode* nodes,
                                             int rows_per_block) {
  constexpr int WORDS = sizeof(SumRecord) / sizeof(int);
  const int* words = reinterpret_cast<const int*>(records + record_of_block[blockIdx.x]);
  if (threadIdx.x < WORDS) reinterpret_cast<int*>(&block.record)[threadIdx.x] = words[threadIdx.x];
  __syncthreads();
  const SumRecord& record = block.record;
  for (int i = threadIdx.x; i < record.n_intervals; i += THREADS)
    block.intervals[i] = intervals[record.first_interval + i];
  for (int i = threadIdx.x; i < record.n_nodes; i += THREADS) block.nodes[i] = nodes[record.first_node + i];
  if (threadIdx.x == 0) {
    block.first = int64_t(blockIdx.x - record.first_block) * rows_per_block;
    const int64_t left = record.source.count - block.first;
    block.n_positions = int(left < rows_per_block ? left : rows_per_block);
  }
  __syncthreads();
}

GLASSWOOD_INLINE int64_t row_of(const Block& block, int local) {
  return row_at(block.record.source, block.first + local);
}

// The zone at a position of a scan: blocks hold whole zones, or a zone whole blocks.
GLASSWOOD_INLINE int64_t zone_at(const Block& block, int local) { return row_of(block, local) / kZone; }

}  // namespace glasswood
