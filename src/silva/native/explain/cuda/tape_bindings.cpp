// Bindings of explain/cuda/tape.h: silva.explain.cuda.tapes calls these.
#include "explain/cuda/tape_arrays.h"

namespace silva {
namespace {

nb::dict to_dict(Tape&& tape) {
  nb::dict result;
  result["levels"] = tape.n_levels;
  result["tracks"] = tape.n_tracks;
  result["most_slots"] = tape.n_slots;
  result["words"] = to_numpy(std::move(tape.words));
  result["chunk_starts"] = to_numpy(std::move(tape.chunk_starts));
  result["slot_offsets"] = to_numpy(std::move(tape.slot_offsets));
  result["slot_keys"] = to_numpy(std::move(tape.slot_keys));
  return result;
}

nb::dict write_tape(nb::handle forest, nb::handle codes, nb::handle walks, Vector<double> t, Vector<double> w,
                    int64_t n_points, bool pairs, Vector<uint8_t> selected, bool in_double) {
  const TapeForest trees = tape_forest(forest, codes);
  const TapePlan plan{field<int32_t>(walks, "tree"),
                      field<int32_t>(walks, "component"),
                      field<int32_t>(walks, "output"),
                      field<int32_t>(walks, "begin"),
                      field<int32_t>(walks, "end"),
                      field<int64_t>(walks, "chunk_offsets"),
                      view(t),
                      view(w),
                      n_points,
                      pairs,
                      view(selected)};
  Tape tape;
  {
    nb::gil_scoped_release release;
    tape = in_double ? TapeWriter<double>(trees, plan).write() : TapeWriter<float>(trees, plan).write();
  }
  return to_dict(std::move(tape));
}

nb::tuple shapes(nb::handle forest, nb::handle codes) {
  TreeShape shape = tree_shapes(tape_forest(forest, codes));
  return nb::make_tuple(to_numpy(std::move(shape.distinct)), to_numpy(std::move(shape.height)));
}

}  // namespace

void bind_tape(nb::module_& module) {
  module.def("tree_shapes", &shapes, nb::arg("forest"), nb::arg("codes"),
             "Distinct features on a path and levels of splits, of each tree.");
  module.def("write_tape", &write_tape, nb::arg("forest"), nb::arg("codes"), nb::arg("walks"), nb::arg("t"),
             nb::arg("w"), nb::arg("n_points"), nb::arg("pairs"), nb::arg("selected"), nb::arg("in_double"),
             "Write trees as tapes for the CUDA walk: words, chunk_starts, slot_offsets, slot_keys and sizes.");
}

}  // namespace silva
