// Procedure 3 of Spencer (2011) for few rows: a thread takes one row through one tree, and trees are spread over the
// blocks. A block encodes its rows itself, while the top of each thread's tree is on its way to registers; the last
// block of a group of rows adds the trees up, so that a prediction is one launch. All of it is latency.
//
// Macros: INPUT (type of X), ROW (type of the thresholds), FORMAT (evaluate/cuda/packed.cuh), LEAF (type of the leaves'
// values), RESULT, STAGED_DEPTH (of heaps whose nodes come to shared memory as well, otherwise 0).
#include "common/cuda/async.cuh"
#include "common/cuda/encode.cuh"
#include "evaluate/cuda/exact_sum.cuh"
#include "evaluate/cuda/packed.cuh"

using Input = INPUT;
using Value = ROW;
using Leaf = LEAF;
using Result = RESULT;

namespace glasswood {

constexpr int MOST_THREADS = 512, SUMMED_TREES = 128;  // trees of a row in shared memory at a time
constexpr int AT_ONCE = 8;                             // values that a thread reads side by side

// A NaN that is never passed on stands for a value to come: the value is its own flag, which takes half a round trip
// where a counter of arrivals takes three.
__device__ __forceinline__ float unwritten(float) { return __uint_as_float(0xfff5a5a5u); }
__device__ __forceinline__ double unwritten(double) { return __longlong_as_double(0xfff5a5a5fff5a5a5ll); }
__device__ __forceinline__ bool is_unwritten(float value) { return __float_as_uint(value) == 0xfff5a5a5u; }
__device__ __forceinline__ bool is_unwritten(double value) {
  return __double_as_longlong(value) == static_cast<long long>(0xfff5a5a5fff5a5a5ull);
}

__device__ __forceinline__ void pass_on(Leaf* target, Leaf value) {
  *const_cast<volatile Leaf*>(target) = value == value ? value : Leaf(__uint_as_float(0x7fffffffu));
}

template <class Type>
__device__ __forceinline__ Type look(const Type* source) {
  return *const_cast<const volatile Type*>(source);
}

__device__ __forceinline__ Leaf await(const Leaf* source) {
  Leaf value;
  do value = look(source);
  while (is_unwritten(value));
  return value;
}

#if STAGED_DEPTH
// Nodes of the block's trees, a chunk more a tree where their number is even, so that lanes that read the same node of
// neighbouring trees meet in few banks.
struct Trees {
  static constexpr int NODE_CHUNKS = (int(sizeof(Node)) << STAGED_DEPTH) + 15 >> 4, PITCH = NODE_CHUNKS | 1;
  const uint4* image;  // of the block's first tree
  uint4* nodes;

  __device__ __forceinline__ Trees(const uint4* all, const int*, int first, int, uint4* room)
      : image(all + first * static_cast<long long>(HEAP_CHUNKS)), nodes(room) {}

  // Begins to bring the nodes of `n` trees.
  __device__ __forceinline__ void start(int n) const {
    for (int i = threadIdx.x; i < n * NODE_CHUNKS; i += blockDim.x) {
      const int tree = i / NODE_CHUNKS, chunk = i - tree * NODE_CHUNKS;
      copy_chunk(nodes + tree * PITCH + chunk, image + tree * HEAP_CHUNKS + HEADER_BYTES / 16 + chunk);
    }
    end_copies();
  }

  __device__ __forceinline__ Leaf walk(int tree, int, const Code* codes, int n_rows) {
    const Node* const mine = reinterpret_cast<const Node*>(nodes + tree * PITCH);
    unsigned at = ROOT;
#pragma unroll
    for (int level = 0; level < STAGED_DEPTH; ++level) {
      const Word node = mine[at];
      at = child_of(node, at, raised(codes[column_of(node) * n_rows]) | ONES);
    }
    const char* const whole = reinterpret_cast<const char*>(image + tree * HEAP_CHUNKS);
    return reinterpret_cast<const Leaf*>(whole + heap_bytes<Leaf>(STAGED_DEPTH).first_value)[at];
  }

 private:
  static constexpr int HEAP_CHUNKS = heap_bytes<Leaf>(STAGED_DEPTH).all / 16;
};
#else
// A tree and what a walk reads first of it: one line of memory.
struct Top {
  const uint4* tree;
  TreeHeader header;
  Word root, left, right;
};

// Trees of the block. The top of a thread's next one is on its way while it walks.
struct Trees {
  const uint4* image;
  const int* tree_chunks;
  Top top;

  __device__ __forceinline__ Trees(const uint4* all, const int* chunks, int first, int own, uint4*)
      : image(all), tree_chunks(chunks + first), top(read_top(own)) {}

  __device__ __forceinline__ void start(int) const {}

  __device__ __forceinline__ Leaf walk(int, int next, const Code* codes, int n_rows) {
    const Top mine = top;
    top = read_top(next);
    return walk_one(mine, codes, n_rows);
  }

 private:
  __device__ __forceinline__ Top read_top(int tree) const {
    const uint4* const start = image + tree_chunks[tree];
    const Node* const nodes = reinterpret_cast<const Node*>(start + 1);
    return {start, *reinterpret_cast<const TreeHeader*>(start), nodes[ROOT], nodes[BELOW_ROOT], nodes[BELOW_ROOT + 1]};
  }

  static __device__ __forceinline__ Leaf walk_one(const Top& top, const Code* codes, int n_rows) {
    const auto child = [&](Word node, unsigned at) {
      return child_of(node, at, raised(codes[column_of(node) * n_rows]) | ONES);
    };
    const Node* const nodes = reinterpret_cast<const Node*>(top.tree + 1);
    unsigned at = child(top.root, ROOT);
    at = child(at == BELOW_ROOT ? top.left : top.right, at);
    for (int level = 2; level < top.header.depth; ++level) {
      const unsigned next = child(nodes[at], at);
      if (!IS_HEAP && next == at) break;
      at = next;
    }
    return reinterpret_cast<const Leaf*>(reinterpret_cast<const char*>(top.tree) + top.header.first_value)[at];
  }
};
#endif

// Adds the trees of each output up one after the other for the rows of the block, a thread a sum.
__device__ __forceinline__ void sum_in_order(const Leaf* values, int n_trees, int n_rows, const int* starts,
                                             const double* base_score, int n_outputs, Leaf* shared, Result* result) {
  const int pitch = SUMMED_TREES + 1, n_threads = blockDim.x;
  for (int first = 0; first < n_rows * n_outputs; first += n_threads) {
    const int mine = first + threadIdx.x, row = mine / n_outputs, output = mine % n_outputs;
    const bool sums = mine < n_rows * n_outputs;
    double sum = sums ? base_score[output] : 0;
    const int begin = sums ? starts[output] : 0, end = sums ? starts[output + 1] : 0;
    for (int t = 0; t < n_trees; t += SUMMED_TREES) {
      const int n = min(SUMMED_TREES, n_trees - t);
      __syncthreads();
      for (int r = 0; r < n_rows; ++r)
        for (int i = threadIdx.x; i < n; i += n_threads)
          shared[r * pitch + i] = await(values + static_cast<long long>(r) * n_trees + t + i);
      __syncthreads();
      const int to = min(end - t, n);
#pragma unroll 8
      for (int i = max(begin - t, 0); i < to; ++i) sum += shared[row * pitch + i];
    }
    if (sums) result[mine] = Result(sum);
  }
}

// Adds the values `first`, first + step, ... below `end` once they have come.
__device__ __forceinline__ void add_values(const float* values, int first, int step, int end, ExactSum& sum) {
  for (; first < end; first += AT_ONCE * step) {
    float found[AT_ONCE];
    bool waits;
    do {
      waits = false;
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) {
        found[k] = first + k * step < end ? look(values + first + k * step) : 0.0f;
        waits = waits || is_unwritten(found[k]);
      }
    } while (waits);
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k)
      if (first + k * step < end) sum.add(found[k]);
  }
}

// Adds the trees up in any order, by a group of threads a sum. Returns whether no other order gives another result in
// any sum of the block; rows with a value close to 0 are the exception.
__device__ __forceinline__ bool sum_exactly(const float* values, int n_trees, int n_rows, const int* starts,
                                            const double* base_score, int n_outputs, ExactSum* shared, Result* result) {
  const int n_sums = n_rows * n_outputs, n_threads = blockDim.x;
  // A warp reads AT_ONCE values a lane in one go and needs no shared memory to join them.
  int n_lanes = n_trees <= 32 * AT_ONCE ? 32 : n_threads;
  while (n_lanes > 32 && n_threads / n_lanes < n_sums) n_lanes /= 2;
  const int lane = threadIdx.x % n_lanes, per_turn = n_threads / n_lanes;
  bool exact = true;
  for (int first = 0; first < n_sums; first += per_turn) {
    const int mine = first + threadIdx.x / n_lanes;
    const int row = n_outputs == 1 ? mine : mine / n_outputs, output = mine - row * n_outputs;
    ExactSum sum{0, 0, 255, 0};
    if (mine < n_sums)
      add_values(values + static_cast<long long>(row) * n_trees, starts[output] + lane, n_lanes, starts[output + 1],
                 sum);
    sum.join_warp();
    if (n_lanes > 32) {
      __syncthreads();
      if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
      __syncthreads();
    }
    if (lane == 0 && mine < n_sums) {
      for (int w = 1; w < n_lanes / 32; ++w) sum.join(shared[threadIdx.x / 32 + w]);
      const bool alike = sum.rounds_alike(base_score[output], starts[output + 1] - starts[output], Result());
      if (alike) result[mine] = Result(base_score[output] + sum.sum);
      exact = exact && alike;
    }
  }
  return __syncthreads_and(exact);
}

__device__ __forceinline__ bool sum_exactly(const double*, int, int, const int*, const double*, int, ExactSum*,
                                            Result*) {
  return false;
}

}  // namespace glasswood

// Grid: portions of the trees × groups of 1 << row_shift rows. Shared memory: the codes of the rows, which make place
// for the sums; then the trees' values in a block that has all trees; then nodes. Offsets are in units of 16 bytes.
extern "C" __global__ void __launch_bounds__(glasswood::MOST_THREADS, 2)
    walk_few_kernel(const Input* __restrict__ X, long long row_stride, long long feature_stride, int n_rows,
                    int n_columns, CODE_TABLE_PARAMETERS, const uint4* __restrict__ image,
                    const int* __restrict__ tree_chunks, int n_trees, int trees_per_block, int row_shift,
                    int values_offset, int nodes_offset, const int* __restrict__ starts,
                    const double* __restrict__ base_score, int n_outputs, Leaf* values, Result* __restrict__ result) {
  using namespace glasswood;
  extern __shared__ uint4 memory[];
  Code* const codes = reinterpret_cast<Code*>(memory);
  const CodeTables<Value> columns = CODE_TABLES;
  const int first_row = blockIdx.y << row_shift, most_rows = 1 << row_shift;
  const int n_mine = min(most_rows, n_rows - first_row);
  const int first_tree = blockIdx.x * trees_per_block, n_mine_trees = min(trees_per_block, n_trees - first_tree);
  const int n_walks = n_mine_trees << row_shift, last_walk = n_walks - 1;
  Trees trees(image, tree_chunks, first_tree, min(int(threadIdx.x), last_walk) >> row_shift, memory + nodes_offset);
  trees.start(n_mine_trees);
  // Rows before columns: lanes that search one column share its lines.
  for (int i = threadIdx.x; i < n_columns << row_shift; i += blockDim.x) {
    const int row = min(i & (most_rows - 1), n_mine - 1), column = i >> row_shift;
    Value x[1] = {Value(X[(first_row + row) * row_stride + feature[column] * feature_stride])};
    unsigned code[1];
    codes_of(columns, describe_column(columns, column), thresholds_of(columns, column), x, code);
    codes[i] = Code(code[0]);
  }
  await_copies<0>();
  __syncthreads();
  Leaf* const of_rows = gridDim.x == 1 ? reinterpret_cast<Leaf*>(memory + values_offset)
                                       : values + static_cast<long long>(first_row) * n_trees;
  for (int i = threadIdx.x; i < n_walks; i += blockDim.x) {
    const int row = i & (most_rows - 1), tree = i >> row_shift, next = min(i + int(blockDim.x), last_walk) >> row_shift;
    const Leaf value = trees.walk(tree, next, codes + row, most_rows);
    if (row < n_mine) pass_on(of_rows + static_cast<long long>(row) * n_trees + first_tree + tree, value);
  }
  // Blocks are started in their order, so those that the last one waits for have been.
  if (blockIdx.x != gridDim.x - 1) return;
  __syncthreads();
  Result* const margins = result + static_cast<long long>(first_row) * n_outputs;
  if (!sum_exactly(of_rows, n_trees, n_mine, starts, base_score, n_outputs, reinterpret_cast<ExactSum*>(memory),
                   margins))
    sum_in_order(of_rows, n_trees, n_mine, starts, base_score, n_outputs, reinterpret_cast<Leaf*>(memory), margins);
  if (gridDim.x == 1) return;
  __syncthreads();
  for (int i = threadIdx.x; i < n_mine * n_trees; i += blockDim.x) of_rows[i] = unwritten(Leaf());
}
