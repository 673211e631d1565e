// A node as a test of rank codes, for the algorithms that read nodes one by one.
#pragma once

namespace glasswood {

struct alignas(16) RankedNode {
  int column, rank, left, leaf;  // left: index of the left child, 0 at a leaf; leaf: index into the forest's leaves
};

__device__ __forceinline__ RankedNode read_node(const RankedNode* nodes, int at) {
  const int4 words = __ldg(reinterpret_cast<const int4*>(nodes) + at);
  return {words.x, words.y, words.z, words.w};
}

}  // namespace glasswood
