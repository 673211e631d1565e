// What a user may set of the search.
#pragma once
#include <cstddef>
#include <cstdint>

namespace glasswood {

// Rates of the operators within their group: crossovers; mutations of a split; mutations of a leaf.
struct OperatorRates {
  double swap_subtrees = 1, swap_splits = 1, swap_branches = 1, copy_better = 1;
  double new_split = 1, shift_threshold = 1, prune = 0.5, search_threshold = 0.1;
  double expand = 1, change_model = 1;
};

struct PolishMoves {
  bool models = true;      // backward elimination in every leaf
  bool variants = true;    // prune every node, promote its children
  bool thresholds = true;  // best threshold of every split
  bool splits = true;      // best split of every leaf
  bool pull_ups = true;    // a split from below takes the node's place
  bool rotations = true;   // the same, children promoted below it
};

struct GrowSettings {
  uint64_t seed = 0;
  int population = 64;
  double crossover = 0.2, mutation = 0.8;
  int polish_interval = 5;  // generations; 0: never
  int polish_random = 1;    // random trees polished beside the best one
  int n_threads = 1;
  bool by_qr = false;  // the paper's evaluation
  size_t cache_bytes = 0;
  double margin = 0;  // part of the error by which trees that are kept may exceed the best one; 0: none are kept
  OperatorRates rates;
  PolishMoves moves;
};

}  // namespace glasswood
