// The order of neighbours: larger shares first, of equal ones the row that comes first.
#pragma once
#include "common/lanes.h"

namespace glasswood {
namespace {

GLASSWOOD_INLINE uint64_t key_of(uint32_t share, int64_t row) {
  return uint64_t(share) << 32 | (0xffffffffu - uint32_t(row));
}
GLASSWOOD_INLINE int32_t share_of(uint64_t key) { return int32_t(key >> 32); }
GLASSWOOD_INLINE int32_t row_of(uint64_t key) { return key ? int32_t(0xffffffffu - uint32_t(key)) : -1; }

// Puts a key into a falling list that is full, if it is larger than the last.
GLASSWOOD_INLINE void insert(uint64_t* keys, int32_t n, uint64_t key) {
  if (key <= keys[n - 1]) return;
  int32_t at = n - 1;
  for (; at > 0 && keys[at - 1] < key; --at) keys[at] = keys[at - 1];
  keys[at] = key;
}

}  // namespace
}  // namespace glasswood
