// Procedure 3 for trees with more sets of categories than a tile of codes has room for: a set is looked up where a row
// comes to it, since a column of codes for each set takes more time than all walks. Numbers are compared by rank codes.
//
// Macros: CODE, ROW (type of the thresholds), INPUT (type of X).
#include "common/cuda/encode.cuh"
#include "evaluate/cuda/ranked_node.cuh"

using Code = CODE;
using Value = ROW;
using Input = INPUT;

namespace glasswood {

__device__ __forceinline__ bool set_goes_right(const CodeTables<Value>& sets, int set, Value x) {
  const bool zero_is_missing = sets.zero_missing != nullptr && sets.zero_missing[sets.feature[set]];
  if (sets.zero_threshold > 0 && x <= sets.zero_threshold && x >= -sets.zero_threshold) x = 0;
  if (x != x || x == sets.missing_value || (zero_is_missing && x == 0)) return sets.missing[set] != 0;
  return !in_set(sets, sets.category_set[set], sets.thresholds[sets.offsets[set] + 1], x);
}

}  // namespace glasswood

// Nodes of sets have the column -1 - set, counted in the code tables, which have no other columns.
extern "C" __global__ void __launch_bounds__(128)
    walk_sets_kernel(const glasswood::RankedNode* __restrict__ nodes, const int* __restrict__ roots, int n_trees,
                     int trees_per_block, const Code* __restrict__ codes, int n_rows, long long stride,
                     const Input* __restrict__ X, long long row_stride, long long feature_stride, CODE_TABLE_PARAMETERS,
                     int* __restrict__ leaves) {
  using namespace glasswood;
  const CodeTables<Value> sets = CODE_TABLES;
  const int first = blockIdx.y * trees_per_block, end = min(n_trees, first + trees_per_block);
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n_rows) return;
  const Input* const values = X + row * row_stride;
  for (int tree = first; tree < end; ++tree) {
    RankedNode node = read_node(nodes, roots[tree]);
    while (node.left) {
      const int set = -1 - node.column;
      const bool is_right = set < 0 ? codes[node.column * stride + row] >= node.rank
                                    : set_goes_right(sets, set, Value(values[sets.feature[set] * feature_stride]));
      node = read_node(nodes, node.left + is_right);
    }
    leaves[tree * stride + row] = node.leaf;
  }
}
