// Texts of categories: the numbers that CatBoost makes of them, and columns of Python objects as codes.
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <cstring>
#include <limits>
#include <string_view>

#include "common/bindings.h"

namespace glasswood {
namespace {

// CityHash64, version 1.0 (Pike and Alakuijala, CityHash, Google 2011).
constexpr uint64_t kK0 = 0xC3A5C85C97CB3127, kK1 = 0xB492B66FBE98F273, kK2 = 0x9AE16A3B2F90404F,
                   kK3 = 0xC949D7C7509E6557, kMix = 0x9DDFEA08EB382D69;

template <class Word = uint64_t>
uint64_t word_at(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

uint64_t shift_mix(uint64_t x) { return x ^ x >> 47; }

// The hash of 16 bytes, which every other length ends in.
uint64_t join(uint64_t low, uint64_t high) {
  const uint64_t a = shift_mix((low ^ high) * kMix);
  return shift_mix((high ^ a) * kMix) * kMix;
}

uint64_t hash_up_to_16(std::string_view text) {
  const uint64_t n = text.size();
  const char *begin = text.data(), *end = begin + n;
  if (n > 8) {
    const uint64_t a = word_at(begin), b = word_at(end - 8);
    return join(a, std::rotr(b + n, int(n))) ^ b;
  }
  if (n >= 4) return join(n + (word_at<uint32_t>(begin) << 3), word_at<uint32_t>(end - 4));
  if (n == 0) return kK2;
  const auto byte = [&](size_t at) { return uint64_t(uint8_t(text[at])); };
  const uint64_t y = byte(0) + (byte(n >> 1) << 8), z = n + (byte(n - 1) << 2);
  return shift_mix(y * kK2 ^ z * kK3) * kK2;
}

uint64_t hash_up_to_32(std::string_view text) {
  const uint64_t n = text.size();
  const char *begin = text.data(), *end = begin + n;
  const uint64_t a = word_at(begin) * kK1, b = word_at(begin + 8), c = word_at(end - 8) * kK2,
                 d = word_at(end - 16) * kK0;
  return join(std::rotr(a - b, 43) + std::rotr(c, 30) + d, a + std::rotr(b ^ kK3, 20) - c + n);
}

struct Pair {
  uint64_t first, second;
};

// One half of 33 to 64 bytes; both parts are sums of words and rotations.
Pair half(uint64_t a, const char* words, uint64_t z) {
  uint64_t b = std::rotr(a + z, 52), c = std::rotr(a, 37);
  a += word_at(words);
  c += std::rotr(a, 7);
  a += word_at(words + 8);
  return {a + word_at(words + 16), b + std::rotr(a, 31) + c};
}

uint64_t hash_up_to_64(std::string_view text) {
  const uint64_t n = text.size();
  const char *begin = text.data(), *end = begin + n;
  const Pair v = half(word_at(begin) + (n + word_at(end - 16)) * kK0, begin + 8, word_at(begin + 24));
  const Pair w = half(word_at(begin + 16) + word_at(end - 32), end - 24, word_at(end - 8));
  const uint64_t r = shift_mix((v.first + w.second) * kK2 + (w.first + v.second) * kK0);
  return shift_mix(r * kK0 + v.second) * kK2;
}

// 32 bytes into two seeds.
Pair weak(const char* at, uint64_t a, uint64_t b) {
  const uint64_t w = word_at(at), x = word_at(at + 8), y = word_at(at + 16), z = word_at(at + 24);
  a += w;
  b = std::rotr(b + a + z, 21);
  const uint64_t c = a;
  a += x + y;
  return {a + z, b + std::rotr(a, 44) + c};
}

uint64_t hash_beyond_64(std::string_view text) {
  const uint64_t n = text.size();
  const char *begin = text.data(), *end = begin + n;
  uint64_t x = word_at(begin), y = word_at(end - 16) ^ kK1, z = word_at(end - 56) ^ kK0;
  Pair v = weak(end - 64, n, y), w = weak(end - 32, n * kK1, kK0);
  z += shift_mix(v.second) * kK1;
  x = std::rotr(z + x, 39) * kK1;
  y = std::rotr(y, 33) * kK1;
  for (const char* at = begin; at < begin + (n - 1) / 64 * 64; at += 64) {
    x = std::rotr(x + y + v.first + word_at(at + 16), 37) * kK1;
    y = std::rotr(y + v.second + word_at(at + 48), 42) * kK1;
    x ^= w.second;
    y ^= v.first;
    z = std::rotr(z ^ w.first, 33);
    v = weak(at, v.second * kK1, x + w.first);
    w = weak(at + 32, z + w.second, y);
    std::swap(z, x);
  }
  return join(join(v.first, w.first) + shift_mix(y) * kK1 + z, join(v.second, w.second) + x);
}

uint64_t city_hash64(std::string_view text) {
  if (text.size() <= 16) return hash_up_to_16(text);
  if (text.size() <= 32) return hash_up_to_32(text);
  return text.size() <= 64 ? hash_up_to_64(text) : hash_beyond_64(text);
}

nb::object category_hashes(const std::vector<std::string_view>& texts) {
  std::vector<int64_t> hashes;
  for (const std::string_view text : texts) hashes.push_back(int64_t(city_hash64(text) & 0xffffffff));
  return nb::cast(to_numpy(std::move(hashes)));
}

// Objects of Python as codes of those that equal each other; those that were seen before are known by their address.
class ObjectCodes {
 public:
  std::vector<int64_t> codes;
  nb::list values;

  explicit ObjectCodes(int64_t n) : slots_(kFewest) { codes.reserve(n); }

  void add(PyObject* object) {
    uint64_t at = start(object);
    while (slots_[at].object && slots_[at].object != object) at = (at + 1) & (slots_.size() - 1);
    if (!slots_[at].object) {
      slots_[at] = {object, code_of(object)};
      codes.push_back(slots_[at].code);
      if (2 * ++n_seen_ > int64_t(slots_.size())) grow();
      return;
    }
    codes.push_back(slots_[at].code);
  }

 private:
  static constexpr int64_t kFewest = 256;
  struct Slot {
    PyObject* object = nullptr;
    int64_t code = 0;
  };
  std::vector<Slot> slots_;
  int64_t n_seen_ = 0;
  nb::dict known_;

  uint64_t start(PyObject* object) const { return (uint64_t(uintptr_t(object)) * kMix >> 32) & (slots_.size() - 1); }

  void grow() {
    std::vector<Slot> before(2 * slots_.size());
    before.swap(slots_);
    for (const Slot& slot : before) {
      if (!slot.object) continue;
      uint64_t at = start(slot.object);
      while (slots_[at].object) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  int64_t code_of(PyObject* object) {
    if (!PyUnicode_Check(object) && is_missing(object)) return -1;
    PyObject* found = PyDict_GetItemWithError(known_.ptr(), object);
    if (found) return PyLong_AsLongLong(found);
    if (PyErr_Occurred()) nb::raise_python_error();
    const int64_t code = int64_t(nb::len(values));
    known_[nb::borrow(object)] = code;
    values.append(nb::borrow(object));
    return code;
  }

  static bool is_missing(PyObject* object) {
    if (object == Py_None) return true;
    const std::string_view type = nb::type_name(nb::handle(object).type()).c_str();
    if (type.ends_with("NAType") || type.ends_with("NaTType")) return true;
    const nb::object differs = nb::steal(PyObject_RichCompare(object, object, Py_NE));
    if (!differs.is_valid()) nb::raise_python_error();
    const int truth = PyObject_IsTrue(differs.ptr());
    if (truth < 0) nb::raise_python_error();
    return truth;
  }
};

// A one-dimensional array of objects.
class Objects {
 public:
  explicit Objects(nb::handle array) {
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0) nb::raise_python_error();
    if (view_.ndim == 1 && view_.format && std::string_view(view_.format) == "O") return;
    PyBuffer_Release(&view_);
    throw nb::type_error("expected a one-dimensional array of objects");
  }
  ~Objects() { PyBuffer_Release(&view_); }
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  int64_t size() const { return view_.shape[0]; }
  PyObject* operator[](int64_t i) const {
    return *reinterpret_cast<PyObject* const*>(static_cast<const char*>(view_.buf) + i * view_.strides[0]);
  }

 private:
  Py_buffer view_;
};

// (codes, values), -1 where there is none; None where no object is a text.
nb::object object_codes(nb::handle array) {
  const Objects objects(array);
  int64_t first_text = 0;
  while (first_text < objects.size() && !PyUnicode_Check(objects[first_text])) ++first_text;
  if (first_text == objects.size()) return nb::none();
  ObjectCodes found(objects.size());
  for (int64_t i = 0; i < objects.size(); ++i) found.add(objects[i]);
  return nb::make_tuple(to_numpy(std::move(found.codes)), found.values);
}

// Numbers of Python, NaN in place of None; None where there are other objects, or a number is beyond float64.
nb::object object_floats(nb::handle array) {
  const Objects objects(array);
  std::vector<double> floats;
  floats.reserve(objects.size());
  for (int64_t i = 0; i < objects.size(); ++i) {
    PyObject* object = objects[i];
    if (PyFloat_Check(object)) {
      floats.push_back(PyFloat_AsDouble(object));
    } else if (PyLong_Check(object)) {
      floats.push_back(PyLong_AsDouble(object));
      if (floats.back() == -1 && PyErr_Occurred()) return PyErr_Clear(), nb::none();
    } else if (object == Py_None) {
      floats.push_back(std::numeric_limits<double>::quiet_NaN());
    } else {
      return nb::none();
    }
  }
  return nb::cast(to_numpy(std::move(floats)));
}

}  // namespace

void bind_categories(nb::module_& module) {
  module.def("category_hashes", &category_hashes, nb::arg("texts"),
             "Lower 32 bits of each text's CityHash64, as CatBoost has them: int64.");
  module.def("object_floats", &object_floats, nb::arg("array"),
             "Numbers of Python as float64, NaN in place of None; None where there are other objects.");
  module.def("object_codes", &object_codes, nb::arg("array"),
             "Codes and values of objects, -1 where there is none; None if no object is a text.");
}

}  // namespace glasswood
