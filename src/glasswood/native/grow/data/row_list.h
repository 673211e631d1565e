// Lists of rows that are written before they are read.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace glasswood {

// An allocator whose resize() leaves new numbers unset: lists grow to the size of the data and shrink again for every
// leaf.
template <class T>
struct Unset : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Unset<U>;
  };
  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
  }
};

using RowList = std::vector<int32_t, Unset<int32_t>>;

}  // namespace glasswood
