// Bindings of explanations by the patterns of a background: silva.explain.background calls these.
#include "common/bindings.h"

#include <optional>

#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"
#include "explain/patterns/pattern_walk.h"

namespace silva {

using Result = nb::ndarray<nb::device::cpu>;

template <class Out>
static ExplanationTarget<Out> target_of(const Result& out, bool of_pairs) {
  const size_t output_axis = of_pairs ? 3 : 2;
  return {static_cast<Out*>(out.data()), out.stride(0), out.stride(1), of_pairs ? out.stride(2) : 0,
          out.ndim() > output_axis ? out.stride(output_axis) : 0};
}

static void check_shape(const Result& out, std::vector<int64_t> expected, int32_t n_outputs) {
  if (n_outputs > 1) expected.push_back(n_outputs);
  bool fits = out.ndim() == expected.size();
  for (size_t axis = 0; fits && axis < expected.size(); ++axis) fits = int64_t(out.shape(axis)) == expected[axis];
  if (!fits) throw nb::value_error("the result has the wrong shape");
}

static void write_values(const PatternWalk& walk, const RowMatrix& rows, const Result& out, int n_threads) {
  const RowSource source = rows_of(rows, walk.n_features());
  check_shape(out, {source.n_rows, walk.n_features()}, walk.n_outputs());
  run_interruptibly([&] {
    const BorrowedTeam threads(n_threads);
    if (out.dtype() == nb::dtype<double>())
      walk.values(source, target_of<double>(out, false), threads.team());
    else
      walk.values(source, target_of<float>(out, false), threads.team());
  });
}

static void write_interactions(const PatternWalk& walk, const RowMatrix& rows, const Vector<int32_t>& places,
                               const Result& out, int n_threads) {
  const RowSource source = rows_of(rows, walk.n_features());
  if (int64_t(places.size()) != walk.n_features()) throw nb::value_error("places has the wrong length");
  int64_t n_places = 0;
  for (const int32_t place : view(places)) n_places = std::max<int64_t>(n_places, place + 1);
  check_shape(out, {source.n_rows, n_places, walk.n_features()}, walk.n_outputs());
  run_interruptibly([&] {
    const BorrowedTeam threads(n_threads);
    if (out.dtype() == nb::dtype<double>())
      walk.interactions(source, view(places), n_places, target_of<double>(out, true), threads.team());
    else
      walk.interactions(source, view(places), n_places, target_of<float>(out, true), threads.team());
  });
}

void bind_patterns(nb::module_& module) {
  nb::class_<PatternWalk>(module, "PatternWalk", "A forest's patterns of a background, and values by them.")
      .def(
          "__init__",
          [](PatternWalk* self, nb::handle forest, const RowMatrix& rows, const Vector<int64_t>& weight, int64_t total,
             int n_threads) {
            ForestView given = view_of(forest);
            const RowSource source = rows_of(rows, given.n_features);
            if (int64_t(weight.size()) != source.n_rows) throw nb::value_error("one weight a background row is needed");
            std::optional<PatternWalk> made;
            run_interruptibly([&] {
              const BorrowedTeam threads(n_threads);
              made.emplace(std::move(given), source, view(weight), total, threads.team());
            });
            new (self) PatternWalk(std::move(*made));
          },
          nb::arg("forest"), nb::arg("rows"), nb::arg("weight"), nb::arg("total"), nb::arg("n_threads"),
          nb::keep_alive<1, 2>())
      .def_prop_ro("n_bytes", &PatternWalk::n_bytes)
      .def("values", &write_values, nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"),
           "SHAP values, (n, F) or (n, F, n_outputs).")
      .def("interactions", &write_interactions, nb::arg("rows"), nb::arg("places"), nb::arg("out"),
           nb::arg("n_threads"),
           "Interactions, (n, m, F) or (n, m, F, n_outputs); places[f] is feature f's place among the m, or -1.");
}

}  // namespace silva
