// What the bindings of neighbours hand to the kernels of codes, and the table through which they reach those of the
// machine's instruction set. Plain data (common/instruction_set.h says why).
//
// The share of a query row and a training row is the sum of the weights of the trees in which both reach the same leaf.
// Codes of leaves stand in blocks of training rows, so that one comparison settles a tree for a vector of them.
#pragma once
#include "common/threads/team.h"

namespace glasswood {

constexpr int kBlockRows = 64;   // training rows of a block
constexpr int kTileQueries = 8;  // query rows whose sums stay in registers
constexpr int kTaskQueries = 64;

struct ShareTask {
  int64_t n_rows, n_queries;
  int32_t n_trees;
  int32_t code_bytes;         // 1: all trees weigh 1; 2: by `weight`
  const void* codes;          // [block][tree][row of the block]; rows beyond the last have any code
  const uint16_t* weight;     // [tree]
  const int32_t* positions;   // [query][tree]: leaves that query rows reach
  const int32_t* first_leaf;  // [tree + 1]
  int64_t first_own;  // query i is training row first_own + i, which is left out; below 0: query rows are others
  // Nearest rows: the largest keys, falling (key_of in neighbors/keys.h).
  int32_t n_nearest;
  uint64_t* nearest;  // [query][n_nearest]; 0: none
  // Or sums of squares over the training rows of the query's group.
  const int32_t* group;        // [row]
  const int32_t* query_group;  // [query]
  uint64_t* squares;           // [query]
  Team team;
  char* workspace;
  int64_t workspace_size;  // bytes of one thread
};

struct ShareKernels {
  int64_t (*workspace)(const ShareTask&);
  void (*find)(const ShareTask&);
};

}  // namespace glasswood
