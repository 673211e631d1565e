// A forest for explain/cuda/tape.h and explain/cuda/paths/paths.h, as NumPy arrays.
#pragma once
#include "common/bindings.h"
#include "explain/cuda/tape.h"

namespace silva {

// Arrays of a silva.Forest beside the ranks of its tests (silva.cuda.codes).
struct ForestArrays {
  Vector<int64_t> offsets, leaf_offsets;
  Vector<int32_t> feature, left, column, rank;
  Vector<double> cover, leaf_value, tree_weight;
  int64_t n_features;

  TapeForest tape_forest() const {
    const int64_t n_leaves = std::max<int64_t>(1, view(leaf_offsets).back());
    return {view(offsets),      view(feature),     view(left),       view(cover),
            view(column),       view(rank),        view(leaf_value), int64_t(leaf_value.size()) / n_leaves,
            view(leaf_offsets), view(tree_weight), n_features};
  }
};

}  // namespace silva
