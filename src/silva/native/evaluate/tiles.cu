// Procedure 3 of Spencer (2011) for many rows: a block keeps the codes of its rows in shared memory, [column][thread],
// so that each lane reads its own bank whatever its node asks for, and passes the trees through two stages of shared
// memory that are filled while it works on the other. A thread walks 4 or 2 rows, the codes of which share a word, side
// by side; the two upper levels of a tree are the same nodes for all of them and stay in registers.
//
// Macros: FORMAT (evaluate/packed.h), LEAF (type of the leaves' values), THREADS, WORDS (of codes per thread and
// column),
//         MODE: VALUES writes each tree's value, [tree][stride];
//               SUMS adds all trees to float64 margins in their order and writes them as RESULT;
//               PARTS does so for forests of one output by blocks that share a tile: each adds some trees, and the
//               last one to finish joins the sums, or adds all trees once more where their order matters.
#include "common/async_copy.h"
#include "evaluate/exact_sum.h"
#include "evaluate/last_block.h"
#include "evaluate/packed.h"

#define VALUES 0
#define SUMS 1
#define PARTS 2

using Leaf = LEAF;
using Result = RESULT;

namespace silva {

constexpr int N_ROWS = WORDS * CODES_PER_WORD, ROW_WORDS = WORDS * THREADS, TILE_ROWS = ROW_WORDS * CODES_PER_WORD;
constexpr unsigned ALL = 0xffffffffu;

// Trees that are staged together; they add to one output. A tree larger than a stage is alone in its group, and only
// its levels above staged_levels are staged.
struct alignas(16) Group {
  int first_chunk, n_chunks;  // of 16 bytes, in the image
  int n_trees, first_tree;
  int output, ends_output;
  int staged_levels;  // 0: all, and the leaves' values
  int reserved;
};

__device__ __forceinline__ void stage(const uint4* image, const Group& group, uint4* target) {
  for (int i = threadIdx.x; i < group.n_chunks; i += THREADS) copy_chunk(target + i, image + group.first_chunk + i);
}

__device__ __forceinline__ void load_tile(const Code* codes, long long stride, int n_columns, uint4* tile) {
  constexpr int CHUNKS = ROW_WORDS / 4;
  const long long first_row = static_cast<long long>(blockIdx.x) * TILE_ROWS;
  for (int i = threadIdx.x; i < n_columns * CHUNKS; i += THREADS) {
    const int column = i / CHUNKS;
    const Code* source = codes + column * stride + first_row;
    copy_chunk(tile + i, reinterpret_cast<const uint4*>(source) + (i - column * CHUNKS));
  }
}

// Where the rows of a thread stand in a tree.
struct Walk {
  const unsigned* mine;  // this thread's codes of the column that column_of calls 0
  unsigned at[N_ROWS];

  __device__ __forceinline__ const unsigned* codes_of(Node node) const { return mine + column_of(node) * ROW_WORDS; }

  __device__ __forceinline__ void top(Node root, Node left, Node right) {
    const unsigned *of_root = codes_of(root), *of_left = codes_of(left), *of_right = codes_of(right);
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      const unsigned x = of_root[w * THREADS], l = of_left[w * THREADS], r = of_right[w * THREADS];
#pragma unroll
      for (int k = 0; k < CODES_PER_WORD; ++k) {
        const bool to_right = goes_right(root, raised(x, k));
        at[w * CODES_PER_WORD + k] = child_of(to_right ? right : left, 1 + to_right, raised(to_right ? r : l, k));
      }
    }
  }

  // One level down; returns what all nodes have in common.
  __device__ __forceinline__ unsigned step(const Node* nodes) {
    unsigned common = ALL;
#pragma unroll
    for (int i = 0; i < N_ROWS; ++i) {
      const Node node = nodes[at[i]];
      at[i] = child_of(node, at[i], raised(codes_of(node)[i / CODES_PER_WORD * THREADS], i % CODES_PER_WORD));
      common &= unsigned(node);
    }
    return common;
  }

  // Goes down so many levels, or until no row moves any more: most rows of a deep tree end above its last level.
  __device__ __forceinline__ void descend(const Node* nodes, int n_levels) {
    for (; n_levels >= 4; n_levels -= 4) {
      step(nodes);
      step(nodes);
      step(nodes);
      const unsigned common = step(nodes);
      if (n_levels > 4 && __all_sync(ALL, are_settled(common))) return;
    }
    for (; n_levels > 0; --n_levels) step(nodes);
  }
};

__device__ __forceinline__ void walk_tree(Walk& walk, const char* tree, const char* whole_tree, int staged_levels) {
  const int depth = reinterpret_cast<const TreeHeader*>(tree)->depth;
  const Node* nodes = reinterpret_cast<const Node*>(tree + HEADER_BYTES);
  walk.top(nodes[0], nodes[1], nodes[2]);
  walk.descend(nodes, (staged_levels == 0 ? depth : staged_levels) - 2);
  if (staged_levels != 0) walk.descend(reinterpret_cast<const Node*>(whole_tree + HEADER_BYTES), depth - staged_levels);
}

template <class Type>
struct alignas(sizeof(Type) * CODES_PER_WORD <= 16 ? sizeof(Type) * CODES_PER_WORD : 16) Pack {
  Type values[CODES_PER_WORD];
};

// Trees, tile and stages of a block.
struct Block {
  const uint4* image;
  const Group* groups;
  uint4* stages;
  int stage_chunks;
};

// Values of the leaves that the rows of a thread have come to.
__device__ __forceinline__ void read_leaves(const Walk& walk, const char* tree, const char* whole_tree, bool is_staged,
                                            Leaf (&values)[N_ROWS]) {
  const int first_value = reinterpret_cast<const TreeHeader*>(tree)->first_value;
  const Leaf* const near = reinterpret_cast<const Leaf*>(tree + first_value);
  const Leaf* const far = reinterpret_cast<const Leaf*>(whole_tree + first_value);
#pragma unroll
  for (int i = 0; i < N_ROWS; ++i) values[i] = is_staged ? near[walk.at[i]] : far[walk.at[i]];
}

// Passes groups begin ... end - 1 and calls take(group, tree, values) for each of their trees, and finish(group).
template <class Take, class Finish>
__device__ __forceinline__ void pass_trees(const Block& block, Walk& walk, int begin, int end, Take take,
                                           Finish finish) {
  stage(block.image, block.groups[begin], block.stages);
  end_copies();
  for (int g = begin; g < end; ++g) {
    const Group group = block.groups[g];
    if (g + 1 < end) stage(block.image, block.groups[g + 1], block.stages + ((g + 1 - begin) & 1) * block.stage_chunks);
    end_copies();
    await_copies<1>();
    __syncthreads();
    const char* tree = reinterpret_cast<const char*>(block.stages + ((g - begin) & 1) * block.stage_chunks);
    const char* whole = reinterpret_cast<const char*>(block.image + group.first_chunk);
    for (int t = 0; t < group.n_trees; ++t) {
      Leaf values[N_ROWS];
      walk_tree(walk, tree, whole, group.staged_levels);
      read_leaves(walk, tree, whole, group.staged_levels == 0, values);
      take(group, group.first_tree + t, values);
      tree += reinterpret_cast<const TreeHeader*>(tree)->n_bytes;
    }
    finish(group);
    __syncthreads();
  }
}

// Row of the tile that the i-th walk of a thread takes.
__device__ __forceinline__ int row_of(int i) {
  return (i / CODES_PER_WORD * THREADS + threadIdx.x) * CODES_PER_WORD + i % CODES_PER_WORD;
}

__device__ __forceinline__ void write_values(const Leaf (&values)[N_ROWS], Leaf* tile) {
#pragma unroll
  for (int w = 0; w < WORDS; ++w) {
    Pack<Leaf> pack;
#pragma unroll
    for (int k = 0; k < CODES_PER_WORD; ++k) pack.values[k] = values[w * CODES_PER_WORD + k];
    *reinterpret_cast<Pack<Leaf>*>(tile + row_of(w * CODES_PER_WORD)) = pack;
  }
}

// Adds trees in their order; `margins` are those of the tile's `n_rows` rows.
__device__ __forceinline__ void sum_trees(const Block& block, Walk& walk, int begin, int end, const double* base_score,
                                          int n_outputs, long long n_rows, Result* margins) {
  double sums[N_ROWS];
  bool begins_output = true;
  pass_trees(
      block, walk, begin, end,
      [&](const Group& group, int, const Leaf(&values)[N_ROWS]) {
#pragma unroll
        for (int i = 0; i < N_ROWS; ++i) sums[i] = (begins_output ? base_score[group.output] : sums[i]) + values[i];
        begins_output = false;
      },
      [&](const Group& group) {
        if (!group.ends_output) return;
#pragma unroll
        for (int i = 0; i < N_ROWS; ++i)
          if (row_of(i) < n_rows)
            margins[static_cast<long long>(row_of(i)) * n_outputs + group.output] = Result(sums[i]);
        begins_output = true;
      });
}

#if MODE == PARTS
// Joins the parts' sums, [part][stride]; returns whether the order of the trees matters to no row of the tile.
__device__ __forceinline__ bool join_parts(const ExactSum* tile, long long stride, double base_score, int n_trees,
                                           long long n_rows, Result* margins) {
  bool alike = true;
  for (int row = threadIdx.x; row < n_rows && row < TILE_ROWS; row += THREADS) {
    ExactSum sum{0, 0, 255, 0};
#pragma unroll 8
    for (int part = 0; part < gridDim.y; ++part) {
      const uint4 words = __ldcg(reinterpret_cast<const uint4*>(tile + part * stride + row));
      sum.join(*reinterpret_cast<const ExactSum*>(&words));
    }
    alike = alike && sum.rounds_alike(base_score, n_trees, Result());
    margins[row] = Result(base_score + sum.sum);
  }
  return __syncthreads_and(alike);
}
#endif

}  // namespace silva

extern "C" __global__ void __launch_bounds__(THREADS, 768 / THREADS)
    evaluate_tiles_kernel(const uint4* __restrict__ image, const silva::Group* __restrict__ groups, int n_groups,
                          int groups_per_part, int stage_chunks, const silva::Code* __restrict__ codes,
                          long long stride, int n_rows, int n_columns, const double* __restrict__ base_score,
                          int n_outputs, int n_trees, silva::ExactSum* parts, unsigned* arrivals,
                          Result* __restrict__ result) {
  using namespace silva;
  extern __shared__ uint4 memory[];
  const Block block{image, groups, memory + n_columns * (ROW_WORDS / 4), stage_chunks};
  const int begin = blockIdx.y * groups_per_part, end = min(n_groups, begin + groups_per_part);
  const long long first_row = static_cast<long long>(blockIdx.x) * TILE_ROWS, n_mine = n_rows - first_row;
  Walk walk;
  walk.mine = reinterpret_cast<const unsigned*>(memory) + threadIdx.x - FIRST_COLUMN * ROW_WORDS;
  load_tile(codes, stride, n_columns, memory);
#if MODE == VALUES
  Leaf* const tile = reinterpret_cast<Leaf*>(result) + first_row;
  pass_trees(
      block, walk, begin, end,
      [&](const Group&, int tree, const Leaf(&values)[N_ROWS]) { write_values(values, tile + tree * stride); },
      [](const Group&) {});
#elif MODE == SUMS
  sum_trees(block, walk, begin, end, base_score, n_outputs, n_mine, result + first_row * n_outputs);
#else
  ExactSum sums[N_ROWS];
#pragma unroll
  for (int i = 0; i < N_ROWS; ++i) sums[i] = {0, 0, 255, 0};
  pass_trees(
      block, walk, begin, end,
      [&](const Group&, int, const Leaf(&values)[N_ROWS]) {
#pragma unroll
        for (int i = 0; i < N_ROWS; ++i) sums[i].add(values[i]);
      },
      [](const Group&) {});
#pragma unroll
  for (int i = 0; i < N_ROWS; ++i) parts[blockIdx.y * stride + first_row + row_of(i)] = sums[i];
  if (!is_last_block(arrivals + blockIdx.x, gridDim.y)) return;
  if (!join_parts(parts + first_row, stride, base_score[0], n_trees, n_mine, result + first_row))
    sum_trees(block, walk, 0, n_groups, base_score, 1, n_mine, result + first_row);
#endif
}
