// Bindings of effects: glasswood.inspection.additive calls these.
#include "common/bindings.h"

#include <nanobind/stl/optional.h>

#include "common/instruction_set.h"
#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"
#include "inspection/effect_sums.h"

namespace glasswood {

GLASSWOOD_KERNEL_TABLES(InspectionKernels, inspection)

using Sums = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

static int64_t n_pairs_of(std::span<const int32_t> pair_place) {
  int64_t n = 0;
  for (const int32_t place : pair_place) n = std::max<int64_t>(n, place + 1);
  return n;
}

// Offsets rise by what each has room for, up to the length of the result.
static void check_room(std::span<const int64_t> first, int64_t place, int64_t size, const Sums& sums) {
  if (first[place] < 0 || first[place] + size > int64_t(sums.size())) throw nb::value_error("the result is too short");
}

static void check(const EffectTarget& target, const ForestView& forest, const RowSource& grid, const RowSource& points,
                  const Sums& total, const Sums& main, const Sums& joint, const Sums& row_main, const Sums& row_joint) {
  const int64_t n_places = int64_t(target.n_points.size()), n_outputs = forest.n_outputs();
  const int64_t n_pairs = n_pairs_of(target.pair_place);
  if (int64_t(target.place.size()) != forest.n_features || int64_t(target.pair_place.size()) != n_places * n_places ||
      int64_t(target.first_main.size()) != n_places || int64_t(target.first_joint.size()) < n_pairs)
    throw nb::value_error("places have the wrong length");
  for (const int32_t place : target.place)
    if (place >= n_places) throw nb::value_error("no such place");
  for (int64_t j = 0; j < n_places; ++j) {
    if (target.n_points[j] < 1 || target.n_points[j] > grid.n_rows) throw nb::value_error("the grid has too few rows");
    check_room(target.first_main, j, n_outputs * target.n_points[j], main);
    for (int64_t k = j + 1; k < n_places; ++k)
      if (const int32_t pair = target.pair_place[j * n_places + k]; pair >= 0)
        check_room(target.first_joint, pair, n_outputs * target.n_points[j] * target.n_points[k], joint);
  }
  if (int64_t(total.size()) != n_outputs || int64_t(row_main.size()) != n_places * n_outputs * points.n_rows ||
      int64_t(row_joint.size()) != n_pairs * n_outputs * points.n_rows)
    throw nb::value_error("the result has the wrong shape");
}

static void effect_sums(nb::handle model, const RowMatrix& row_matrix, const std::optional<Vector<double>>& weights,
                        const RowMatrix& grid_matrix, const RowMatrix& point_matrix, const Vector<int32_t>& place,
                        const Vector<int32_t>& pair_place, const Vector<int32_t>& n_points,
                        const Vector<int64_t>& first_main, const Vector<int64_t>& first_joint, const Sums& total,
                        const Sums& main, const Sums& joint, const Sums& row_main, const Sums& row_joint,
                        int n_threads) {
  const ForestView forest = view_of(model);
  const RowSource rows = rows_of(row_matrix, forest.n_features), grid = rows_of(grid_matrix, forest.n_features),
                  points = rows_of(point_matrix, forest.n_features);
  if (forest.is_linear()) throw nb::value_error("linear leaves have no such sums");
  if (weights && int64_t(weights->size()) != rows.n_rows) throw nb::value_error("weights are not one a row");
  const EffectTarget target{view(place),  view(pair_place), view(n_points), view(first_main), view(first_joint),
                            total.data(), main.data(),      joint.data(),   row_main.data(),  row_joint.data()};
  check(target, forest, grid, points, total, main, joint, row_main, row_joint);
  const double* weight = weights ? weights->data() : nullptr;
  run_interruptibly([&] {
    const BorrowedTeam threads(n_threads);
    EffectSums(forest, kernels_of(inspection_tables), target, n_threads)
        .add(rows, weight, grid, points, threads.team());
  });
}

void bind_inspection(nb::module_& module) {
  module.def("effect_sums", &effect_sums, nb::arg("forest"), nb::arg("rows"), nb::arg("weights").none(),
             nb::arg("grid"), nb::arg("points"), nb::arg("place"), nb::arg("pair_place"), nb::arg("n_points"),
             nb::arg("first_main"), nb::arg("first_joint"), nb::arg("total"), nb::arg("main"), nb::arg("joint"),
             nb::arg("row_main"), nb::arg("row_joint"), nb::arg("n_threads"),
             "Sums over rows for the partial dependence of all features and pairs (native/inspection/effect_sums.h).");
}

}  // namespace glasswood
