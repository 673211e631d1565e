// Sparse rows to dense ones, in the columns that a forest uses (glasswood/inputs/sparse.py).
#include "common/bindings.h"

namespace glasswood {
namespace {

template <class T>
using Values = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Dense = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// starts: of the rows' entries; place: of a column among the dense ones, -1 elsewhere.
template <class Index, class Real>
void spread_rows(const Values<Index>& starts, const Values<Index>& columns, const Values<Real>& values,
                 const Values<int32_t>& place, const Dense<Real>& out) {
  const int64_t n_rows = int64_t(out.shape(0)), width = int64_t(out.shape(1)), n_columns = int64_t(place.shape(0));
  const int64_t n_entries = int64_t(std::min(columns.shape(0), values.shape(0)));
  if (int64_t(starts.shape(0)) != n_rows + 1) throw nb::value_error("there are more or fewer rows than results");
  Real* row = out.data();
  for (int64_t i = 0; i < n_rows; ++i, row += width)
    for (int64_t at = std::max<int64_t>(starts.data()[i], 0); at < std::min<int64_t>(starts.data()[i + 1], n_entries);
         ++at) {
      const int64_t column = columns.data()[at];
      if (column < 0 || column >= n_columns) throw nb::value_error("an entry lies beyond the columns");
      const int32_t to = place.data()[column];
      if (to >= 0 && to < width) row[to] = values.data()[at];
    }
}

template <class Index, class Real>
void bind_spread(nb::module_& module) {
  module.def("spread_rows", &spread_rows<Index, Real>, nb::arg("starts"), nb::arg("columns"), nb::arg("values"),
             nb::arg("place"), nb::arg("out"));
}

}  // namespace

void bind_sparse(nb::module_& module) {
  bind_spread<int32_t, float>(module);
  bind_spread<int32_t, double>(module);
  bind_spread<int64_t, float>(module);
  bind_spread<int64_t, double>(module);
}

}  // namespace glasswood
