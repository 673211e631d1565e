// Procedure 3 of Spencer (2011) for few rows: a thread takes one row through one tree, and trees are spread over the
// blocks. Each block encodes its rows itself; the last block to finish adds the trees up, in float64 and in their
// order, so that a prediction is one launch.
//
// Macros: INPUT (type of X), ROW (type of the thresholds), FORMAT (evaluate/packed.h), LEAF (type of the leaves'
// values), RESULT.
#include "common/columns.h"
#include "evaluate/exact_sum.h"
#include "evaluate/last_block.h"
#include "evaluate/packed.h"

using Input = INPUT;
using Value = ROW;
using Leaf = LEAF;
using Result = RESULT;

namespace silva {

constexpr int N_THREADS = 256, SUMMED_TREES = 128;  // trees of a row in shared memory at a time

__device__ __forceinline__ Leaf walk_one(const uint4* tree, const Code* codes, int n_rows) {
  const TreeHeader header = *reinterpret_cast<const TreeHeader*>(tree);
  const Node* nodes = reinterpret_cast<const Node*>(tree + 1);
  unsigned at = 0;
  for (int level = 0; level < header.depth; ++level) {
    const Node node = nodes[at];
    const int column = int(column_of(node)) - FIRST_COLUMN;
    const unsigned child = child_of(node, at, raised(codes[column * n_rows]));
    if (child == at) break;
    at = child;
  }
  return reinterpret_cast<const Leaf*>(reinterpret_cast<const char*>(tree) + header.first_value)[at];
}

// Adds the trees of each output up one after the other for the rows of the block, a thread a sum.
__device__ __forceinline__ void sum_in_order(const Leaf* values, int n_trees, int n_rows, const int* starts,
                                             const double* base_score, int n_outputs, Leaf* shared, Result* result) {
  const int pitch = SUMMED_TREES + 1;
  for (int first = 0; first < n_rows * n_outputs; first += N_THREADS) {
    const int mine = first + threadIdx.x, row = mine / n_outputs, output = mine % n_outputs;
    const bool sums = mine < n_rows * n_outputs;
    double sum = sums ? base_score[output] : 0;
    const int begin = sums ? starts[output] : 0, end = sums ? starts[output + 1] : 0;
    for (int t = 0; t < n_trees; t += SUMMED_TREES) {
      const int n = min(SUMMED_TREES, n_trees - t);
      __syncthreads();
      for (int r = 0; r < n_rows; ++r)
        for (int i = threadIdx.x; i < n; i += N_THREADS)
          shared[r * pitch + i] = __ldcg(values + static_cast<long long>(r) * n_trees + t + i);
      __syncthreads();
      const int to = min(end - t, n);
#pragma unroll 16
      for (int i = max(begin - t, 0); i < to; ++i) sum += shared[row * pitch + i];
    }
    if (sums) result[mine] = Result(sum);
  }
}

// Adds the trees up in any order, by a group of threads a sum. Returns whether no other order gives another result in
// any sum of the block; rows with a value close to 0 are the exception.
__device__ __forceinline__ bool sum_exactly(const float* values, int n_trees, int n_rows, const int* starts,
                                            const double* base_score, int n_outputs, ExactSum* shared, Result* result) {
  const int n_sums = n_rows * n_outputs, n_lanes = n_sums == 1 ? N_THREADS : n_sums <= 4 ? N_THREADS / 4 : 32;
  const int lane = threadIdx.x % n_lanes, per_turn = N_THREADS / n_lanes;
  bool exact = true;
  for (int first = 0; first < n_sums; first += per_turn) {
    const int mine = first + threadIdx.x / n_lanes, row = mine / n_outputs, output = mine % n_outputs;
    ExactSum sum{0, 0, 255, 0};
    if (mine < n_sums) {
      const float* of_row = values + static_cast<long long>(row) * n_trees;
#pragma unroll 16
      for (int t = starts[output] + lane; t < starts[output + 1]; t += n_lanes) sum.add(__ldcg(of_row + t));
    }
    sum.join_warp();
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
    __syncthreads();
    if (lane == 0 && mine < n_sums) {
      for (int w = 1; w < n_lanes / 32; ++w) sum.join(shared[threadIdx.x / 32 + w]);
      // Nothing else is written: a host that watches the result takes what it sees first.
      const bool alike = sum.rounds_alike(base_score[output], starts[output + 1] - starts[output], Result());
      if (alike) result[mine] = Result(base_score[output] + sum.sum);
      exact = exact && alike;
    }
  }
  return __syncthreads_and(exact);
}

__device__ __forceinline__ bool sum_exactly(const double*, int, int, const int*, const double*, int, ExactSum*,
                                            Result*) {
  return false;
}

}  // namespace silva

// Grid: parts of the trees × groups of 1 << row_shift rows.
extern "C" __global__ void __launch_bounds__(silva::N_THREADS, 3)
    evaluate_few_kernel(const Input* __restrict__ X, long long row_stride, long long feature_stride, int n_rows,
                        int n_columns, const int* __restrict__ feature, const int* __restrict__ category_set,
                        const int* __restrict__ missing, const int* __restrict__ height,
                        const long long* __restrict__ offsets, const silva::Buckets* __restrict__ buckets,
                        const Value* __restrict__ thresholds, const unsigned char* __restrict__ starts_of_buckets,
                        const long long* set_offsets, const unsigned* set_words, const bool* set_others_left,
                        const bool* zero_missing, double zero_threshold, double missing_value,
                        const uint4* __restrict__ image, const int* __restrict__ tree_chunks, int n_trees,
                        int trees_per_block, int row_shift, const int* __restrict__ starts,
                        const double* __restrict__ base_score, int n_outputs, Leaf* values, unsigned* arrivals,
                        Result* __restrict__ result) {
  using namespace silva;
  extern __shared__ double memory[];
  Code* const codes = reinterpret_cast<Code*>(memory);
  const Columns<Value> columns{feature,
                               category_set,
                               missing,
                               height,
                               offsets,
                               buckets,
                               thresholds,
                               starts_of_buckets,
                               set_offsets,
                               set_words,
                               set_others_left,
                               zero_missing,
                               Value(zero_threshold),
                               Value(missing_value)};
  const int first_row = blockIdx.y << row_shift, most_rows = 1 << row_shift;
  const int n_mine = min(most_rows, n_rows - first_row);
  // Rows before columns: lanes that search one column share its lines.
  for (int i = threadIdx.x; i < n_columns << row_shift; i += N_THREADS) {
    const int row = min(i & (most_rows - 1), n_mine - 1), column = i >> row_shift;
    Value x[1] = {Value(X[(first_row + row) * row_stride + feature[column] * feature_stride])};
    unsigned code[1];
    codes_of(columns, column, thresholds_of(columns, column), x, code);
    codes[i] = Code(code[0]);
  }
  __syncthreads();
  const int first_tree = blockIdx.x * trees_per_block, n_mine_trees = min(trees_per_block, n_trees - first_tree);
  Leaf* const of_rows = values + static_cast<long long>(first_row) * n_trees;
  for (int i = threadIdx.x; i < n_mine_trees << row_shift; i += N_THREADS) {
    const int row = i & (most_rows - 1), tree = first_tree + (i >> row_shift);
    if (row < n_mine)
      of_rows[static_cast<long long>(row) * n_trees + tree] =
          walk_one(image + tree_chunks[tree], codes + row, most_rows);
  }
  if (!is_last_block(arrivals + blockIdx.y, gridDim.x)) return;
  Result* const margins = result + static_cast<long long>(first_row) * n_outputs;
  if (sum_exactly(of_rows, n_trees, n_mine, starts, base_score, n_outputs, reinterpret_cast<ExactSum*>(memory),
                  margins))
    return;
  sum_in_order(of_rows, n_trees, n_mine, starts, base_score, n_outputs, reinterpret_cast<Leaf*>(memory), margins);
}
