// Bindings of explain/cuda/tape.h.
#include "common/bindings.h"
#include "explain/cuda/tape_arrays.h"

namespace silva {
namespace {

struct PlanArrays {
  Vector<int32_t> tree, component, output, begin, end;
  Vector<int64_t> chunk_offsets;
  Vector<double> t, w;
  int64_t n_points;
  bool pairs;
  Vector<uint8_t> selected;

  TapePlan plan() const {
    return {view(tree), view(component), view(output), view(begin), view(end),     view(chunk_offsets),
            view(t),    view(w),         n_points,     pairs,       view(selected)};
  }
};

nb::dict to_dict(Tape&& tape) {
  nb::dict result;
  result["n_levels"] = tape.n_levels;
  result["n_tracks"] = tape.n_tracks;
  result["n_slots"] = tape.n_slots;
  result["words"] = to_numpy(std::move(tape.words));
  result["chunk_starts"] = to_numpy(std::move(tape.chunk_starts));
  result["slot_offsets"] = to_numpy(std::move(tape.slot_offsets));
  result["slot_keys"] = to_numpy(std::move(tape.slot_keys));
  return result;
}

nb::dict write_tape(const ForestArrays& forest, const PlanArrays& arrays, bool in_double) {
  const TapeForest trees = forest.tape_forest();
  const TapePlan plan = arrays.plan();
  Tape tape;
  {
    nb::gil_scoped_release release;
    tape = in_double ? TapeWriter<double>(trees, plan).write() : TapeWriter<float>(trees, plan).write();
  }
  return to_dict(std::move(tape));
}

nb::tuple shapes(const ForestArrays& forest) {
  TreeShape shape = tree_shapes(forest.tape_forest());
  return nb::make_tuple(to_numpy(std::move(shape.distinct)), to_numpy(std::move(shape.height)));
}

}  // namespace

void bind_tape(nb::module_& module) {
  nb::class_<ForestArrays>(module, "TapeForest")
      .def(nb::init<Vector<int64_t>, Vector<int64_t>, Vector<int32_t>, Vector<int32_t>, Vector<int32_t>,
                    Vector<int32_t>, Vector<double>, Vector<double>, Vector<double>, int64_t>(),
           nb::arg("offsets"), nb::arg("leaf_offsets"), nb::arg("feature"), nb::arg("left"), nb::arg("column"),
           nb::arg("rank"), nb::arg("cover"), nb::arg("leaf_value"), nb::arg("tree_weight"), nb::arg("n_features"))
      .def("shapes", &shapes, "Distinct features on a path and levels of splits, of each tree.");
  nb::class_<PlanArrays>(module, "TapePlan")
      .def(nb::init<Vector<int32_t>, Vector<int32_t>, Vector<int32_t>, Vector<int32_t>, Vector<int32_t>,
                    Vector<int64_t>, Vector<double>, Vector<double>, int64_t, bool, Vector<uint8_t>>(),
           nb::arg("tree"), nb::arg("component"), nb::arg("output"), nb::arg("begin"), nb::arg("end"),
           nb::arg("chunk_offsets"), nb::arg("t"), nb::arg("w"), nb::arg("n_points"), nb::arg("pairs"),
           nb::arg("selected"));
  module.def("write_tape", &write_tape, nb::arg("forest"), nb::arg("plan"), nb::arg("in_double"),
             "Write trees as tapes for the CUDA walk: words, chunk_starts, slot_offsets, slot_keys and sizes.");
}

}  // namespace silva
