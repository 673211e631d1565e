// Bindings of subtree tables: silva.explain.tables calls these.
#include "common/bindings.h"

#include "common/interrupts.h"
#include "explain/tables/tables.h"

namespace silva {

using Result = nb::ndarray<nb::device::cpu>;

template <class Real>
static ExplanationTarget<Real> target_of(const Result& out) {
  return {static_cast<Real*>(out.data()), out.stride(0), out.stride(1), 0, out.ndim() > 2 ? out.stride(2) : 0};
}

template <class Real>
static void pass_rows(const SubtreeTables<Real>& tables, const RowMatrix& rows, const Result& out, bool adds,
                      int n_threads) {
  const bool has_outputs = tables.n_outputs() > 1;
  PassTask<Real> task{};
  task.rows = rows_of(rows, tables.n_features());
  if (out.ndim() != 2u + has_outputs || int64_t(out.shape(0)) != task.rows.n_rows ||
      int64_t(out.shape(1)) != tables.n_features() || (has_outputs && int64_t(out.shape(2)) != tables.n_outputs()))
    throw nb::value_error("the result has the wrong shape");
  task.adds = adds;
  task.double_out = out.dtype() == nb::dtype<double>();
  if (task.double_out)
    task.out64 = target_of<double>(out);
  else if (out.dtype() == nb::dtype<float>())
    task.out32 = target_of<float>(out);
  else
    throw nb::type_error("the result must be float32 or float64");
  run_interruptibly([&] { tables.pass(task, n_threads); });
}

template <class Real>
static void bind_type(nb::module_& module, const char* name) {
  using Tables = SubtreeTables<Real>;
  nb::class_<Tables>(module, name, "A forest's subtree tables.")
      .def(
          "__init__",
          [](Tables* self, nb::handle forest, int64_t table_bytes, bool forced, int n_threads) {
            new (self) Tables(view_of(forest), table_bytes, forced, n_threads);
          },
          nb::arg("forest"), nb::arg("table_bytes"), nb::arg("forced"), nb::arg("n_threads"))
      .def_prop_ro("n_bytes", &Tables::n_bytes)
      .def_prop_ro("n_subtrees", [](const Tables& tables) { return tables.plan().subtrees.size(); })
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
      .def("values", &pass_rows<Real>, nb::arg("rows"), nb::arg("out"), nb::arg("adds"), nb::arg("n_threads"),
           "SHAP values, (n, F) or (n, F, n_outputs), written or added to what the result holds.");
}

void bind_tables(nb::module_& module) {
  bind_type<float>(module, "SubtreeTables32");
  bind_type<double>(module, "SubtreeTables64");
  module.def(
      "middle_of_trees",
      [](nb::handle forest) { return to_numpy(std::move(WeightedLeaves(view_of(forest), true).middle)); },
      nb::arg("forest"), "What tables and walk of float32 subtract from the weighted leaves: [tree][leaf_width].");
}

}  // namespace silva
