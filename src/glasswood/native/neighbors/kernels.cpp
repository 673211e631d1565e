// Shares of leaves by comparing codes, for one instruction set, under the rule of common/instruction_set.h.
// GLASSWOOD_KERNELS names the table.
#include "common/vectors.h"
#include "neighbors/keys.h"
#include "neighbors/shares.h"

namespace glasswood {
extern const ShareKernels GLASSWOOD_KERNELS;
namespace {

constexpr int kByteTrees = 255;  // whose shares a byte holds

template <class Code>
struct Lanes {
  typedef Code Vector __attribute__((vector_size(kVectorBytes), aligned(kVectorBytes), may_alias));
  static constexpr int kWidth = kVectorBytes / int(sizeof(Code));
};

// What a thread has of its queries: codes by query and tree, and the shares of a tile and a block.
template <class Code>
struct Space {
  Space(const ShareTask& task, char* memory) {
    shares = reinterpret_cast<uint16_t(*)[kBlockRows]>(memory);
    codes = reinterpret_cast<Code*>(memory + sizeof(uint16_t) * kTileQueries * kBlockRows);
    width = task.n_trees;
  }
  Code* of(int query) const { return codes + int64_t(query) * width; }

  uint16_t (*shares)[kBlockRows];
  Code* codes;
  int64_t width;
};

int64_t workspace(const ShareTask& task) {
  const int64_t codes = int64_t(kTaskQueries) * task.n_trees * task.code_bytes;
  return (codes + int64_t(sizeof(uint16_t)) * kTileQueries * kBlockRows + 63) / 64 * 64;
}

// Adds the shares of trees first ... end - 1 to those of the tile.
template <class Code>
void add_trees(const ShareTask& task, const Code* block, const Space<Code>& space, int query, int first, int end) {
  using Vector = typename Lanes<Code>::Vector;
  constexpr int kWidth = Lanes<Code>::kWidth;
  const Code* of[kTileQueries];
  for (int q = 0; q < kTileQueries; ++q) of[q] = space.of(query + q);
  for (int lane = 0; lane < kBlockRows; lane += kWidth) {
    Vector sum[kTileQueries] = {};
    for (int tree = first; tree < end; ++tree) {
      const Vector codes = *reinterpret_cast<const Vector*>(block + int64_t(tree) * kBlockRows + lane);
      const Code weight = sizeof(Code) == 1 ? Code(1) : Code(task.weight[tree]);
#pragma GCC unroll 8
      for (int q = 0; q < kTileQueries; ++q) sum[q] = codes == of[q][tree] ? sum[q] + weight : sum[q];
    }
    for (int q = 0; q < kTileQueries; ++q)
      for (int i = 0; i < kWidth; ++i) space.shares[q][lane + i] = uint16_t(space.shares[q][lane + i] + sum[q][i]);
  }
}

int largest(const uint16_t* shares) {
  uint16_t most = 0;
  for (int i = 0; i < kBlockRows; ++i) most = shares[i] > most ? shares[i] : most;
  return most;
}

void keep_nearest(const ShareTask& task, int64_t query, int64_t row, const uint16_t* shares) {
  uint64_t* keys = task.nearest + query * task.n_nearest;
  if (largest(shares) <= share_of(keys[task.n_nearest - 1])) return;  // rows that come later lose ties
  for (int i = 0; i < kBlockRows; ++i)
    if (shares[i]) insert(keys, task.n_nearest, key_of(shares[i], row + i));
}

void add_squares(const ShareTask& task, int64_t query, int64_t row, const uint16_t* shares) {
  const int64_t n = task.n_rows - row < kBlockRows ? task.n_rows - row : kBlockRows;
  const int32_t group = task.query_group[query];
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += task.group[row + i] == group ? uint32_t(shares[i]) * uint32_t(shares[i]) : 0u;
  task.squares[query] += sum;
}

template <class Code>
void pass_block(const ShareTask& task, const Space<Code>& space, int64_t block, int64_t first, int n) {
  const Code* codes = static_cast<const Code*>(task.codes) + block * kBlockRows * task.n_trees;
  const int64_t row = block * kBlockRows;
  const int together = sizeof(Code) == 1 ? kByteTrees : task.n_trees;
  for (int tile = 0; tile < n; tile += kTileQueries) {
    for (int q = 0; q < kTileQueries; ++q)
      for (int i = 0; i < kBlockRows; ++i) space.shares[q][i] = 0;
    for (int tree = 0; tree < task.n_trees; tree += together)
      add_trees(task, codes, space, tile, tree, tree + together < task.n_trees ? tree + together : task.n_trees);
    for (int q = 0; q < kTileQueries && tile + q < n; ++q) {
      const int64_t query = first + tile + q;
      uint16_t* shares = space.shares[q];
      for (int64_t i = task.n_rows - row; i < kBlockRows; ++i) shares[i] = 0;
      const int64_t own = task.first_own < 0 ? -1 : task.first_own + query - row;
      if (own >= 0 && own < kBlockRows) shares[own] = 0;
      if (task.nearest)
        keep_nearest(task, query, row, shares);
      else
        add_squares(task, query, row, shares);
    }
  }
}

template <class Code>
void find_all(const ShareTask& task) {
  const int64_t n_blocks = (task.n_rows + kBlockRows - 1) / kBlockRows;
  share_out(task.team, (task.n_queries + kTaskQueries - 1) / kTaskQueries, [&](int64_t at, int32_t thread) {
    const Space<Code> space(task, task.workspace + thread * task.workspace_size);
    const int64_t first = at * kTaskQueries;
    const int n = int(task.n_queries - first < kTaskQueries ? task.n_queries - first : kTaskQueries);
    for (int q = 0; q < kTaskQueries; ++q) {
      const int32_t* positions = task.positions + (first + (q < n ? q : 0)) * task.n_trees;
      for (int tree = 0; tree < task.n_trees; ++tree) space.of(q)[tree] = Code(positions[tree] - task.first_leaf[tree]);
    }
    for (int64_t block = 0; block < n_blocks; ++block) pass_block<Code>(task, space, block, first, n);
  });
}

void find(const ShareTask& task) {
  if (task.code_bytes == 1)
    find_all<uint8_t>(task);
  else
    find_all<uint16_t>(task);
}

}  // namespace
const ShareKernels GLASSWOOD_KERNELS = {workspace, find};
}  // namespace glasswood
