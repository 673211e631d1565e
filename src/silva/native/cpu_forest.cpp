// Bindings of forest.h.
#include "bindings.h"
#include "forest.h"

namespace silva {

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

}  // namespace silva
