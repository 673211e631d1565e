// Memory of one thread, handed out in 64-byte aligned pieces. With a null start it only counts.
#pragma once
#include <cstdint>

namespace glasswood {
namespace {

struct Arena {
  char* start;
  int64_t offset = 0;
  template <class T>
  T* take(int64_t n) {
    const int64_t at = offset;
    offset += (n * int64_t(sizeof(T)) + 63) / 64 * 64;
    return start ? reinterpret_cast<T*>(start + at) : nullptr;
  }
  int64_t used() const { return offset; }
};

}  // namespace
}  // namespace glasswood
