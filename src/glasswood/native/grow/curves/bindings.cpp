// Bindings of curves: glasswood.grow.curves calls these.
#include "common/bindings.h"

#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"
#include "grow/curves/booster.h"
#include "grow/curves/joining.h"
#include "grow/curves/pairs.h"

namespace glasswood {
namespace {

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Cube = nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <class T>
using Result = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

struct CurveSettings {
  int loss = 0;
  double level = 0;
  StepSettings steps{};
  int random_rounds = 0, max_rounds = 0, patience = 0;
  uint64_t seed = 0;
  double least_gain = 0, tolerance = 0;
};

void require(bool is_right, const char* what) {
  if (!is_right) throw nb::value_error(what);
}

std::vector<CurveTerm> terms_of(const Matrix<uint16_t>& bins, const Matrix<int32_t>& shapes) {
  require(shapes.shape(0) == bins.shape(0) && shapes.shape(1) == 4, "shapes are not four numbers a term");
  std::vector<CurveTerm> terms;
  int64_t begin = 0;
  const int64_t n_rows = int64_t(bins.shape(1));
  for (size_t t = 0; t < bins.shape(0); ++t) {
    CurveTerm term{bins.data() + t * n_rows, shapes(t, 0), shapes(t, 1), shapes(t, 2), shapes(t, 3), begin};
    require(term.n_first > 0 && term.n_second > 0 && int64_t(term.n_first) * term.n_second <= CurveBooster::kMostBins &&
                term.n_ordered >= 0 && term.n_ordered <= term.n_first,
            "a term has no bins, or too many");
    for (int64_t i = 0; i < n_rows; ++i) require(term.bins[i] < term.n_bins(), "a row is in no bin");
    begin += term.n_bins();
    terms.push_back(term);
  }
  return terms;
}

void boost_curves(const CurveSettings& settings, const Vector<double>& y, const Vector<double>& weight,
                  const Vector<int32_t>& fold, const Matrix<uint16_t>& bins, const Matrix<int32_t>& shapes,
                  Result<double> values, Result<double> margins, Result<double> losses, Result<int32_t> rounds,
                  int n_threads) {
  require(margins.ndim() == 3 && values.ndim() == 3, "margins and values are not by fold, output and row or bin");
  const int64_t n_folds = int64_t(margins.shape(0)), n_outputs = int64_t(margins.shape(1)), n_rows = int64_t(y.size());
  require(settings.loss >= 0 && settings.loss <= int(CurveLoss::kHuber), "no such loss");
  CurveTask task{{CurveLoss(settings.loss), settings.level, n_rows, int32_t(n_outputs), y.data()},
                 terms_of(bins, shapes),
                 0,
                 weight.data(),
                 fold.data(),
                 settings.steps,
                 settings.random_rounds,
                 settings.max_rounds,
                 settings.patience,
                 settings.seed,
                 settings.least_gain,
                 settings.tolerance};
  require(!task.terms.empty(), "there are no terms");
  task.n_values = task.terms.back().begin + task.terms.back().n_bins();
  require(int64_t(bins.shape(1)) == n_rows && int64_t(weight.size()) == n_rows && int64_t(fold.size()) == n_rows &&
              int64_t(margins.shape(2)) == n_rows,
          "rows have different numbers");
  require(int64_t(values.shape(0)) == n_folds && int64_t(values.shape(1)) == n_outputs &&
              int64_t(values.shape(2)) == task.n_values && int64_t(losses.size()) == 2 * n_rows &&
              int64_t(rounds.size()) == n_folds,
          "the result has the wrong shape");
  if (task.rows.loss == CurveLoss::kSoftmax)
    for (int64_t i = 0; i < n_rows; ++i) require(y(i) >= 0 && y(i) < n_outputs, "no such class");
  run_interruptibly([&] {
    const BorrowedTeam threads(n_threads);
    const Team team = threads.team();
    share_out(team, n_folds, [&](int32_t k, int32_t thread) {
      CurveResult result{values.data() + k * n_outputs * task.n_values, margins.data() + k * n_outputs * n_rows,
                         losses.data(), losses.data() + n_rows, 0};
      CurveBooster(task, k, result).run([&] { return has_ended(team, thread); });
      rounds.data()[k] = result.n_rounds;
    });
  });
}

void curve_slopes(const CurveSettings& settings, const Vector<double>& y, const Vector<double>& weight,
                  const Matrix<double>& margins, Result<double> gradient, Result<double> curvature) {
  require(settings.loss >= 0 && settings.loss <= int(CurveLoss::kHuber), "no such loss");
  require(y.size() == margins.shape(1) && weight.size() == y.size() && gradient.size() == margins.size() &&
              curvature.size() == margins.size(),
          "rows have different numbers");
  LossRows{CurveLoss(settings.loss), settings.level, int64_t(y.size()), int32_t(margins.shape(0)), y.data()}.slopes(
      margins.data(), weight.data(), gradient.data(), curvature.data());
}

void rank_pairs(const Matrix<uint16_t>& bins, const Vector<int32_t>& sizes, const Matrix<double>& gradient,
                const Matrix<double>& curvature, Result<double> gains, int n_threads) {
  const int64_t n_features = int64_t(bins.shape(0)), n_rows = int64_t(bins.shape(1));
  const int64_t n_outputs = int64_t(gradient.shape(0));
  require(int64_t(sizes.size()) == n_features && int64_t(gradient.shape(1)) == n_rows &&
              gradient.shape(0) == curvature.shape(0) && gradient.shape(1) == curvature.shape(1) &&
              int64_t(gains.size()) == n_features * n_features,
          "features, rows or results have different numbers");
  for (int64_t a = 0; a < n_features; ++a)
    for (int64_t i = 0; i < n_rows; ++i) require(bins(a, i) < sizes(a), "a row is in no bin");
  std::vector<double> noise(n_outputs);
  for (int64_t k = 0; k < n_outputs; ++k) {
    double squares = 0, all = 0;
    for (int64_t i = 0; i < n_rows; ++i) squares += gradient(k, i) * gradient(k, i), all += curvature(k, i);
    noise[k] = all > 0 ? std::max(squares / all, 1e-300) : 1;
  }
  run_interruptibly([&] {
    const BorrowedTeam threads(n_threads);
    const Team team = threads.team();
    share_out(team, n_features, [&](int32_t a, int32_t thread) {
      for (int64_t b = a + 1; b < n_features && !has_ended(team, thread); ++b) {
        const int32_t n_first = sizes(a), n_second = sizes(b);
        double total = 0;
        for (int64_t k = 0; k < n_outputs; ++k) {
          PairCells cells{n_first, n_second, std::vector<double>(n_first * n_second),
                          std::vector<double>(n_first * n_second)};
          const uint16_t *first = bins.data() + a * n_rows, *second = bins.data() + b * n_rows;
          const double *g = gradient.data() + k * n_rows, *h = curvature.data() + k * n_rows;
          for (int64_t i = 0; i < n_rows; ++i) {
            const int32_t cell = first[i] * n_second + second[i];
            cells.gradient[cell] += g[i], cells.curvature[cell] += h[i];
          }
          total += pair_gain(std::move(cells), noise[k]);
        }
        gains.data()[a * n_features + b] = gains.data()[b * n_features + a] = total;
      }
    });
  });
}

nb::ndarray<nb::numpy, int64_t, nb::ndim<1>> joined_neighbours(const Matrix<double>& values,
                                                               const Matrix<double>& weight, double budget) {
  require(values.shape(0) == weight.shape(0) && values.shape(1) == weight.shape(1), "weights are not one a value");
  return to_numpy(
      join_neighbours(values.data(), weight.data(), int64_t(values.shape(0)), int64_t(values.shape(1)), budget));
}

}  // namespace

void bind_curves(nb::module_& module) {
  nb::class_<CurveSettings> settings(module, "CurveSettings", "Settings of boost_curves.");
  settings.def(nb::init<>());
  bind_field<&CurveSettings::loss>(settings, "loss");
  bind_field<&CurveSettings::level>(settings, "level");
  bind_field<&CurveSettings::steps, &StepSettings::rate>(settings, "rate");
  bind_field<&CurveSettings::steps, &StepSettings::ridge>(settings, "ridge");
  bind_field<&CurveSettings::steps, &StepSettings::category_ridge>(settings, "category_ridge");
  bind_field<&CurveSettings::steps, &StepSettings::most>(settings, "most");
  bind_field<&CurveSettings::steps, &StepSettings::max_leaves>(settings, "max_leaves");
  bind_field<&CurveSettings::steps, &StepSettings::min_rows>(settings, "min_rows");
  bind_field<&CurveSettings::random_rounds>(settings, "random_rounds");
  bind_field<&CurveSettings::seed>(settings, "seed");
  bind_field<&CurveSettings::max_rounds>(settings, "max_rounds");
  bind_field<&CurveSettings::patience>(settings, "patience");
  bind_field<&CurveSettings::least_gain>(settings, "least_gain");
  bind_field<&CurveSettings::tolerance>(settings, "tolerance");
  module.def(
      "boost_curves", &boost_curves, nb::arg("settings"), nb::arg("y"), nb::arg("weight"), nb::arg("fold"),
      nb::arg("bins"), nb::arg("shapes"), nb::arg("values"), nb::arg("margins"), nb::arg("losses"), nb::arg("rounds"),
      nb::arg("n_threads"),
      "Boosts curves and surfaces, those of each fold on the rows of the others (native/grow/curves/booster.h).");
  module.def("curve_slopes", &curve_slopes, nb::arg("settings"), nb::arg("y"), nb::arg("weight"), nb::arg("margins"),
             nb::arg("gradient"), nb::arg("curvature"),
             "Negative gradients and curvatures of margins, (n_outputs, n_rows) (native/grow/curves/losses.h).");
  module.def("join_neighbours", &joined_neighbours, nb::arg("values"), nb::arg("weight"), nb::arg("budget"),
             "Groups of rows of a table that hardly differ (native/grow/curves/joining.h).");
  module.def("rank_pairs", &rank_pairs, nb::arg("bins"), nb::arg("sizes"), nb::arg("gradient"), nb::arg("curvature"),
             nb::arg("gains"), nb::arg("n_threads"),
             "Gains of coarse surfaces of all pairs, (n_features, n_features) (native/grow/curves/pairs.h).");
}

}  // namespace glasswood
