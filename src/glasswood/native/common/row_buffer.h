// One row in the memory of a Python object.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "common/bindings.h"

namespace glasswood {

// What a Python buffer says of a row. Values with strides are copied.
struct RowBuffer {
  Py_buffer view;
  bool is_double;
  const void* values;

  // `batches`: what takes several rows.
  RowBuffer(nb::handle row, int64_t n_features, const char* batches = "Forest.predict") {
    if (PyObject_GetBuffer(row.ptr(), &view, PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0) {
      PyErr_Clear();
      const std::string type = nb::cast<std::string>(nb::str(row.type().attr("__name__")));
      throw nb::type_error(("the row is a " + type +
                            ", expected a float32 or float64 array of its values, as numpy.asarray makes; "
                            "names=True accepts rows by name")
                               .c_str());
    }
    const std::string format = view.format ? view.format : "B";
    is_double = format == "d";
    const int64_t n = view.len / view.itemsize;
    if (is_double || format == "f") {
      if (n == n_features) {
        keep_values();
        return;
      }
      PyBuffer_Release(&view);
      throw nb::value_error(("the row has " + std::to_string(n) + " values, expected " + std::to_string(n_features) +
                             "; pass several rows to " + batches)
                                .c_str());
    }
    const std::string held = type_name(format, view.itemsize);
    PyBuffer_Release(&view);
    throw nb::type_error(
        ("the row holds " + held +
         ", expected float32 or float64; cast it, or use names=True, which accepts texts of categories")
            .c_str());
  }
  ~RowBuffer() { PyBuffer_Release(&view); }
  RowBuffer(const RowBuffer&) = delete;
  RowBuffer& operator=(const RowBuffer&) = delete;

 private:
  std::vector<char> copied_;

  // NumPy's name of what struct writes as one letter, whose size depends on the platform.
  static std::string type_name(const std::string& format, int64_t n_bytes) {
    const std::string bits = std::to_string(8 * n_bytes);
    const char letter = format.size() == 1 ? format[0] : ' ';
    if (std::strchr("bhilq", letter)) return "int" + bits;
    if (std::strchr("BHILQ", letter)) return "uint" + bits;
    if (letter == 'e') return "float16";
    if (letter == '?') return "bool";
    if (letter == 'O') return "objects";
    return "'" + format + "' (struct's code)";
  }

  void keep_values() {
    values = view.buf;
    if (PyBuffer_IsContiguous(&view, 'C')) return;
    copied_.resize(view.len);
    PyBuffer_ToContiguous(copied_.data(), &view, view.len, 'C');
    values = copied_.data();
  }
};

}  // namespace glasswood
