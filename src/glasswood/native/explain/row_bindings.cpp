// Explains one row at a time for Python: no array is made on the way, and nothing is checked but the row's memory.
#include <algorithm>
#include <memory>
#include <numeric>

#include "common/row_buffer.h"
#include "explain/cpu/row_walk_memory.h"
#include "explain/tables/row_memory.h"

namespace glasswood {

template <class Real>
class RowExplainer {
 public:
  // tables and trees: SubtreeTables and RowTrees, whose sum is explained, one of them at least; top: how many of the
  // strongest features are wanted, 0 for the values of all.
  RowExplainer(nb::object tables, nb::object trees, double missing, int32_t top, nb::object reduced)
      : tables_(std::move(tables)),
        trees_(std::move(trees)),
        reduced_(std::move(reduced)),
        missing_(missing),
        top_(top),
        engine_(engine_of(tables_, trees_)),
        settled_(n_features()) {}

  nb::object operator()(nb::handle row) {
    const RowBuffer buffer(row, n_features(), "Explainer.shap_values");
    const void* values = buffer.values;
    if (missing_ == missing_) values = settle(buffer);
    const RowSource source{values, 1, n_features(), 1, buffer.is_double};
    engine_->run(source);
    return top_ > 0 ? strongest() : all();
  }

  nb::object reduced() const { return reduced_; }

 private:
  nb::object tables_, trees_, reduced_;
  double missing_;
  int32_t top_;
  std::unique_ptr<RowEngine<Real>> engine_;
  std::vector<double> settled_;

  int64_t n_features() const { return engine_->shape.n_features; }
  int64_t n_players() const { return engine_->shape.n_players; }
  int64_t n_outputs() const { return engine_->shape.n_outputs; }

  static std::unique_ptr<RowEngine<Real>> engine_of(const nb::object& tables, const nb::object& trees) {
    std::unique_ptr<RowEngine<Real>> of_tables, of_trees;
    if (!tables.is_none()) of_tables = std::make_unique<RowMemory<Real>>(nb::cast<const SubtreeTables<Real>&>(tables));
    if (!trees.is_none()) of_trees = std::make_unique<RowWalkMemory<Real>>(nb::cast<const RowTrees<Real>&>(trees));
    if (of_tables && of_trees) return std::make_unique<RowSum<Real>>(std::move(of_tables), std::move(of_trees));
    return of_tables ? std::move(of_tables) : std::move(of_trees);
  }

  // The forest's marker becomes NaN, compared in the type of the thresholds.
  const void* settle(const RowBuffer& buffer) {
    const bool ranked = engine_->shape.row_is_double;
    for (int64_t i = 0; i < n_features(); ++i) {
      const double x = buffer.is_double ? static_cast<const double*>(buffer.values)[i]
                                        : double(static_cast<const float*>(buffer.values)[i]);
      const bool is_missing = ranked ? x == missing_ : float(x) == float(missing_);
      const double kept = is_missing ? std::numeric_limits<double>::quiet_NaN() : x;
      if (buffer.is_double)
        settled_[i] = kept;
      else
        reinterpret_cast<float*>(settled_.data())[i] = float(kept);
    }
    return settled_.data();
  }

  template <class T>
  static nb::object to_array(std::vector<T>&& values, int64_t rows, int64_t columns) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    const size_t shape[2] = {size_t(rows), size_t(columns)};
    return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), columns == 1 ? 1 : 2, shape, owner));
  }

  nb::object all() const {
    return to_array(std::vector<Real>(engine_->values.begin(), engine_->values.end()), n_players(), n_outputs());
  }

  // Players and values by falling magnitude, of equal ones the first.
  nb::object strongest() const {
    const int64_t n = std::min<int64_t>(top_, n_players()), k = n_outputs();
    std::vector<int32_t> players(n * k), order(n_players());
    std::vector<Real> values(n * k);
    for (int64_t o = 0; o < k; ++o) {
      const auto size = [&](int32_t p) { return std::abs(engine_->values[p * k + o]); };
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + n, order.end(),
                        [&](int32_t a, int32_t b) { return size(a) != size(b) ? size(a) > size(b) : a < b; });
      for (int64_t i = 0; i < n; ++i) {
        players[i * k + o] = order[i];
        values[i * k + o] = engine_->values[order[i] * k + o];
      }
    }
    return nb::make_tuple(to_array(std::move(players), n, k), to_array(std::move(values), n, k));
  }
};

template <class Real>
static void bind_row(nb::module_& module, const char* name) {
  using Row = RowExplainer<Real>;
  nb::class_<Row>(module, name, "Explains one row a call.")
      .def(nb::init<nb::object, nb::object, double, int32_t, nb::object>(), nb::arg("tables").none(),
           nb::arg("trees").none(), nb::arg("missing"), nb::arg("top"), nb::arg("reduced"))
      .def("__call__", &Row::operator(), nb::arg("row").none(), nb::lock_self())
      .def("__reduce__", &Row::reduced);
}

void bind_row_explainer(nb::module_& module) {
  bind_row<float>(module, "RowExplainer32");
  bind_row<double>(module, "RowExplainer64");
}

}  // namespace glasswood
