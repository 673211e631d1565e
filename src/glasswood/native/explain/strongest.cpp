// The strongest of a row's interactions, and sums of their magnitudes: glasswood.explain.strongest calls this.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "common/bindings.h"
#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"

namespace glasswood {
namespace {

constexpr int64_t kRowsTogether = 16, kRunsTogether = 8, kLooksTogether = 16, kMostInserted = 32;

template <class T, int N>
using Cells = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

// An entry's magnitude and its place; of equal magnitudes the first place comes first.
template <class Value>
struct Strength {
  Value magnitude;
  int32_t place;
  bool operator<(const Strength& other) const {
    return magnitude > other.magnitude || (magnitude == other.magnitude && place < other.place);
  }
};

template <class Value>
Value magnitude_of(Value value) {
  const Value magnitude = std::abs(value);
  return magnitude == magnitude ? magnitude : std::numeric_limits<Value>::infinity();
}

// Entries side by side: of a matrix's upper triangle, those of a line.
struct Run {
  int64_t place, number, length;
};

std::vector<Run> runs_of(std::span<const int64_t> entries, int64_t row_size) {
  std::vector<Run> runs;
  for (size_t e = 0; e < entries.size(); ++e) {
    if (entries[e] < 0 || entries[e] >= row_size) throw nb::value_error("an entry lies outside of the matrices");
    if (e > 0 && entries[e] == entries[e - 1] + 1)
      ++runs.back().length;
    else
      runs.push_back({int64_t(e), entries[e], 1});
  }
  return runs;
}

// Whether any of some numbers exceeds `least`, or is NaN.
template <class Value>
bool any_above(const Value* values, int64_t n, Value least) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) found |= !(std::abs(values[i]) <= least);
  return found;
}

template <class Value>
void insert(std::vector<Strength<Value>>& list, Value magnitude, int64_t place) {
  size_t at = list.size() - 1;
  if (!(magnitude > list[at].magnitude)) return;
  for (; at > 0 && magnitude > list[at - 1].magnitude; --at) list[at] = list[at - 1];
  list[at] = {magnitude, int32_t(place)};
}

// Entries come in the order of their places, so that one as large as the last of a full list stays out.
template <class Value>
void insert_all(const Value* row, const std::vector<Run>& runs, int64_t n_outputs, std::vector<Strength<Value>>& list) {
  std::fill(list.begin(), list.end(), Strength<Value>{Value(-1), 0});
  for (const Run& run : runs) {
    const Value* const values = row + run.number * n_outputs;
    for (int64_t first = 0; first < run.length; first += kLooksTogether) {
      const int64_t n = std::min(kLooksTogether, run.length - first);
      if (n_outputs == 1 && !any_above(values + first, n, list.back().magnitude)) continue;
      for (int64_t i = first; i < first + n; ++i) insert(list, magnitude_of(values[i * n_outputs]), run.place + i);
    }
  }
}

template <class Value>
void sort_all(const Value* row, const std::vector<Run>& runs, int64_t n_outputs, std::vector<Strength<Value>>& all,
              std::vector<Strength<Value>>& list) {
  all.clear();
  for (const Run& run : runs)
    for (int64_t i = 0; i < run.length; ++i)
      all.push_back({magnitude_of(row[(run.number + i) * n_outputs]), int32_t(run.place + i)});
  std::partial_sort_copy(all.begin(), all.end(), list.begin(), list.end());
}

// matrices [row][number][output]; places and values [row][rank][output].
template <class Value>
void strongest_entries(const Cells<const Value, 3>& matrices, const Vector<int64_t>& entries,
                       const Cells<int32_t, 3>& places, const Cells<Value, 3>& values, int n_threads) {
  const int64_t n_rows = int64_t(matrices.shape(0)), n_outputs = int64_t(matrices.shape(2)),
                n_entries = int64_t(entries.size()), top = int64_t(places.shape(1));
  const int64_t row_size = int64_t(matrices.shape(1)) * n_outputs;
  for (size_t axis = 0; axis < 3; ++axis)
    if (places.shape(axis) != values.shape(axis) || (axis != 1 && places.shape(axis) != matrices.shape(axis)))
      throw nb::value_error("the results are of another shape than the matrices");
  if (top < 1 || top > n_entries) throw nb::value_error("more entries are wanted than there are");
  const std::vector<Run> runs = runs_of(view(entries), int64_t(matrices.shape(1)));
  run_interruptibly([&] {
    const BorrowedTeam threads(useful_threads(double(n_rows * n_outputs) * double(n_entries) / 32768, n_threads));
    share_out(threads.team(), (n_rows + kRowsTogether - 1) / kRowsTogether, [&](int64_t block, int32_t) {
      std::vector<Strength<Value>> list{size_t(top)}, all;
      for (int64_t row = block * kRowsTogether; row < std::min((block + 1) * kRowsTogether, n_rows); ++row)
        for (int64_t output = 0; output < n_outputs; ++output) {
          const Value* const matrix = matrices.data() + row * row_size + output;
          if (top <= kMostInserted)
            insert_all(matrix, runs, n_outputs, list);
          else
            sort_all(matrix, runs, n_outputs, all, list);
          for (int64_t rank = 0; rank < top; ++rank) {
            const int64_t at = (row * top + rank) * n_outputs + output;
            places.data()[at] = list[size_t(rank)].place;
            values.data()[at] = matrix[entries.data()[list[size_t(rank)].place] * n_outputs];
          }
        }
    });
  });
}

// Each sum has its rows in their order, whatever the number of threads.
template <class Value>
void add_magnitudes(const Cells<const Value, 3>& matrices, const Vector<int64_t>& entries,
                    const Cells<double, 1>& strength, int n_threads) {
  const int64_t n_rows = int64_t(matrices.shape(0)), n_outputs = int64_t(matrices.shape(2)),
                n_entries = int64_t(entries.size()), row_size = int64_t(matrices.shape(1)) * n_outputs;
  if (int64_t(strength.size()) != n_entries) throw nb::value_error("there is not one sum for each entry");
  const std::vector<Run> runs = runs_of(view(entries), int64_t(matrices.shape(1)));
  run_interruptibly([&] {
    const BorrowedTeam threads(useful_threads(double(n_rows * n_outputs) * double(n_entries) / 32768, n_threads));
    const int64_t n_blocks = (int64_t(runs.size()) + kRunsTogether - 1) / kRunsTogether;
    share_out(threads.team(), n_blocks, [&](int64_t block, int32_t) {
      const int64_t end = std::min((block + 1) * kRunsTogether, int64_t(runs.size()));
      for (int64_t row = 0; row < n_rows; ++row)
        for (int64_t at = block * kRunsTogether; at < end; ++at) {
          const Value* const values = matrices.data() + row * row_size + runs[size_t(at)].number * n_outputs;
          double* const sums = strength.data() + runs[size_t(at)].place;
          const int64_t length = runs[size_t(at)].length;
          if (n_outputs == 1)
            for (int64_t i = 0; i < length; ++i) sums[i] += std::abs(values[i]);
          else
            for (int64_t i = 0; i < length * n_outputs; ++i) sums[i / n_outputs] += std::abs(values[i]);
        }
    });
  });
}

}  // namespace

void bind_strongest(nb::module_& module) {
  const auto bind = [&](auto strongest, auto add) {
    module.def("strongest_entries", strongest, nb::arg("matrices"), nb::arg("entries"), nb::arg("places"),
               nb::arg("values"), nb::arg("n_threads"), "Find the entries of the largest magnitudes of each row.");
    module.def("add_magnitudes", add, nb::arg("matrices"), nb::arg("entries"), nb::arg("strength"),
               nb::arg("n_threads"), "Add the magnitudes of entries over rows and outputs.");
  };
  bind(&strongest_entries<float>, &add_magnitudes<float>);
  bind(&strongest_entries<double>, &add_magnitudes<double>);
}

}  // namespace glasswood
