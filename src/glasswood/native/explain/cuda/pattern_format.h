// What explain/cuda/collect_patterns.cu and explain_patterns.cu read of leaves; pattern_tape.h writes it.
#pragma once

namespace glasswood {

struct alignas(16) PatternLeaf {
  int first_test, end_test;
  int first_place, n_positions;
};

// A row meets a test if lower <= code(column) < lower + width. The position is that of its feature's player.
struct alignas(16) PatternTest {
  int column, lower;
  unsigned width;
  int position;
};

}  // namespace glasswood
