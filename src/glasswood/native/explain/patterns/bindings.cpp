// Bindings of explanations by the patterns of a background: glasswood.explain.background calls these.
#include "common/bindings.h"

#include <optional>

#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"
#include "explain/patterns/cover_walk.h"
#include "explain/patterns/linear_walk.h"
#include "explain/patterns/pattern_walk.h"

namespace glasswood {

using Result = nb::ndarray<nb::device::cpu>;

static PatternTarget target_of(const Result& out, bool of_pairs) {
  const size_t output_axis = of_pairs ? 3 : 2;
  return {out.data(),    out.dtype() == nb::dtype<double>(), out.stride(0),
          out.stride(1), of_pairs ? out.stride(2) : 0,       out.ndim() > output_axis ? out.stride(output_axis) : 0};
}

// Calls explain(target, team) after a check of the result's shape, [row] and the other axes, then outputs if several.
template <class Explain>
static void write_result(const LeafWalk& walk, const Result& out, std::vector<int64_t> expected, int n_threads,
                         const Explain& explain) {
  const bool of_pairs = expected.size() == 3;
  if (walk.n_outputs() > 1) expected.push_back(walk.n_outputs());
  bool fits = out.ndim() == expected.size();
  for (size_t axis = 0; fits && axis < expected.size(); ++axis) fits = int64_t(out.shape(axis)) == expected[axis];
  if (!fits) throw nb::value_error("the result has the wrong shape");
  run_interruptibly([&] {
    const BorrowedTeam threads(n_threads);
    explain(target_of(out, of_pairs), threads.team());
  });
}

template <class Walk>
static void write_values(const Walk& walk, const RowMatrix& rows, const Result& out, int n_threads) {
  const RowSource source = rows_of(rows, walk.walk().forest().n_features);
  write_result(walk.walk(), out, {source.n_rows, walk.walk().n_players()}, n_threads,
               [&](const PatternTarget& target, const Team& team) { walk.values(source, target, team); });
}

static void write_interactions(const PatternWalk& walk, const RowMatrix& rows, const Vector<int32_t>& places,
                               const Result& out, int n_threads) {
  const RowSource source = rows_of(rows, walk.walk().forest().n_features);
  const int64_t n_players = walk.walk().n_players();
  if (int64_t(places.size()) != n_players) throw nb::value_error("places has the wrong length");
  int64_t n_places = 0;
  for (const int32_t place : view(places)) n_places = std::max<int64_t>(n_places, place + 1);
  write_result(walk.walk(), out, {source.n_rows, n_places, n_players}, n_threads,
               [&](const PatternTarget& target, const Team& team) {
                 walk.interactions(source, view(places), n_places, target, team);
               });
}

template <class Walk>
static void write_indices(const Walk& walk, const RowMatrix& rows, const Vector<int32_t>& players, bool is_banzhaf,
                          const Result& out, int n_threads) {
  const RowSource source = rows_of(rows, walk.walk().forest().n_features);
  if (players.size() % kMostOrder) throw nb::value_error("players has the wrong length");
  const PlayerSets sets(view(players), walk.walk().n_players());
  const IndexKind kind = is_banzhaf ? IndexKind::kBanzhaf : IndexKind::kShapley;
  write_result(walk.walk(), out, {source.n_rows, sets.n_sets()}, n_threads,
               [&](const PatternTarget& target, const Team& team) { walk.indices(source, sets, kind, target, team); });
}

constexpr const char* kIndices =
    "Indices of sets of players, (n, n_sets) or (n, n_sets, n_outputs); players: four a set, padded with -1.";

// Builds an object in place while Ctrl-C ends it.
template <class Walk, class... Arguments>
static void construct(Walk* self, int n_threads, Arguments&&... arguments) {
  std::optional<Walk> made;
  run_interruptibly([&] {
    const BorrowedTeam threads(n_threads);
    made.emplace(std::forward<Arguments>(arguments)..., threads.team());
  });
  new (self) Walk(std::move(*made));
}

// A class of one background's patterns.
template <class Walk>
static nb::class_<Walk> bind_background(nb::module_& module, const char* name, const char* doc) {
  return nb::class_<Walk>(module, name, doc)
      .def(
          "__init__",
          [](Walk* self, nb::handle forest, const Vector<int32_t>& player_of, const RowMatrix& rows,
             const Vector<int64_t>& weight, int64_t total, int n_threads) {
            ForestView given = view_of(forest);
            const RowSource source = rows_of(rows, given.n_features);
            if (int64_t(weight.size()) != source.n_rows) throw nb::value_error("one weight a background row is needed");
            Players players = players_of(view(player_of), given.n_features);
            construct(self, n_threads, std::move(given), std::move(players), source, view(weight), total);
          },
          nb::arg("forest"), nb::arg("player_of"), nb::arg("rows"), nb::arg("weight"), nb::arg("total"),
          nb::arg("n_threads"), nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>())
      .def_prop_ro("n_bytes", &Walk::n_bytes)
      .def("values", &write_values<Walk>, nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"),
           "SHAP values, (n, P) or (n, P, n_outputs) of P players.");
}

static void bind_pattern_walk(nb::module_& module) {
  bind_background<PatternWalk>(module, "PatternWalk", "A forest's patterns of a background, and values by them.")
      .def("interactions", &write_interactions, nb::arg("rows"), nb::arg("places"), nb::arg("out"),
           nb::arg("n_threads"),
           "Interactions, (n, m, P) or (n, m, P, n_outputs); places[p] is player p's place among the m, or -1.")
      .def("indices", &write_indices<PatternWalk>, nb::arg("rows"), nb::arg("players"), nb::arg("is_banzhaf"),
           nb::arg("out"), nb::arg("n_threads"), kIndices);
}

void bind_patterns(nb::module_& module) {
  bind_pattern_walk(module);
  bind_background<LinearPatternWalk>(module, "LinearPatternWalk",
                                     "The same of a forest with linear leaves; it reads the background rows.");
  nb::class_<CoverWalk>(module, "CoverWalk", "A forest's leaves with their cover shares, and indices by them.")
      .def(
          "__init__",
          [](CoverWalk* self, nb::handle forest, const Vector<int32_t>& player_of) {
            ForestView given = view_of(forest);
            Players players = players_of(view(player_of), given.n_features);
            new (self) CoverWalk(std::move(given), std::move(players));
          },
          nb::arg("forest"), nb::arg("player_of"), nb::keep_alive<1, 2>())
      .def("indices", &write_indices<CoverWalk>, nb::arg("rows"), nb::arg("players"), nb::arg("is_banzhaf"),
           nb::arg("out"), nb::arg("n_threads"), kIndices);
}

}  // namespace glasswood
