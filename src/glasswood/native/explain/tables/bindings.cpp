// Bindings of subtree tables: glasswood.explain.tables calls these.
#include "common/bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include "common/interrupts.h"
#include "explain/tables/tables.h"

namespace glasswood {

using Result = nb::ndarray<nb::device::cpu>;
// Background rows, their weights, and what these are shares of.
using Against = std::optional<std::tuple<RowMatrix, Vector<int64_t>, int64_t>>;

template <class Real>
static ExplanationTarget<Real> target_of(const Result& out, bool of_pairs) {
  const size_t output_axis = of_pairs ? 3 : 2;
  return {static_cast<Real*>(out.data()), out.stride(0), out.stride(1), of_pairs ? out.stride(2) : 0,
          out.ndim() > output_axis ? out.stride(output_axis) : 0};
}

template <class Real>
static void check_result(const SubtreeTables<Real>& tables, const PassTask<Real>& task, const Result& out) {
  std::vector<int64_t> expected{task.rows.n_rows, task.n_places, tables.n_players(), tables.n_outputs()};
  if (!tables.of_pairs()) expected.erase(expected.begin() + 1);
  if (tables.n_outputs() == 1) expected.pop_back();
  bool fits = out.ndim() == expected.size();
  for (size_t axis = 0; fits && axis < expected.size(); ++axis) fits = int64_t(out.shape(axis)) == expected[axis];
  if (!fits) throw nb::value_error("the result has the wrong shape");
}

template <class Real>
static RowSource background_of(const SubtreeTables<Real>& tables, const RowMatrix& rows,
                               const Vector<int64_t>& weight) {
  const RowSource source = rows_of(rows, tables.n_features());
  if (int64_t(weight.size()) != source.n_rows) throw nb::value_error("one weight a background row is needed");
  return source;
}

template <class Real>
static void pass_rows(SubtreeTables<Real>& tables, PassTask<Real>& task, const Result& out, int n_threads,
                      const Against& against) {
  check_result(tables, task, out);
  task.double_out = out.dtype() == nb::dtype<double>();
  if (task.double_out)
    task.out64 = target_of<double>(out, tables.of_pairs());
  else if (out.dtype() == nb::dtype<float>())
    task.out32 = target_of<float>(out, tables.of_pairs());
  else
    throw nb::type_error("the result must be float32 or float64");
  if (!against) return run_interruptibly([&] { tables.pass(task, n_threads); });
  const RowSource rows = background_of(tables, std::get<0>(*against), std::get<1>(*against));
  const auto weight = view(std::get<1>(*against));
  run_interruptibly([&] { tables.pass_against(task, rows, weight, std::get<2>(*against), n_threads); });
}

template <class Real>
static void explain_values(SubtreeTables<Real>& tables, const RowMatrix& rows, const Result& out, bool adds,
                           int n_threads, const Against& against) {
  if (tables.of_pairs()) throw nb::value_error("the tables are those of interactions");
  PassTask<Real> task{};
  task.rows = rows_of(rows, tables.n_features());
  task.adds = adds;
  pass_rows(tables, task, out, n_threads, against);
}

template <class Real>
static void explain_interactions(SubtreeTables<Real>& tables, const RowMatrix& rows, Vector<int32_t> places,
                                 const Result& out, bool adds, int n_threads, const Against& against) {
  if (!tables.of_pairs()) throw nb::value_error("the tables are those of values");
  if (int64_t(places.size()) != tables.n_players()) throw nb::value_error("places has the wrong length");
  PassTask<Real> task{};
  task.rows = rows_of(rows, tables.n_features());
  task.adds = adds;
  task.places = places.data();
  for (const int32_t place : view(places)) task.n_places = std::max<int64_t>(task.n_places, place + 1);
  pass_rows(tables, task, out, n_threads, against);
}

template <class Real>
static void build_background(SubtreeTables<Real>& tables, const RowMatrix& rows, const Vector<int64_t>& weight,
                             int64_t total, int n_threads) {
  const RowSource source = background_of(tables, rows, weight);
  run_interruptibly([&] { tables.build_background(source, view(weight), total, n_threads); });
}

template <class Real>
static void bind_type(nb::module_& module, const char* name) {
  using Tables = SubtreeTables<Real>;
  nb::class_<Tables>(module, name, "A forest's subtree tables.")
      .def(
          "__init__",
          [](Tables* self, nb::handle forest, const Vector<int32_t>& player_of, int64_t table_bytes, bool forced,
             bool of_pairs, bool has_background, bool for_row, int n_threads) {
            const ForestView view = view_of(forest);
            const Players players = players_of(glasswood::view(player_of), view.n_features);
            const auto game = has_background ? TableGame::kBackground : TableGame::kCovers;
            new (self) Tables(view, players, {table_bytes, forced, of_pairs, for_row, game}, n_threads);
          },
          nb::arg("forest"), nb::arg("player_of"), nb::arg("table_bytes"), nb::arg("forced"), nb::arg("of_pairs"),
          nb::arg("has_background"), nb::arg("for_row"), nb::arg("n_threads"))
      .def(
          "like", [](const Tables& tables) { return new Tables(tables); }, nb::rv_policy::take_ownership,
          "Tables of the same plan, which they share, to be filled anew.")
      .def_prop_ro("n_bytes", &Tables::n_bytes)
      .def_prop_ro("plan_bytes", &Tables::plan_bytes, "Bytes of the plan, without those of the tables.")
      .def_prop_ro("n_subtrees", &Tables::n_subtrees)
      .def_prop_ro("n_rebuilt", &Tables::n_rebuilt, "Subtrees whose tables are built anew for each call.")
      .def_prop_ro("is_whole", &Tables::is_whole)
      .def("has_few", &Tables::has_few, nb::arg("n_rows"),
           "Whether tables against a background have as many entries as so few rows look up.")
      .def_prop_ro(
          "walked_trees",
          [](const Tables& tables) { return to_numpy(std::vector<int32_t>(tables.plan().walked_trees)); },
          nb::rv_policy::move)
      .def_prop_ro(
          "cut_nodes", [](const Tables& tables) { return to_numpy(std::vector<int64_t>(tables.plan().cut_nodes)); },
          nb::rv_policy::move)
      .def(
          "build", [](Tables& tables, int n_threads) { run_interruptibly([&] { tables.build(n_threads); }); },
          nb::arg("n_threads"))
      .def("build_background", &build_background<Real>, nb::arg("rows"), nb::arg("weight"), nb::arg("total"),
           nb::arg("n_threads"), "Fills the tables with the game against background rows of shares weight / total.")
      .def("values", &explain_values<Real>, nb::arg("rows"), nb::arg("out"), nb::arg("adds"), nb::arg("n_threads"),
           nb::arg("against") = nb::none(),
           "SHAP values, (n, P) or (n, P, n_outputs), written or added to what the result holds. Of tables that are "
           "not filled against background rows (rows, weights, total), of which this call fills what its rows look up.")
      .def("interactions", &explain_interactions<Real>, nb::arg("rows"), nb::arg("places"), nb::arg("out"),
           nb::arg("adds"), nb::arg("n_threads"), nb::arg("against") = nb::none(),
           "Interactions, (n, m, P) or (n, m, P, n_outputs), likewise; places[p] is player p's place among the m, or "
           "-1.");
}

void bind_tables(nb::module_& module) {
  bind_type<float>(module, "SubtreeTables32");
  bind_type<double>(module, "SubtreeTables64");
  module.def(
      "middle_of_trees",
      [](nb::handle forest, bool has_background) {
        return to_numpy(std::move(WeightedLeaves(view_of(forest), true, has_background).middle));
      },
      nb::arg("forest"), nb::arg("has_background"),
      "What tables and walk of float32 subtract from the weighted leaves: [tree][leaf_width].");
}

}  // namespace glasswood
