// Procedures 2 and 3 of Spencer (2011) as they are written: the leaf that each row reaches in each tree,
// [tree][stride]. Launched with one thread it is procedure 2, with a thread a row procedure 3. Tests compare rank codes
// (glasswood/cuda/codes.py), so that routing is exact for every kind of split.
//
// Macros: CODE.
#include "evaluate/cuda/ranked_node.cuh"

using Code = CODE;

extern "C" __global__ void __launch_bounds__(128)
    walk_rows_kernel(const glasswood::RankedNode* __restrict__ nodes, const int* __restrict__ roots, int n_trees,
                     int trees_per_block, const Code* __restrict__ codes, int n_rows, long long stride,
                     int* __restrict__ leaves) {
  using namespace glasswood;
  const int first = blockIdx.y * trees_per_block, end = min(n_trees, first + trees_per_block);
  for (int tree = first; tree < end; ++tree)
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < n_rows; row += gridDim.x * blockDim.x) {
      RankedNode node = read_node(nodes, roots[tree]);
      while (node.left) node = read_node(nodes, node.left + (codes[node.column * stride + row] >= node.rank));
      leaves[tree * stride + row] = node.leaf;
    }
}
