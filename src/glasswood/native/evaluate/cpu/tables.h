// Which leaf a row reaches: the forest's nodes as tables, and one step of the walk over lanes.
#pragma once
#include "evaluate/cpu/task.h"

namespace glasswood {

// A node's second word: the left child (Packed), the side of missing values, whether the split is categorical, and the
// feature. Packed trees have at most 2^16 nodes and 2^14 features; others keep the child in a table of its own.
template <bool Packed>
struct NodeWord {
  static constexpr int kFeatureBits = Packed ? 14 : 30;
  static constexpr int32_t kFeature = (int32_t(1) << kFeatureBits) - 1;
  static constexpr int kCategoricalBit = kFeatureBits;
  static constexpr int kDefaultRightBit = kFeatureBits + 1;
  static constexpr int kLeftBit = 16;
};

// A node in one piece of memory: a row alone finds most of a large forest outside the cache, and pays by the line.
struct EvaluateNode {
  float threshold;  // NaN: every number goes left; a categorical split: bits of its first word
  int32_t word;     // NodeWord
};

// The first levels of a tree, filled up to a complete one: a leaf above their end sends everything left.
constexpr int kTopLevels = 4, kTopSplits = (1 << kTopLevels) - 1, kTopExits = 1 << kTopLevels;

// Nodes of all trees, breadth-first. A leaf is its own left child behind a threshold that nothing fails, so that rows
// may step on from it.
struct EvaluateTables {
  const EvaluateNode* node;
  const int32_t* left;                 // tree-local, only if the words are not packed
  const EvaluateNode* top;             // [tree][kTopSplits]
  const int32_t* exit;                 // [tree][kTopExits]: tree-local node
  const double* value;                 // [node][width], times the tree's weight; 0 at splits
  const int32_t* leaf_id;              // [node]
  const int32_t* leaf_place;           // [node], of linear leaves: number among all leaves
  const int32_t* tree_first;           // [tree + 1]
  const int32_t* tree_depth;           // [tree]
  const int32_t* tree_output;          // [tree]
  const uint8_t* tree_is_categorical;  // [tree]
  const double* base_score;            // [output]
  const uint32_t* words;               // of categorical splits (common/category_classes.h)
  const int32_t* class_words;          // [feature]: words of a split
  int32_t n_trees, n_outputs, width, packed;
};

GLASSWOOD_INLINE uint32_t first_word(float threshold) {
  uint32_t first;
  __builtin_memcpy(&first, &threshold, sizeof first);
  return first;
}

// Whether rows of these classes go right, in lanes: of few words each lane shifts all, of more each reads its own.
template <class L>
GLASSWOOD_INLINE typename L::Mask classes_go_right(const uint32_t* words, int n_words, typename L::Value x) {
  constexpr int kFewWords = 4;
  if (n_words > kFewWords) {
    typename L::Mask result;
    for (int lane = 0; lane < L::width; ++lane)
      L::set(result, lane, class_goes_right(words, uint32_t(int(L::lane(x, lane)))));
    return result;
  }
  const typename L::Mask c = __builtin_convertvector(x, typename L::Mask), bit = c & 31, word = c >> 5;
  typename L::Mask result = L::uniform(false) + int32_t(words[0]);
  for (int i = 1; i < n_words; ++i) result = L::choose(word == i, L::uniform(false) + int32_t(words[i]), result);
  return -(result >> bit & 1);
}

// The nodes of one tree, to walk alone.
struct EvaluateTree {
  const EvaluateNode* node;
  const int32_t* left;
};

GLASSWOOD_INLINE EvaluateTree tree_at(const EvaluateTables& forest, int tree) {
  const int64_t first = forest.tree_first[tree];
  return {forest.node + first, forest.packed ? nullptr : forest.left + first};
}

// The next node of one row. row(feature) is its value.
template <bool Packed, bool Missing, bool Categorical, class Row>
GLASSWOOD_INLINE uint32_t step(const EvaluateTables& forest, const EvaluateTree& tree, uint32_t at, const Row& row) {
  using Word = NodeWord<Packed>;
  const EvaluateNode node = tree.node[at];
  const float x = row(uint32_t(node.word) & uint32_t(Word::kFeature));
  uint32_t right = x >= node.threshold;
  // Without a branch, which would be mispredicted where numbers and categories alternate.
  if constexpr (Categorical) {
    const uint32_t is_class = -(uint32_t(node.word) >> Word::kCategoricalBit & 1);
    const uint32_t at_class =
        class_goes_right(forest.words + (first_word(node.threshold) & is_class), uint32_t(int(x)) & is_class);
    right = is_class ? at_class : right;
  }
  if constexpr (Missing) right = x != x ? uint32_t(node.word) >> Word::kDefaultRightBit & 1 : right;
  if constexpr (Packed)
    return (uint32_t(node.word) >> Word::kLeftBit) + right;
  else
    return uint32_t(tree.left[at]) + right;
}

// Which exit of the tree's first levels each lane takes. All their splits are decided at once: a split reads one
// feature of neighbouring rows, which costs a load, where a row's own split would cost a gather (13 ns for 16 lanes on
// a processor that guards gathers against data sampling, the time of ten splits here).
template <class L, bool Packed, bool Missing, bool Categorical, class Rows>
GLASSWOOD_INLINE typename L::Mask top_exit(const EvaluateTables& forest, int tree, const Rows& rows) {
  using Word = NodeWord<Packed>;
  const EvaluateNode* top = forest.top + int64_t(tree) * kTopSplits;
  typename L::Mask left[kTopSplits];
  GLASSWOOD_UNROLL
  for (int split = 0; split < kTopSplits; ++split) {
    const EvaluateNode node = top[split];
    const typename L::Value x = rows(node.word & Word::kFeature);
    left[split] = L::below(x, node.threshold);
    if constexpr (Categorical)
      if ((node.word >> Word::kCategoricalBit) & 1)
        left[split] = ~classes_go_right<L>(forest.words + first_word(node.threshold),
                                           forest.class_words[node.word & Word::kFeature], x);
    if constexpr (Missing)
      left[split] = L::choose(L::missing(x), L::uniform(!((node.word >> Word::kDefaultRightBit) & 1)), left[split]);
  }
  // A decision keeps the half of each level below that lies on its side, at the level's beginning.
  typename L::Mask exit = L::uniform(false) + (kTopExits - 1);
  GLASSWOOD_UNROLL
  for (int level = 0; level < kTopLevels; ++level) {
    const typename L::Mask here = left[(1 << level) - 1];
    exit += here * (1 << (kTopLevels - 1 - level));
    GLASSWOOD_UNROLL
    for (int below = level + 1; below < kTopLevels; ++below) {
      const int from = (1 << below) - 1, half = 1 << (below - level - 1);
      GLASSWOOD_UNROLL
      for (int i = 0; i < half; ++i) left[from + i] = L::choose(here, left[from + i], left[from + half + i]);
    }
  }
  return exit;
}

struct EvaluateTask : RowsTask {
  EvaluateTables forest;
  int32_t serial;  // 1: row by row, scalar, on one thread
  int32_t any_categorical;
  int32_t tiles_together;  // of rows, 1 to max_tiles
};

struct EvaluateKernels {
  int32_t row_tile;   // rows that a thread walks through a tree at once
  int32_t max_tiles;  // row tiles that a thread may evaluate together
  int64_t (*workspace)(const EvaluateTask&);
  void (*evaluate)(const EvaluateTask&);
};

const EvaluateKernels& evaluate_kernels();

}  // namespace glasswood
