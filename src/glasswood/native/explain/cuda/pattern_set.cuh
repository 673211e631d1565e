// The set of a row at a leaf: bits of the positions whose conditions it does not meet.
//
// Macros: WORDS (of a set), CODE.
#pragma once
#include "explain/cuda/pattern_format.h"

namespace glasswood {

constexpr int UNROLLED = WORDS <= 4 ? WORDS : 1;  // words in registers; more take minutes to compile

struct PatternSet {
  unsigned word[WORDS];

  __device__ __forceinline__ void add(int position, bool is_in) {
#pragma unroll UNROLLED
    for (int w = 0; w < WORDS; ++w)
      if (WORDS == 1 || position / 32 == w) word[w] |= unsigned(is_in) << position % 32;
  }
  __device__ __forceinline__ bool shares_any(const PatternSet& other) const {
    unsigned shared = 0;
#pragma unroll UNROLLED
    for (int w = 0; w < WORDS; ++w) shared |= word[w] & other.word[w];
    return shared != 0;
  }
  __device__ __forceinline__ int size() const {
    int result = 0;
#pragma unroll UNROLLED
    for (int w = 0; w < WORDS; ++w) result += __popc(word[w]);
    return result;
  }
  // That of another lane.
  __device__ __forceinline__ PatternSet of_lane(int lane) const {
    PatternSet result;
#pragma unroll UNROLLED
    for (int w = 0; w < WORDS; ++w) result.word[w] = __shfl_sync(0xffffffffu, word[w], lane);
    return result;
  }
};

// `codes` are those of the row's column 0.
__device__ __forceinline__ PatternSet find_set(const PatternLeaf& leaf, const PatternTest* __restrict__ tests,
                                               const CODE* __restrict__ codes, long long stride) {
  PatternSet result = {};
  for (int at = leaf.first_test; at < leaf.end_test; ++at) {
    const PatternTest test = tests[at];
    result.add(test.position, unsigned(codes[test.column * stride]) - unsigned(test.lower) >= test.width);
  }
  return result;
}

}  // namespace glasswood
