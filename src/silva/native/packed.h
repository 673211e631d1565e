// Trees in few bytes (silva/evaluate/packing.py), and one step of a walk. A row goes right if its code has reached the
// node's rank. Rank 0 is reached by every code: leaves above the last level are nodes that lead back to themselves, so a
// walk takes as many steps as the tree has levels and asks no question.
//
// Macro FORMAT: NARROW, 8-bit codes, nodes of 4 bytes: rank 31-24, column 23-16, left child 15-0.
//               HEAP, 16-bit codes, nodes of 4 bytes: rank 31-16, column 15-0; the children of node i are 2i + 1, 2i + 2.
//               WIDE, 16-bit codes, nodes of 8 bytes: left child 63-32, rank 31-16, column 15-0.
#pragma once

#define NARROW 1
#define HEAP 2
#define WIDE 3

namespace silva {

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
  int n_bytes;         // of the tree, this header included
  int depth;           // at least 2
  int first_value;     // byte, counted from the header, at which the value of node 0 would stand: leaves alone have one
  int reserved;
};

constexpr int HEADER_BYTES = sizeof(TreeHeader);

__device__ __forceinline__ int column_of(Node node) {
#if FORMAT == NARROW
  return node >> 16 & 0xff;
#else
  return int(node & 0xffff);
#endif
}

// A code in the upper bits and ones below, so that it compares with a whole node.
__device__ __forceinline__ unsigned raised(unsigned code) {
  return code << (32 - 8 * sizeof(Code)) | (0xffffffffu >> 8 * sizeof(Code));
}

// The k-th code of a word, raised.
__device__ __forceinline__ unsigned raised(unsigned word, int k) {
#if FORMAT == NARROW
  return __byte_perm(word, 0xffffffffu, unsigned(k) << 12 | 0x444u);
#else
  return __byte_perm(word, 0xffffffffu, k ? 0x3244u : 0x1044u);
#endif
}

__device__ __forceinline__ bool goes_right(Node node, unsigned raised_code) { return raised_code >= unsigned(node); }

__device__ __forceinline__ unsigned child_of(Node node, unsigned at, bool right) {
#if FORMAT == NARROW
  return (node & 0xffff) + right;
#elif FORMAT == HEAP
  return 2 * at + 1 + right;
#else
  return unsigned(node >> 32) + right;
#endif
}

// Whether every walk that has come to this node stays here, or in a heap goes on to the same leaf.
__device__ __forceinline__ bool is_settled(Node node) { return unsigned(node) >> (32 - 8 * sizeof(Code)) == 0; }

}  // namespace silva
