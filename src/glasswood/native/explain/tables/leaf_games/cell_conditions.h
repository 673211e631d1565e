// Which of a leaf's conditions the cells of a subtree do not meet: a plan keeps the bits of each feature's states, from
// which those of the cells, often ten times as many, are multiplied out.
#pragma once
#include <cstdint>

namespace glasswood {
namespace {

// The bits of a cell are those of its features' states together. `of_state` has the states of one feature behind those
// of the other, `n_states` their numbers; the first feature's states are next to each other in `cells`.
inline void multiply_out(const uint16_t* of_state, const uint16_t* n_states, int n_features, uint16_t* cells) {
  int n_cells = 1;
  cells[0] = 0;
  for (int f = 0; f < n_features; of_state += n_states[f++]) {
    for (int s = n_states[f] - 1; s >= 0; --s) {
      uint16_t* to = cells + s * n_cells;
      const uint16_t bit = of_state[s];
#pragma GCC ivdep
      for (int i = 0; i < n_cells; ++i) to[i] = uint16_t(cells[i] | bit);
    }
    n_cells *= n_states[f];
  }
}

// The same of as many leaves as a vector has lanes, [cell][leaf]; `of_state` is by leaf.
constexpr int kLeafLanes = 8;
typedef uint16_t LeafBits __attribute__((vector_size(kLeafLanes * sizeof(uint16_t)), may_alias));

inline void multiply_out(const uint16_t* const (&of_state)[kLeafLanes], const uint16_t* n_states, int n_features,
                         LeafBits* cells) {
  int n_cells = 1, first = 0;
  cells[0] = LeafBits{};
  for (int f = 0; f < n_features; first += n_states[f++]) {
    for (int s = n_states[f] - 1; s >= 0; --s) {
      LeafBits bits, *to = cells + s * n_cells;
      for (int i = 0; i < kLeafLanes; ++i) bits[i] = of_state[i][first + s];
#pragma GCC ivdep
      for (int i = 0; i < n_cells; ++i) to[i] = cells[i] | bits;
    }
    n_cells *= n_states[f];
  }
}

}  // namespace
}  // namespace glasswood
