// Sums over SHAP values and counts of their magnitudes: glasswood.explain.results.summary calls this.
#include <bit>
#include <cmath>

#include "common/bindings.h"
#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"

namespace glasswood {
namespace {

template <class T, int N>
using Cells = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

// What is added up for each cell, a feature and an output.
struct Sums {
  double *total, *squares, *magnitudes;  // [cell]
  int64_t* leads;                        // [cell]: rows in which the feature is the strongest
  int64_t* counts;                       // [cell][bin]
  int64_t n_steps;                       // bins on either side of 0
  int64_t lowest;                        // step of the smallest numbers that do not count as 0
};

constexpr int64_t kCellsTogether = 4;

// Bins have signs, and 32 steps within each power of 2.
int64_t bin_of(float value, const Sums& sums) {
  const auto bits = std::bit_cast<int32_t>(value);
  const int64_t step = std::clamp((bits >> 18 & 0x1fff) - sums.lowest, int64_t(0), sums.n_steps);
  return sums.n_steps + (bits < 0 ? -step : step);
}

template <class Value>
void add_cells(const Value* values, int64_t n_rows, int64_t n_cells, int64_t first, const Sums& sums) {
  const int64_t end = std::min(first + kCellsTogether, n_cells), n_bins = 2 * sums.n_steps + 1;
  double total[kCellsTogether] = {}, squares[kCellsTogether] = {}, magnitudes[kCellsTogether] = {};
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t cell = first; cell < end; ++cell) {
      const Value value = values[row * n_cells + cell];
      total[cell - first] += value;
      squares[cell - first] += double(value) * value;
      magnitudes[cell - first] += std::abs(value);
      ++sums.counts[cell * n_bins + bin_of(float(value), sums)];
    }
  for (int64_t cell = first; cell < end; ++cell) {
    sums.total[cell] += total[cell - first];
    sums.squares[cell] += squares[cell - first];
    sums.magnitudes[cell] += magnitudes[cell - first];
  }
}

template <class Value>
void count_leads(const Value* values, int64_t n_rows, int64_t n_features, int64_t n_outputs, int64_t output,
                 const Sums& sums) {
  for (int64_t row = 0; row < n_rows; ++row) {
    const Value* of_row = values + row * n_features * n_outputs + output;
    int64_t first = 0;
    for (int64_t feature = 1; feature < n_features; ++feature)
      if (std::abs(of_row[feature * n_outputs]) > std::abs(of_row[first * n_outputs])) first = feature;
    ++sums.leads[first * n_outputs + output];
  }
}

// Each sum has its rows in their order, whatever the number of threads.
template <class Value>
void add_values(const Cells<const Value, 3>& values, const Cells<double, 2>& total, const Cells<double, 2>& squares,
                const Cells<double, 2>& magnitudes, const Cells<int64_t, 2>& leads, const Cells<int64_t, 3>& counts,
                int64_t lowest, int n_threads) {
  const int64_t n_rows = int64_t(values.shape(0)), n_features = int64_t(values.shape(1)),
                n_outputs = int64_t(values.shape(2)), n_cells = n_features * n_outputs;
  const int64_t n_bins = int64_t(counts.shape(2));
  const Sums sums = {total.data(),     squares.data(), magnitudes.data(), leads.data(), counts.data(),
                     (n_bins - 1) / 2, lowest};
  for (const int64_t size : {int64_t(total.size()), int64_t(squares.size()), int64_t(magnitudes.size()),
                             int64_t(leads.size()), int64_t(counts.size()) / n_bins})
    if (size != n_cells || n_features == 0) throw nb::value_error("the sums are of another number of features");
  const int64_t n_groups = (n_cells + kCellsTogether - 1) / kCellsTogether;
  run_interruptibly([&] {
    const BorrowedTeam threads(useful_threads(double(n_rows * n_cells) / 16384, n_threads));
    share_out(threads.team(), n_groups + n_outputs, [&](int64_t at, int32_t) {
      if (at < n_groups)
        add_cells(values.data(), n_rows, n_cells, at * kCellsTogether, sums);
      else
        count_leads(values.data(), n_rows, n_features, n_outputs, at - n_groups, sums);
    });
  });
}

}  // namespace

void bind_summary(nb::module_& module) {
  const auto bind = [&](auto function) {
    module.def("add_values", function, nb::arg("values"), nb::arg("total"), nb::arg("squares"), nb::arg("magnitudes"),
               nb::arg("leads"), nb::arg("counts"), nb::arg("lowest"), nb::arg("n_threads"),
               "Add SHAP values (n, P, k) to their sums and counts.");
  };
  bind(&add_values<float>);
  bind(&add_values<double>);
}

}  // namespace glasswood
