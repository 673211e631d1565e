// Procedure 3 of Spencer (2011), a thread a row: the leaf that each row reaches in each tree, and the sums of leaf
// values. Tests compare rank codes (silva/cuda/codes.py), so that routing is exact for every kind of split.
//
// Macros: CODE.
using Code = CODE;

namespace silva {

struct alignas(16) RankedNode {
  int column, rank, left, leaf;  // left: index of the left child, 0 at a leaf
};

}  // namespace silva

// Leaves by index, [tree][stride].
extern "C" __global__ void __launch_bounds__(128)
    evaluate_rows_kernel(const silva::RankedNode* __restrict__ nodes, const int* __restrict__ roots, int n_trees,
                         int trees_per_block, const Code* __restrict__ codes, int n_rows, unsigned stride,
                         int* __restrict__ leaves) {
  const int n_tiles = (n_rows + 127) / 128, part = blockIdx.x / n_tiles;
  const int row = (blockIdx.x - part * n_tiles) * 128 + threadIdx.x;
  const int end = min(n_trees, (part + 1) * trees_per_block);
  for (int tree = part * trees_per_block; tree < end; ++tree) {
    const int4* table = reinterpret_cast<const int4*>(nodes);
    int4 node = __ldg(table + roots[tree]);
    while (node.z) {
      const int code = codes[static_cast<unsigned long long>(unsigned(node.x)) * stride + row];
      node = __ldg(table + node.z + (code >= node.y));
    }
    leaves[static_cast<unsigned long long>(tree) * stride + row] = node.w;
  }
}
