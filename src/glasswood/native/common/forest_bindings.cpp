// Bindings of common/forest.h.
#include "common/bindings.h"
#include "common/forest.h"

namespace glasswood {

static std::vector<double> thresholds_of(nb::handle forest, bool row_is_double) {
  if (row_is_double) {
    const auto values = field<double>(forest, "threshold");
    return {values.begin(), values.end()};
  }
  const auto values = field<float>(forest, "threshold");
  return {values.begin(), values.end()};
}

ForestView view_of(nb::handle forest) {
  using Leaves = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  const auto leaf_value = nb::cast<Leaves>(attribute(forest, "leaf_value"), false);
  const auto leaf_range = nb::cast<Leaves>(attribute(forest, "leaf_range"), false);
  const bool row_is_double =
      nb::cast<int>(attribute(attribute(forest, "threshold"), "itemsize")) == int(sizeof(double));
  return {
      field<int64_t>(forest, "tree_offsets"),
      field<int32_t>(forest, "feature"),
      thresholds_of(forest, row_is_double),
      field<int32_t>(forest, "left"),
      field<bool>(forest, "default_left"),
      field<double>(forest, "cover"),
      {leaf_value.data(), leaf_value.size()},
      field<int32_t>(forest, "leaf_id"),
      field<int32_t>(forest, "tree_output"),
      field<double>(forest, "tree_weight"),
      field<double>(forest, "base_score"),
      field<int32_t>(forest, "category_set"),
      field<int64_t>(forest, "set_offsets"),
      field<uint32_t>(forest, "set_words"),
      field<bool>(forest, "set_others_left"),
      field<bool>(forest, "zero_missing"),
      field<int64_t>(forest, "linear_offsets"),
      field<int32_t>(forest, "linear_feature"),
      field<int32_t>(forest, "linear_category"),
      field<double>(forest, "linear_coefficient"),
      field<double>(forest, "linear_mean"),
      {leaf_range.data(), leaf_range.size()},
      field<double>(forest, "leaf_missing"),
      nb::cast<double>(attribute(forest, "zero_threshold")),
      nb::cast<int32_t>(attribute(forest, "n_features")),
      int32_t(leaf_value.shape(1)),
      row_is_double,
  };
}

RowSource rows_of(const RowMatrix& matrix, int32_t n_features) {
  const bool is_double = matrix.dtype() == nb::dtype<double>();
  if (!is_double && matrix.dtype() != nb::dtype<float>()) throw nb::type_error("X must be float32 or float64");
  if (int64_t(matrix.shape(1)) != n_features) throw nb::value_error("X has the wrong number of columns");
  return {matrix.data(), int64_t(matrix.shape(0)), matrix.stride(0), matrix.stride(1), is_double};
}

static nb::tuple breadth_first_binding(Vector<int64_t> offsets, Vector<int32_t> left, Vector<int32_t> right) {
  BreadthFirst result = breadth_first(view(offsets), view(left), view(right));
  return nb::make_tuple(to_numpy(std::move(result.offsets)), to_numpy(std::move(result.order)),
                        to_numpy(std::move(result.left)));
}

void bind_forest(nb::module_& module) {
  module.def("breadth_first", &breadth_first_binding, nb::arg("offsets"), nb::arg("left"), nb::arg("right"),
             "Breadth-first order of trees: (offsets, old index of each node, left children).");
  module.def(
      "node_depth",
      [](Vector<int64_t> offsets, Vector<int32_t> left) { return to_numpy(node_depth(view(offsets), view(left))); },
      nb::arg("offsets"), nb::arg("left"), "Number of splits above each node.");
}

}  // namespace glasswood
