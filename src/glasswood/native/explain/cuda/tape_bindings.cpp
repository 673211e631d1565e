// Bindings of explain/cuda/tape.h and pattern_tape.h: glasswood.explain.cuda calls these.
#include <cstddef>

#include "explain/cpu/quadrature.h"
#include "explain/cuda/leaf_format.h"
#include "explain/cuda/pattern_tape.h"
#include "explain/cuda/tape.h"

namespace glasswood {
namespace {

// A field of a struct as NumPy has it.
struct StructField {
  const char *name, *format;
  size_t offset;
};

template <class Number>
constexpr const char* format_of() {
  if constexpr (std::is_floating_point_v<Number>) return sizeof(Number) == 8 ? "f8" : "f4";
  if constexpr (std::is_signed_v<Number>) return sizeof(Number) == 8 ? "i8" : "i4";
  return "u4";
}

// A field of a struct, or of a struct within it: GLASSWOOD_FIELD(Outer, inner.field) is called "inner.field".
#define GLASSWOOD_FIELD(Struct, field)                                                                         \
  StructField {                                                                                                \
    #field, format_of<std::remove_cvref_t<decltype(std::declval<Struct&>().field)>>(), offsetof(Struct, field) \
  }

// What numpy.dtype takes for a struct.
template <class Struct>
nb::dict layout_of(std::initializer_list<StructField> fields) {
  nb::list names, formats, offsets;
  for (const StructField& field : fields)
    names.append(field.name), formats.append(field.format), offsets.append(field.offset);
  nb::dict result;
  result["names"] = names, result["formats"] = formats, result["offsets"] = offsets;
  result["itemsize"] = sizeof(Struct);
  return result;
}

nb::dict leaf_layouts() {
#define FIELD(name) GLASSWOOD_FIELD(Struct, name)
  nb::dict result;
  {
    using Struct = PartRecord;
    result["part"] = layout_of<Struct>({FIELD(first_leaf), FIELD(end_leaf), FIELD(pass)});
  }
  {
    using Struct = LeafRecord;
    result["leaf"] = layout_of<Struct>({FIELD(centred), FIELD(value), FIELD(at_means), FIELD(weight), FIELD(low),
                                        FIELD(high), FIELD(missing), FIELD(first_pair), FIELD(first_entry),
                                        FIELD(n_tested), FIELD(n_entries), FIELD(first_term), FIELD(end_term)});
  }
  {
    using Struct = EntryRecord;
    result["entry"] = layout_of<Struct>({FIELD(test.column), FIELD(test.lower), FIELD(test.width), FIELD(slot),
                                         FIELD(first_extra), FIELD(end_extra), FIELD(first_term), FIELD(end_term)});
  }
  {
    using Struct = TermRecord;
    result["term"] = layout_of<Struct>({FIELD(feature), FIELD(category), FIELD(coefficient), FIELD(mean)});
  }
  return result;
#undef FIELD
}

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
  const TapePlan plan{.tree = field<int32_t>(walks, "tree"),
                      .component = field<int32_t>(walks, "component"),
                      .output = field<int32_t>(walks, "output"),
                      .begin = field<int32_t>(walks, "begin"),
                      .end = field<int32_t>(walks, "end"),
                      .chunk_offsets = field<int64_t>(walks, "chunk_offsets"),
                      .t = view(t),
                      .w = view(w),
                      .n_points = n_points,
                      .pairs = pairs,
                      .selected = view(selected)};
  Tape tape;
  {
    const Released release;
    tape = in_double ? TapeWriter<double>(trees, plan).write() : TapeWriter<float>(trees, plan).write();
  }
  return to_dict(std::move(tape));
}

// Structs as words.
template <class Record>
std::vector<int32_t> words_of(const std::vector<Record>& records) {
  std::vector<int32_t> words(records.size() * sizeof(Record) / sizeof(int32_t));
  std::memcpy(words.data(), records.data(), words.size() * sizeof(int32_t));
  return words;
}

nb::dict write_pattern_tape(nb::handle forest, nb::handle codes, const Vector<int32_t>& player_of, int64_t most_leaves,
                            int64_t most_players) {
  const TapeForest trees = tape_forest(forest, codes);
  const Players players = players_of(view(player_of), trees.n_features);
  PatternTape tape;
  {
    const Released release;
    tape = PatternTapeWriter(trees, players, most_leaves, most_players).write();
  }
  nb::dict result;
  result["leaves"] = to_numpy(words_of(tape.leaves));
  result["tests"] = to_numpy(words_of(tape.tests));
  result["places"] = to_numpy(std::move(tape.places));
  result["values"] = to_numpy(std::move(tape.values));
  result["chunk_starts"] = to_numpy(std::move(tape.chunk_starts));
  result["player_starts"] = to_numpy(std::move(tape.player_starts));
  result["players"] = to_numpy(std::move(tape.players));
  result["outputs"] = to_numpy(std::move(tape.outputs));
  result["most_positions"] = tape.most_positions;
  result["most_players"] = tape.most_players;
  return result;
}

nb::tuple shapes(nb::handle forest, nb::handle codes) {
  TreeShape shape = tree_shapes(tape_forest(forest, codes));
  return nb::make_tuple(to_numpy(std::move(shape.distinct)), to_numpy(std::move(shape.height)));
}

}  // namespace

void bind_tape(nb::module_& module) {
  module.def("leaf_layouts", &leaf_layouts, "Structs of explain/cuda/leaf_format.h as numpy.dtype takes them.");
  module.def(
      "gauss_legendre", [](int n) { return to_numpy(gauss_legendre(n)); }, nb::arg("n"),
      "Abscissae of n points on [0, 1], then their weights.");
  module.def("tree_shapes", &shapes, nb::arg("forest"), nb::arg("codes"),
             "Distinct features on a path and levels of splits, of each tree.");
  module.def("write_tape", &write_tape, nb::arg("forest"), nb::arg("codes"), nb::arg("walks"), nb::arg("t"),
             nb::arg("w"), nb::arg("n_points"), nb::arg("pairs"), nb::arg("selected"), nb::arg("in_double"),
             "Write trees as tapes for the CUDA walk: words, chunk_starts, slot_offsets, slot_keys and sizes.");
  module.def("write_pattern_tape", &write_pattern_tape, nb::arg("forest"), nb::arg("codes"), nb::arg("player_of"),
             nb::arg("most_leaves"), nb::arg("most_players"),
             "Leaves of a forest as tests of rows (explain/cuda/pattern_tape.h).");
}

}  // namespace glasswood
