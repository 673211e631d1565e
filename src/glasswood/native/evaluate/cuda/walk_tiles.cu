// Procedure 3 of Spencer (2011) for many rows: a block keeps the codes of its rows in shared memory, [column][lane], so
// that each lane reads its own bank whatever its node asks for, and passes the trees through two stages of shared
// memory that are filled while it works on the other. A thread walks 4 or 2 rows, the codes of which share a word, side
// by side; the two upper levels of a tree are the same nodes for all of them and stay in registers. Teams of threads
// may share the rows of a block and take different trees, where rows are too long or too few to occupy the GPU
// otherwise.
//
// Macros: FORMAT (evaluate/cuda/packed.cuh), LEAF (type of the leaves' values), THREADS (of a block), TEAMS, DEPTH (of
//         all trees, if they are heaps: what depends on it is then known to the compiler),
//         MODE: VALUES writes each tree's value, [tree][stride];
//               SUMS adds all trees of an output to float64 margins in their order and writes them as RESULT, by one
//               team; blocks that share a tile divide its outputs, as `portions` has them;
//               PARTIAL does so for forests of one output by teams, and blocks that share a tile: each adds some trees,
//               and the last one to finish joins the sums, and adds the trees of a row in order where that matters.
#include "common/cuda/async.cuh"
#include "evaluate/cuda/exact_sum.cuh"
#include "evaluate/cuda/packed.cuh"

#define VALUES 0
#define SUMS 1
#define PARTIAL 2

using Leaf = LEAF;
using Result = RESULT;

namespace glasswood {

// Whether this block is the last of `n_blocks` to come here, and sees what the others wrote. `arrivals` starts at 0 and
// is 0 again afterwards.
__device__ __forceinline__ bool is_last_block(unsigned* arrivals, unsigned n_blocks) {
  __shared__ bool last;
  if (n_blocks == 1) {
    __syncthreads();
    return true;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(arrivals, n_blocks - 1) == n_blocks - 1;
  __syncthreads();
  __threadfence();
  return last;
}

constexpr int LANES = THREADS / TEAMS, N_ROWS = CODES_PER_WORD, TILE_ROWS = LANES * N_ROWS;
constexpr unsigned ALL = 0xffffffffu;

// Trees that are staged together; they add to one output. Where trees are too large for that, only their levels above
// staged_levels are staged.
struct alignas(16) Group {
  int first_chunk, n_chunks;  // of 16 bytes, in the image; of large trees, n_chunks each
  int n_trees, first_tree;
  int output, ends_output;
  int staged_levels;  // 0: all, and the leaves' values
  int reserved;
};

// Trees, tile and stages of a block.
struct Block {
  const uint4* image;
  const int* tree_chunks;
  const Group* groups;
  uint4* stages;
  int stage_chunks;

  __device__ __forceinline__ void stage(int g, int place) const {
    const Group group = groups[g];
    uint4* const target = stages + (place & 1) * stage_chunks;
    if (group.staged_levels == 0) {
      for (int i = threadIdx.x; i < group.n_chunks; i += THREADS) copy_chunk(target + i, image + group.first_chunk + i);
    } else {
      for (int t = 0; t < group.n_trees; ++t)
        for (int i = threadIdx.x; i < group.n_chunks; i += THREADS)
          copy_chunk(target + t * group.n_chunks + i, image + tree_chunks[group.first_tree + t] + i);
    }
  }
};

__device__ __forceinline__ void load_tile(const Code* codes, long long stride, int n_columns, uint4* tile) {
  constexpr int CHUNKS = LANES / 4;
  const long long first_row = static_cast<long long>(blockIdx.x) * TILE_ROWS;
  for (int i = threadIdx.x; i < n_columns * CHUNKS; i += THREADS) {
    const int column = i / CHUNKS;
    const Code* source = codes + column * stride + first_row;
    copy_chunk(tile + i, reinterpret_cast<const uint4*>(source) + (i - column * CHUNKS));
  }
}

// The same address in shared memory as one number. The compiler would otherwise add the start of shared memory and the
// thread's place in it to each address again.
template <class Type>
__device__ __forceinline__ const Type* as_one_address(const Type* pointer) {
#ifdef __CUDA_ARCH__
  unsigned address = unsigned(__cvta_generic_to_shared(pointer));
  asm("mov.u32 %0, %0;" : "+r"(address));
  return static_cast<const Type*>(__cvta_shared_to_generic(address));
#else
  return pointer;
#endif
}

// Where the rows of a thread stand in a tree.
struct RowsInTree {
  const Code* mine;  // this thread's codes of column 0
  unsigned at[N_ROWS];

  __device__ __forceinline__ const Code* codes_of(Word node) const { return mine + column_of(node) * TILE_ROWS; }

  __device__ __forceinline__ void top(const Node* nodes) {
    const Word root = nodes[ROOT] | ONES, left = nodes[BELOW_ROOT] | ONES, right = nodes[BELOW_ROOT + 1] | ONES;
    const auto word_of = [&](Word node) { return *reinterpret_cast<const unsigned*>(codes_of(node)); };
    const unsigned x = word_of(root), l = word_of(left), r = word_of(right);
#pragma unroll
    for (int k = 0; k < N_ROWS; ++k) {
      const bool to_right = goes_right(root, raised(x, k));
      at[k] = child_of(to_right ? right : left, BELOW_ROOT + to_right, raised(to_right ? r : l, k));
    }
  }

  // One level down; returns what any of the nodes has.
  __device__ __forceinline__ unsigned step(const Node* nodes) {
    unsigned any = 0;
#pragma unroll
    for (int i = 0; i < N_ROWS; ++i) {
      const Word node = nodes[at[i]];
      // A code of its own, not of a word: to shift it is left to another pipe than to pick it from a word.
      at[i] = child_of(node, at[i], raised(codes_of(node)[i]) | ONES);
      any |= unsigned(node);
    }
    return any;
  }

  // Goes down `n_levels` levels, or until no row moves any more: most rows of a deep tree end above its last level.
  __device__ __forceinline__ void descend(const Node* nodes, int n_levels) {
    for (; n_levels >= 4; n_levels -= 4) {
      step(nodes);
      step(nodes);
      step(nodes);
      const unsigned any = step(nodes);
      if (!IS_HEAP && n_levels > 4 && __all_sync(ALL, are_settled(any))) return;
    }
    for (; n_levels > 0; --n_levels) step(nodes);
  }
};

__device__ __forceinline__ const Node* nodes_of(const char* tree) {
  return reinterpret_cast<const Node*>(tree + HEADER_BYTES);
}

__device__ __forceinline__ int depth_of(const char* tree) {
  return IS_HEAP ? DEPTH : reinterpret_cast<const TreeHeader*>(tree)->depth;
}

// Takes rows to the leaves of a tree in shared memory; without WHOLE, its levels from staged_levels on are elsewhere.
template <bool WHOLE>
__device__ __forceinline__ void walk_tree(RowsInTree& walk, const char* tree, const char* whole, int staged_levels) {
  const Node* const nodes = nodes_of(tree);
  walk.top(nodes);
  if (WHOLE && IS_HEAP) {
#pragma unroll
    for (int level = 2; level < DEPTH; ++level) walk.step(nodes);
  } else {
    walk.descend(nodes, (WHOLE ? depth_of(tree) : staged_levels) - 2);
    if (!WHOLE) walk.descend(nodes_of(whole), depth_of(tree) - staged_levels);
  }
}

template <class Type>
struct alignas(sizeof(Type) * CODES_PER_WORD <= 16 ? sizeof(Type) * CODES_PER_WORD : 16) Pack {
  Type values[CODES_PER_WORD];
};

// Values of the leaves that the rows of a thread have come to, of a tree with this header.
__device__ __forceinline__ void read_leaves(const RowsInTree& walk, const char* header, const char* tree,
                                            Leaf (&values)[N_ROWS]) {
  const int first =
      IS_HEAP ? heap_bytes<Leaf>(DEPTH).first_value : reinterpret_cast<const TreeHeader*>(header)->first_value;
#pragma unroll
  for (int i = 0; i < N_ROWS; ++i) values[i] = reinterpret_cast<const Leaf*>(tree + first)[walk.at[i]];
}

// Calls take(tree, values) for the trees `first`, first + step ... of a staged group.
template <bool WHOLE, class Take>
__device__ __forceinline__ void pass_group(const Block& block, const Group& group, const uint4* staged,
                                           RowsInTree& walk, int first, int step, Take take) {
  constexpr int HEAP_CHUNKS = IS_HEAP ? heap_bytes<Leaf>(DEPTH).all / 16 : 0;
  const int* const chunks = block.tree_chunks + group.first_tree;
  int next = IS_HEAP ? 0 : chunks[min(first, group.n_trees)];
  for (int t = first; t < group.n_trees; t += step) {
    const int chunk = IS_HEAP ? group.first_chunk + t * HEAP_CHUNKS : next;
    const char* const tree =
        reinterpret_cast<const char*>(staged + (WHOLE ? chunk - group.first_chunk : t * group.n_chunks));
    const char* const whole = reinterpret_cast<const char*>(block.image + chunk);
    if (!IS_HEAP) next = chunks[min(t + step, group.n_trees)];
    Leaf values[N_ROWS];
    walk_tree<WHOLE>(walk, tree, whole, group.staged_levels);
    read_leaves(walk, tree, WHOLE ? tree : whole, values);
    take(group.first_tree + t, values);
  }
}

// Passes groups begin ... end - 1, the first of which is on its way. Calls start(group) for each, take(tree, values)
// for its trees `first`, first + step ..., and finish(group).
template <class Start, class Take, class Finish>
__device__ __forceinline__ void pass_trees(const Block& block, RowsInTree& walk, int begin, int end, int first,
                                           int step, Start start, Take take, Finish finish) {
  end_copies();
  for (int g = begin; g < end; ++g) {
    const Group group = block.groups[g];
    if (g + 1 < end) block.stage(g + 1, g + 1 - begin);
    end_copies();
    start(group);
    await_copies<1>();
    __syncthreads();
    const uint4* const staged = block.stages + ((g - begin) & 1) * block.stage_chunks;
    if (group.staged_levels == 0)
      pass_group<true>(block, group, staged, walk, first, step, take);
    else
      pass_group<false>(block, group, staged, walk, first, step, take);
    finish(group);
    __syncthreads();
  }
}

// Row of the tile that the i-th walk of a thread takes.
__device__ __forceinline__ int row_of(int i) { return int(threadIdx.x) % LANES * N_ROWS + i; }

__device__ __forceinline__ void write_values(const Leaf (&values)[N_ROWS], Leaf* tile) {
  Pack<Leaf> pack;
#pragma unroll
  for (int k = 0; k < N_ROWS; ++k) pack.values[k] = values[k];
  *reinterpret_cast<Pack<Leaf>*>(tile + row_of(0)) = pack;
}

// Adds trees in their order; `margins` are those of the tile's `n_rows` rows. All teams do the same.
__device__ __forceinline__ void sum_trees(const Block& block, RowsInTree& walk, int begin, int end,
                                          const double* base_score, int n_outputs, long long n_rows, Result* margins) {
  double sums[N_ROWS];
  bool begins_output = true;
  pass_trees(
      block, walk, begin, end, 0, 1,
      [&](const Group& group) {
#pragma unroll
        for (int i = 0; i < N_ROWS; ++i) sums[i] = begins_output ? base_score[group.output] : sums[i];
        begins_output = false;
      },
      [&](int, const Leaf(&values)[N_ROWS]) {
#pragma unroll
        for (int i = 0; i < N_ROWS; ++i) sums[i] += values[i];
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

#if MODE == PARTIAL
// Joins n sums a row, [sum][stride], for the rows of the tile. Calls take(row, sum).
template <class Take>
__device__ __forceinline__ void join_sums(const ExactSum* sums, int n, long long stride, long long n_rows, Take take) {
  for (int row = threadIdx.x; row < n_rows && row < TILE_ROWS; row += THREADS) {
    ExactSum sum{0, 0, 255, 0};
#pragma unroll 8
    for (int i = 0; i < n; ++i) {
      const uint4 words = *reinterpret_cast<const uint4*>(sums + i * stride + row);
      sum.join(*reinterpret_cast<const ExactSum*>(&words));
    }
    take(row, sum);
  }
}

// Sums of the team's trees for the rows of a thread.
__device__ __forceinline__ void sum_team(const Block& block, RowsInTree& walk, int begin, int end,
                                         ExactSum (&sums)[N_ROWS]) {
#pragma unroll
  for (int i = 0; i < N_ROWS; ++i) sums[i] = {0, 0, 255, 0};
  pass_trees(
      block, walk, begin, end, threadIdx.x / LANES, TEAMS, [](const Group&) {},
      [&](int, const Leaf(&values)[N_ROWS]) {
#pragma unroll
        for (int i = 0; i < N_ROWS; ++i) sums[i].add(values[i]);
      },
      [](const Group&) {});
}

// Writes the margins of the tile's rows by all teams of all blocks that share it, `tile` being their sums
// [sum][stride]. Returns, in the last of these blocks, to which of the thread's rows the order of the trees matters:
// bit i for row threadIdx.x + i * THREADS.
__device__ __forceinline__ unsigned join_partial(const ExactSum (&sums)[N_ROWS], ExactSum* shared, ExactSum* tile,
                                                 long long stride, unsigned* arrivals, double base_score, int n_trees,
                                                 long long n_rows, Result* margins) {
  static_assert(TILE_ROWS <= 32 * THREADS, "a bit a row");
  unsigned unsure = 0;
  const auto finish = [&](int row, const ExactSum& sum) {
    unsure |= unsigned(!sum.rounds_alike(base_score, n_trees, Result())) << row / THREADS;
    margins[row] = Result(base_score + sum.sum);
  };
  ExactSum* const of_block = tile + blockIdx.y * stride;
  if (TEAMS > 1) {
#pragma unroll
    for (int i = 0; i < N_ROWS; ++i) shared[threadIdx.x / LANES * TILE_ROWS + row_of(i)] = sums[i];
    __syncthreads();
    if (gridDim.y == 1) {
      join_sums(shared, TEAMS, TILE_ROWS, n_rows, finish);
      return unsure;
    }
    join_sums(shared, TEAMS, TILE_ROWS, n_rows, [&](int row, const ExactSum& sum) { of_block[row] = sum; });
  } else {
#pragma unroll
    for (int i = 0; i < N_ROWS; ++i) of_block[row_of(i)] = sums[i];
  }
  if (!is_last_block(arrivals + blockIdx.x, gridDim.y)) return 0;
  join_sums(tile, gridDim.y, stride, n_rows, finish);
  return unsure;
}

// Leaf of a tree to which a row comes, by its code of column 0.
__device__ __forceinline__ Leaf leaf_of(const char* tree, const Code* codes) {
  const TreeHeader header = *reinterpret_cast<const TreeHeader*>(tree);
  const Node* const nodes = reinterpret_cast<const Node*>(tree + HEADER_BYTES);
  unsigned at = ROOT;
  for (int level = 0; level < header.depth; ++level) {
    const Word node = nodes[at];
    at = child_of(node, at, raised(codes[column_of(node) * TILE_ROWS]) | ONES);
  }
  return reinterpret_cast<const Leaf*>(tree + header.first_value)[at];
}

// Margin of a row of the tile, by a warp: its lanes walk a tree each, whose values are added in the trees' order.
__device__ __forceinline__ Result sum_in_order(const Block& block, const Code* tile, int row, double base_score,
                                               int n_trees) {
  const int lane = threadIdx.x % 32;
  double sum = base_score;
  for (int first = 0; first < n_trees; first += 32) {
    Leaf value = 0;
    if (first + lane < n_trees)
      value = leaf_of(reinterpret_cast<const char*>(block.image + block.tree_chunks[first + lane]), tile + row);
    for (int i = 0; i < 32; ++i) {
      const Leaf of_tree = __shfl_sync(ALL, value, i);
      if (first + i < n_trees) sum += of_tree;
    }
  }
  return Result(sum);
}

// Adds the trees of such rows in their order, a warp a row; `rows` has room for the tile's rows and their number. A
// few in a hundred thousand rows of a thousand trees are such: to pass all trees for a tile once more costs it as much
// again as its teams are.
__device__ __forceinline__ void sum_unsure(const Block& block, const Code* tile, unsigned unsure, int* rows,
                                           double base_score, int n_trees, Result* margins) {
  if (!__syncthreads_or(unsure != 0)) return;
  if (threadIdx.x == 0) rows[0] = 0;
  __syncthreads();
  for (int i = 0; unsure >> i != 0; ++i)
    if (unsure >> i & 1) rows[1 + atomicAdd(rows, 1)] = int(threadIdx.x) + i * THREADS;
  __syncthreads();
  const int n_unsure = rows[0];
  for (int i = threadIdx.x / 32; i < n_unsure; i += THREADS / 32) {
    const int row = rows[1 + i];
    const Result margin = sum_in_order(block, tile, row, base_score, n_trees);
    if (threadIdx.x % 32 == 0) margins[row] = margin;
  }
}
#endif

}  // namespace glasswood

extern "C" __global__ void __launch_bounds__(THREADS, (TEAMS == 1 ? 1024 : 768) / THREADS)
    walk_tiles_kernel(const uint4* __restrict__ image, const int* __restrict__ tree_chunks,
                      const glasswood::Group* __restrict__ groups, int n_groups, int groups_per_block,
                      const int* __restrict__ portions, int stage_chunks, const glasswood::Code* __restrict__ codes,
                      long long stride, int n_rows, int n_columns, const double* __restrict__ base_score, int n_outputs,
                      int n_trees, glasswood::ExactSum* partial, unsigned* arrivals, Result* __restrict__ result) {
  using namespace glasswood;
  extern __shared__ uint4 memory[];
  const Block block{image, tree_chunks, groups, memory + n_columns * (LANES / 4), stage_chunks};
#if MODE == SUMS
  const int begin = portions[blockIdx.y], end = portions[blockIdx.y + 1];
#else
  const int begin = blockIdx.y * groups_per_block, end = min(n_groups, begin + groups_per_block);
#endif
  const long long first_row = static_cast<long long>(blockIdx.x) * TILE_ROWS, n_mine = n_rows - first_row;
  RowsInTree walk;
  walk.mine = as_one_address(reinterpret_cast<const Code*>(memory) + int(threadIdx.x) % LANES * CODES_PER_WORD);
  // Trees do not depend on the launch that makes the codes.
  block.stage(begin, 0);
  await_previous();
  load_tile(codes, stride, n_columns, memory);
#if MODE == VALUES
  Leaf* const tile = reinterpret_cast<Leaf*>(result) + first_row;
  pass_trees(
      block, walk, begin, end, threadIdx.x / LANES, TEAMS, [](const Group&) {},
      [&](int tree, const Leaf(&values)[N_ROWS]) { write_values(values, tile + tree * stride); }, [](const Group&) {});
#elif MODE == SUMS
  sum_trees(block, walk, begin, end, base_score, n_outputs, n_mine, result + first_row * n_outputs);
#else
  ExactSum sums[N_ROWS];
  sum_team(block, walk, begin, end, sums);
  const unsigned unsure = join_partial(sums, reinterpret_cast<ExactSum*>(block.stages), partial + first_row, stride,
                                       arrivals, base_score[0], n_trees, n_mine, result + first_row);
  sum_unsure(block, reinterpret_cast<const Code*>(memory), unsure, reinterpret_cast<int*>(block.stages), base_score[0],
             n_trees, result + first_row);
#endif
}
