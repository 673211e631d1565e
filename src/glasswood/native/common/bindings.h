// What the files with Python bindings share.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <vector>

#include "common/forest_view.h"
#include "common/interpreter.h"

namespace glasswood {
namespace nb = nanobind;

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> view(const Vector<T>& array) {
  return {array.data(), array.size()};
}

// An array in an attribute of an object, which outlives the view. Without conversion: a converted copy would die first.
template <class T>
std::span<const T> field(nb::handle object, const char* name) {
  return view(nb::cast<Vector<T>>(attribute(object, name), false));
}

// A vector that lives as long as NumPy holds its memory.
template <class Values>
std::pair<Values*, nb::capsule> keep(Values&& values) {
  auto* kept = new Values(std::move(values));
  return {kept, nb::capsule(kept, [](void* p) noexcept { delete static_cast<Values*>(p); })};
}

// A NumPy array that owns the vector's memory.
template <class T, class Allocator>
nb::ndarray<nb::numpy, T, nb::ndim<1>> to_numpy(std::vector<T, Allocator>&& values) {
  const auto [kept, owner] = keep(std::move(values));
  return {kept->data(), {kept->size()}, owner};
}

// The same of records, as bytes: a line each.
template <class Record, class Allocator>
nb::ndarray<nb::numpy, uint8_t, nb::ndim<2>> to_bytes(std::vector<Record, Allocator>&& records) {
  const auto [kept, owner] = keep(std::move(records));
  return {reinterpret_cast<uint8_t*>(kept->data()), {kept->size(), sizeof(Record)}, owner};
}

// The field of a type that lies `offset` bytes into a struct. Fields of one type share their code, which takes as long
// to compile as the rest of a file with dozens of them.
template <class Value, class Struct>
void bind_field_at(nb::class_<Struct>& bound, const char* name, ptrdiff_t bytes) {
  bound.def_prop_rw(
      name,
      [bytes](const Struct& of) -> Value {
        return *reinterpret_cast<const Value*>(reinterpret_cast<const char*>(&of) + bytes);
      },
      [bytes](Struct& of, const Value& value) {
        *reinterpret_cast<Value*>(reinterpret_cast<char*>(&of) + bytes) = value;
      });
}

// A field of a bound struct, or of a struct within it: bind_field<&Outer::inner, &Inner::field>(bound, name).
template <auto... path, class Struct>
void bind_field(nb::class_<Struct>& bound, const char* name) {
  using Value = std::remove_cvref_t<decltype((std::declval<Struct&>().*....*path))>;
  const Struct of{};
  const auto* field = &(of.*....*path);
  bind_field_at<Value>(bound, name, reinterpret_cast<const char*>(field) - reinterpret_cast<const char*>(&of));
}

// The arrays stay owned by the Forest, which outlives the view.
ForestView view_of(nb::handle forest);

// Rows with any strides; rows_of takes float32 and float64.
using RowMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
RowSource rows_of(const RowMatrix& rows, int32_t n_features);

}  // namespace glasswood
