// What a block of the kernel that sums rows (grow/sum_rows.cu) knows, and the slots of its rows.
#pragma once
#include "grow/route.h"

namespace silva {

constexpr int THREADS = sum_threads(STRIDE), WARPS = THREADS / 32;
constexpr int ROUTED = 8;  // rows that a thread routes together
constexpr int NO_SLOT = 255;
constexpr unsigned ALL = 0xffffffffu;

struct Block {
  SumRequest request;
  int64_t first;  // position
  int n_positions;
  RouteInterval intervals[kMostIntervals];
  RouteNode nodes[kMostNodes];
};

__device__ __forceinline__ void load_request(Block& block, const SumRequest* requests, const int* request_of_block,
                                             const RouteInterval* intervals, const RouteNode* nodes,
                                             int rows_per_block) {
  constexpr int WORDS = sizeof(SumRequest) / sizeof(int);
  const int* words = reinterpret_cast<const int*>(requests + request_of_block[blockIdx.x]);
  if (threadIdx.x < WORDS) reinterpret_cast<int*>(&block.request)[threadIdx.x] = words[threadIdx.x];
  __syncthreads();
  const SumRequest& request = block.request;
  for (int i = threadIdx.x; i < request.n_intervals; i += THREADS)
    block.intervals[i] = intervals[request.first_interval + i];
  for (int i = threadIdx.x; i < request.n_nodes; i += THREADS) block.nodes[i] = nodes[request.first_node + i];
  if (threadIdx.x == 0) {
    block.first = int64_t(blockIdx.x - request.first_block) * rows_per_block;
    const int64_t left = request.source.count - block.first;
    block.n_positions = int(left < rows_per_block ? left : rows_per_block);
  }
  __syncthreads();
}

// The zone at a position of a scan: blocks hold whole zones, or a zone whole blocks.
SILVA_INLINE int64_t zone_at(const Block& block, int local) { return (block.first + local) / kZone; }

SILVA_INLINE int64_t row_of(const Block& block, int local) { return row_at(block.request.source, block.first + local); }

// Slots of the block's rows. A warp routes `per_warp` rows one behind the other; of each 32 of them it tells
// `met(slot)`, lane by lane, NO_SLOT for rows that nobody asks for. A thread's loads of several rows are under way
// together.
template <class Met>
__device__ __forceinline__ void route_rows(const Block& block, const GpuRows& rows, unsigned char* slots, int per_warp,
                                           const Met& met) {
  const int first = int(threadIdx.x) / 32 * per_warp + int(threadIdx.x) % 32;
  for (int i = 0; i < per_warp; i += 32 * ROUTED) {
    int32_t row[ROUTED];
    int slot[ROUTED];
    bool inside[ROUTED];
#pragma unroll
    for (int k = 0; k < ROUTED; ++k) {
      const int local = first + i + 32 * k;
      inside[k] = i + 32 * k < per_warp && local < block.n_positions;
      row[k] = int32_t(row_of(block, inside[k] ? local : 0));
    }
    find_slots<ROUTED>(rows, block.intervals, block.request.n_intervals, block.nodes, 0, is_scan(block.request.source),
                       row, inside, slot);
#pragma unroll
    for (int k = 0; k < ROUTED; ++k) {
      if (i + 32 * k >= per_warp) break;
      const int found = slot[k] < 0 ? NO_SLOT : slot[k];
      slots[first + i + 32 * k] = (unsigned char)found;
      met(found);
    }
  }
  __syncthreads();
}

}  // namespace silva
