// Trees in few bytes (glasswood/evaluate/cuda/packing.py), and one step of a walk. A row goes right if its code has
// reached the node's rank. Leaves above the last level are nodes that lead back to themselves, so a walk takes as many
// steps as the tree has levels and asks no question.
//
// A node starts with its rank less one, all ones at such leaves, which no code is above. What follows is never 0, so
// that a code with zeros behind it compares with the whole node. Children are named by the right one: the borrow of the
// comparison leads to the left.
//
// Macro FORMAT: NARROW, 8-bit codes, nodes of 4 bytes: rank 31-24, column 23-16, right child 15-0.
//               HEAP, 16-bit codes, nodes of 4 bytes: rank 31-16, column + 1 15-0; children of node i: 2i + 1, 2i + 2.
//               WIDE, 16-bit codes, nodes of 8 bytes: right child 63-32, rank 31-16, column + 1 15-0.
#pragma once

#define NARROW 1
#define HEAP 2
#define WIDE 3

namespace glasswood {

#if FORMAT == NARROW
using Code = unsigned char;
#else
using Code = unsigned short;
#endif
#if FORMAT == WIDE
using Node = unsigned long long;
#else
using Node = unsigned;
#endif

constexpr int CODES_PER_WORD = 4 / sizeof(Code);

// What stands before a tree's nodes.
struct TreeHeader {
  int n_bytes;      // of the tree, this header included
  int depth;        // at least 2
  int first_value;  // byte, counted from the header, at which the value of node 0 would stand: leaves alone have one
  int reserved;
};

constexpr int HEADER_BYTES = sizeof(TreeHeader);

// What column_of returns for column 0.
constexpr int FIRST_COLUMN = FORMAT == NARROW ? 0 : 1;

__device__ __forceinline__ unsigned column_of(Node node) {
#if FORMAT == NARROW
  return __byte_perm(node, 0, 0x4442);
#else
  return unsigned(node & 0xffff);
#endif
}

// The k-th code of a word, zeros behind it.
__device__ __forceinline__ unsigned raised(unsigned word, int k) {
#if FORMAT == NARROW
  return __byte_perm(word, 0, unsigned(k) << 12 | 0x444);
#else
  return k ? word & 0xffff0000u : word << 16;
#endif
}

__device__ __forceinline__ unsigned raised(Code code) { return unsigned(code) << (32 - 8 * sizeof(Code)); }

__device__ __forceinline__ bool goes_right(Node node, unsigned raised_code) { return raised_code >= unsigned(node); }

__device__ __forceinline__ unsigned child_of(Node node, unsigned at, unsigned raised_code) {
#if FORMAT == NARROW
  const unsigned right = node & 0xffff;
#elif FORMAT == HEAP
  const unsigned right = 2 * at + 2;
#else
  const unsigned right = unsigned(node >> 32);
#endif
#ifdef __CUDA_ARCH__
  unsigned child;
  asm("{ .reg .u32 t; sub.cc.u32 t, %1, %2; subc.u32 %0, %3, 0; }"
      : "=r"(child)
      : "r"(raised_code), "r"(unsigned(node)), "r"(right));
  return child;
#else
  return right - (raised_code < unsigned(node));
#endif
}

// The upper bits of all nodes are ones: no walk moves any more.
__device__ __forceinline__ bool are_settled(unsigned conjunction) {
  return conjunction >> (32 - 8 * sizeof(Code)) == (1u << 8 * sizeof(Code)) - 1;
}

}  // namespace glasswood
