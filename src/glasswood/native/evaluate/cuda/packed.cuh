// Trees in few bytes (glasswood/evaluate/cuda/packing.py), and one step of a walk. A row goes right if its code has
// reached the node's rank. Leaves above the last level are nodes that lead back to themselves, or to the left again and
// again, so a walk takes as many steps as the tree has levels and asks no question.
//
// A node starts with what is missing from its rank to the overflow of a code's bits, 0 at such leaves: code and node
// are added, and the carry is the way to the right. What follows does not change it.
//
// Macro FORMAT: NARROW_HEAP, 8-bit codes, nodes of 2 bytes: missing 15-8, column 7-0.
//               NARROW, 8-bit codes, nodes of 4 bytes: missing 31-24, column 23-16, left child 15-0.
//               WIDE_HEAP, 16-bit codes, nodes of 4 bytes: missing 31-16, column 15-0.
//               WIDE, 16-bit codes, nodes of 8 bytes: left child 63-32, missing 31-16, column 15-0.
// Right children come after left ones. The root of a heap is node 1, the children of node i are 2i and 2i + 1, and all
// heaps of a forest are equally deep.
#pragma once

#define NARROW_HEAP 1
#define NARROW 2
#define WIDE_HEAP 3
#define WIDE 4

namespace glasswood {

constexpr bool IS_HEAP = FORMAT == NARROW_HEAP || FORMAT == WIDE_HEAP;

#if FORMAT == NARROW_HEAP || FORMAT == NARROW
using Code = unsigned char;
#else
using Code = unsigned short;
#endif
#if FORMAT == NARROW_HEAP
using Node = unsigned short;
#elif FORMAT == WIDE
using Node = unsigned long long;
#else
using Node = unsigned;
#endif

// A node in registers.
#if FORMAT == WIDE
using Word = unsigned long long;
#else
using Word = unsigned;
#endif

constexpr int CODES_PER_WORD = 4 / sizeof(Code);

// Ones before a node that is shorter than a word, which pass the carry on: they are added to the code or to the node.
constexpr unsigned ONES = FORMAT == NARROW_HEAP ? 0xffff0000u : 0u;

// Places of the root and of its left child.
constexpr unsigned ROOT = IS_HEAP, BELOW_ROOT = IS_HEAP ? 2 : 1;

// What stands before a tree's nodes.
struct TreeHeader {
  int n_bytes;      // of the tree, this header included
  int depth;        // at least 2
  int first_value;  // byte, counted from the header, at which the value of node 0 would stand: leaves alone have one
  int reserved;
};

constexpr int HEADER_BYTES = sizeof(TreeHeader);

// Bytes of a heap, and the header's `first_value`.
struct HeapBytes {
  int all, first_value;
};

template <class Leaf>
__device__ constexpr HeapBytes heap_bytes(int depth) {
  const int nodes = (int(sizeof(Node)) << depth) + 15 & ~15, leaves = (int(sizeof(Leaf)) << depth) + 15 & ~15;
  return {HEADER_BYTES + nodes + leaves, HEADER_BYTES + nodes - (int(sizeof(Leaf)) << depth)};
}

__device__ __forceinline__ unsigned column_of(Word node) {
  // A byte is picked, not masked: the compiler would shift a mask's result and add it to an address in two
  // instructions.
#if FORMAT == NARROW
  return __byte_perm(node, 0, 0x4442);
#elif FORMAT == NARROW_HEAP
  return __byte_perm(node, 0, 0x4440);
#else
  return unsigned(node & 0xffff);
#endif
}

// A code at the place of a node's first bits, zeros around it.
__device__ __forceinline__ unsigned raised(Code code) {
  return unsigned(code) << (FORMAT == NARROW_HEAP ? 8 : 32 - 8 * int(sizeof(Code)));
}

// The k-th code of a word, likewise.
__device__ __forceinline__ unsigned raised(unsigned word, int k) {
#if FORMAT == NARROW_HEAP
  return __byte_perm(word, 0, 0x4404 | unsigned(k) << 4);
#elif FORMAT == NARROW
  return __byte_perm(word, 0, unsigned(k) << 12 | 0x444);
#else
  return k ? word & 0xffff0000u : word << 16;
#endif
}

// Of these two, one of code and node has the ones.
__device__ __forceinline__ bool goes_right(Word node, unsigned raised_code) { return raised_code > ~unsigned(node); }

__device__ __forceinline__ unsigned child_of(Word node, unsigned at, unsigned raised_code) {
#if FORMAT == NARROW
  const unsigned left = node & 0xffff, more = 0;
#elif FORMAT == WIDE
  const unsigned left = unsigned(node >> 32), more = 0;
#else
  const unsigned left = at, more = at;
#endif
#ifdef __CUDA_ARCH__
  unsigned child;
  asm("{ .reg .u32 t; add.cc.u32 t, %1, %2; addc.u32 %0, %3, %4; }"
      : "=r"(child)
      : "r"(raised_code), "r"(unsigned(node)), "r"(left), "r"(more));
  return child;
#else
  return left + more + goes_right(node, raised_code);
#endif
}

// The upper bits of all nodes are zeros: no walk moves any more.
__device__ __forceinline__ bool are_settled(unsigned disjunction) {
  return disjunction >> (32 - 8 * sizeof(Code)) == 0;
}

}  // namespace glasswood
