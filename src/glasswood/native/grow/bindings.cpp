// Bindings of the engine that grows trees.
#include "grow/cuda/bindings.h"

#include <string_view>

#include "common/instruction_set.h"

namespace glasswood {

GLASSWOOD_VECTOR_KERNEL_TABLES(GrowKernels, grow)

const GrowKernels& grow_kernels() {
  static const GrowKernels& chosen = kernels_of(grow_tables);
  return chosen;
}

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

static StoredRows stored_rows(nb::handle rows) {
  const auto z = nb::cast<nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(attribute(rows, "z"), false);
  if (z.dtype() == nb::dtype<double>()) return {static_cast<const double*>(z.data()), nullptr, z.shape(1)};
  if (z.dtype() == nb::dtype<float>()) return {nullptr, static_cast<const float*>(z.data()), z.shape(1)};
  throw std::invalid_argument("z holds neither float64 nor float32");
}

// The arrays of glasswood.grow.data.rows.TrainingRows, which outlives the engine.
static GrowData data_of(nb::handle rows) {
  const auto ranks = nb::cast<Matrix<int32_t>>(attribute(rows, "ranks"), false);
  const auto column = field<int32_t>(rows, "column"), indicator = field<int32_t>(rows, "indicator");
  const auto offsets = field<int64_t>(rows, "offsets");
  GrowData data;
  data.n_rows = int64_t(ranks.shape(1)), data.n_features = int(ranks.shape(0));
  data.width = nb::cast<int>(attribute(rows, "width"));
  data.z = stored_rows(rows);
  data.y = field<double>(rows, "y").data(), data.ranks = ranks.data();
  data.order = nb::cast<Matrix<int32_t>>(attribute(rows, "order"), false).data();
  data.column.assign(column.begin(), column.end());
  data.indicator.assign(indicator.begin(), indicator.end());
  for (int a = 0; a < data.n_features; ++a) {
    data.values.push_back(field<double>(rows, "values").data() + offsets[a]);
    data.starts.push_back(field<int32_t>(rows, "starts").data() + offsets[a] + a);
    data.n_distinct.push_back(int32_t(offsets[a + 1] - offsets[a]));
  }
  return data;
}

struct EngineSettings {
  Fitness fitness;
  GrowLimits limits;
  GrowSettings search;
};

static nb::dict tree_to_python(const GrowTree& tree, int n_features) {
  const size_t n = tree.nodes.size();
  std::vector<int32_t> feature(n), threshold(n), left(n), right(n);
  std::vector<uint8_t> missing_left(n), model(n * n_features);
  std::vector<int64_t> n_rows(n);
  std::vector<double> error(n);
  for (size_t v = 0; v < n; ++v) {
    const GrowNode& node = tree.nodes[v];
    feature[v] = node.split.feature, threshold[v] = node.split.threshold, missing_left[v] = node.split.missing_left;
    left[v] = node.left, right[v] = node.right, n_rows[v] = node.n_rows, error[v] = node.error;
    for (int a = 0; a < n_features && node.is_leaf(); ++a) model[v * n_features + a] = node.model.has(a);
  }
  nb::dict result;
  result["feature"] = to_numpy(std::move(feature));
  result["threshold"] = to_numpy(std::move(threshold));
  result["missing_left"] = to_numpy(std::move(missing_left));
  result["left"] = to_numpy(std::move(left));
  result["right"] = to_numpy(std::move(right));
  result["model"] = to_numpy(std::move(model));
  result["n_rows"] = to_numpy(std::move(n_rows));
  result["node_error"] = to_numpy(std::move(error));
  result["error"] = tree.error;
  result["fitness"] = tree.fitness;
  return result;
}

static GrowTree tree_from_python(const nb::dict& arrays, const GrowData& data) {
  const auto feature = nb::cast<Vector<int32_t>>(arrays["feature"]);
  const auto threshold = nb::cast<Vector<int32_t>>(arrays["threshold"]);
  const auto missing_left = nb::cast<Vector<uint8_t>>(arrays["missing_left"]);
  const auto left = nb::cast<Vector<int32_t>>(arrays["left"]);
  const auto right = nb::cast<Vector<int32_t>>(arrays["right"]);
  const auto model = nb::cast<Vector<uint8_t>>(arrays["model"]);
  GrowTree tree;
  for (size_t v = 0; v < feature.size(); ++v) {
    GrowNode node;
    if (feature(v) >= data.n_features) throw std::invalid_argument("the tree splits a feature that is not there");
    node.split = {feature(v), threshold(v), missing_left(v) != 0};
    node.left = left(v), node.right = right(v);
    if (!node.is_leaf() && (node.left != int(v) + 1 || node.right <= node.left || node.right >= int(feature.size())))
      throw std::invalid_argument("the tree is not in preorder");
    node.model = FeatureSet(data.n_features);
    for (int a = 0; a < data.n_features; ++a)
      if (data.column[a] >= 0) node.model.set(a, model(v * data.n_features + a) != 0);
    tree.nodes.push_back(std::move(node));
  }
  return tree;
}

class GrowBinding {
 public:
  GrowBinding(nb::object rows, const EngineSettings& settings, const GpuSearch* gpu)
      : rows_(std::move(rows)), data_(data_of(rows_)), limits_(settings.limits) {
    limits_.max_depth = std::min(limits_.max_depth, kMaxDepth);
    engine_ = std::make_unique<Engine>(data_, settings.fitness, limits_, settings.search, machine(gpu));
  }

  // Trees that are not grown at random by the deadline are left out.
  void initialise(const nb::list& trees, double seconds) {
    std::vector<GrowTree> given;
    for (const nb::handle& tree : trees) given.push_back(tree_from_python(nb::cast<nb::dict>(tree), data_));
    const auto deadline = begin(seconds);
    const Released release;
    engine_->initialise(std::move(given), [&] { return poll(deadline); });
  }

  // Up to `generations` steps; stops early when the search is at rest, at the deadline and when Python has a pending
  // signal (Ctrl-C).
  nb::list step(int64_t generations, int64_t patience, double tolerance, double seconds, double least_work) {
    nb::list records;
    const auto deadline = begin(seconds);
    const std::function<bool()> stopped = [&] { return poll(deadline); };
    between_rounds_ = [this, deadline] { poll(deadline); };  // may outlive this call, if an error ends it
    for (int64_t g = 0; g < generations && !stopped(); ++g) {
      if (is_at_rest(patience, least_work)) break;
      GenerationRecord r;
      {
        const Released release;
        r = engine_->step(tolerance, stopped);
      }
      records.append(nb::make_tuple(r.generation, r.fitness, r.error, r.leaves, r.mean_leaves));
    }
    between_rounds_ = nullptr;
    return records;
  }

  // After `patience` generations without improvement, and not before this much work.
  bool is_at_rest(int64_t patience, double least_work) const {
    return engine_->generation() - engine_->last_improvement() >= patience && engine_->work() >= least_work;
  }
  double work() const { return engine_->work(); }
  bool interrupted() const { return interrupted_; }
  nb::dict best() const { return tree_to_python(engine_->best(), data_.n_features); }
  nb::list population() const {
    nb::list trees;
    for (const GrowTree& tree : engine_->population()) trees.append(tree_to_python(tree, data_.n_features));
    return trees;
  }
  nb::list met(double seconds) {
    const auto deadline = begin(seconds);
    std::vector<GrowTree> found;
    {
      const Released release;
      found = engine_->met([&] { return poll(deadline); });
    }
    nb::list trees;
    for (const GrowTree& tree : found) trees.append(tree_to_python(tree, data_.n_features));
    return trees;
  }
  nb::tuple gpu_counters() const {
    const Rounds rounds = engine_->tasks().rounds();
    return nb::make_tuple(rounds.count, rounds.seconds);
  }
  nb::tuple counters() const {
    const Tally tally = engine_->tally();
    return nb::make_tuple(engine_->generation(), engine_->last_improvement(), tally.n_evaluations, tally.rows_read);
  }

  nb::dict procedure_seconds() const {
    nb::dict seconds;
    const ProcedureSeconds total = engine_->tally().procedures;
    for (int p = 0; p < kProcedures; ++p) seconds[kProcedureNames[p]] = total[p];
    return seconds;
  }

  // The tree, and a second one after a crossover, as the named operator leaves them, evaluated.
  nb::list apply(const std::string& name, const nb::dict& tree, int node, const nb::object& other, int other_node,
                 uint64_t seed) {
    GrowTree a = tree_from_python(tree, data_),
             b = other.is_none() ? a : tree_from_python(nb::cast<nb::dict>(other), data_);
    engine_->apply(name, a, node, b, other_node, seed);
    nb::list results;
    for (const GrowTree* t : {&a, &b}) results.append(tree_to_python(*t, data_.n_features));
    return results;
  }

 private:
  SearchMachine machine(const GpuSearch* gpu) {
    if (gpu) return make_machine(*gpu, data_, limits_, [this] { between_rounds_ ? between_rounds_() : void(); });
    auto tasks = std::make_unique<ThreadRunner>();
    auto reader = std::make_unique<CpuRowSource>(data_, limits_, *tasks);
    return {std::move(tasks), std::move(reader)};
  }

  // The deadline of a call that begins.
  std::chrono::steady_clock::time_point begin(double seconds) {
    interrupted_ = false;
    caller_ = std::this_thread::get_id();
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(int64_t(std::clamp(seconds, 0.0, 1e9) * 1e3));
  }

  bool poll(std::chrono::steady_clock::time_point deadline) {
    if (interrupted_) return true;
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return true;
    if (!engine_->tasks().is_on_thread())
      return false;  // signal handlers are Python code, which needs the thread's own stack
    if (std::this_thread::get_id() != caller_ || now < next_poll_) return false;
    next_poll_ = now + std::chrono::milliseconds(50);
    const Acquired acquired;
    outlive_interpreter([this] {
      if (PyErr_CheckSignals() == 0) return;
      PyErr_Clear();
      interrupted_ = true;
    });
    return interrupted_;
  }

  nb::object rows_;  // whose arrays the engine borrows
  GrowData data_;
  GrowLimits limits_;
  std::unique_ptr<Engine> engine_;
  std::chrono::steady_clock::time_point next_poll_{};
  std::thread::id caller_;
  std::atomic<bool> interrupted_ = false;
  std::function<void()> between_rounds_;
};

// Every feature's order divided into the orders of parts, rows numbered within each: `bounds` are the rows between
// which the parts lie, part p's orders stand behind those of the parts before.
static void split_order(Matrix<int32_t> order, Vector<int64_t> bounds, nb::ndarray<int32_t, nb::ndim<1>> parts,
                        int n_threads) {
  const int64_t n_features = int64_t(order.shape(0)), n_rows = int64_t(order.shape(1));
  const int n_parts = int(bounds.size()) - 1;
  const Released release;
  ThreadPool pool(n_threads);
  pool.run(int(n_features), [&](int a, int) {
    std::vector<int32_t*> next;
    for (int p = 0; p < n_parts; ++p)
      next.push_back(parts.data() + n_features * bounds(p) + a * (bounds(p + 1) - bounds(p)));
    const int32_t* rows = order.data() + a * n_rows;
    for (int64_t i = 0; i < n_rows; ++i) {
      const int p = int(std::upper_bound(bounds.data() + 1, bounds.data() + n_parts, rows[i]) - bounds.data()) - 1;
      *next[p]++ = rows[i] - int32_t(bounds(p));
    }
  });
}

template <class T>
using Column = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Ranks, order, distinct values and starts of some rows of a column, as glasswood.grow.data.sorting.ranked finds them,
// from the ranks of all of its rows, of which n_known are distinct. O(n_rows + n_known).
static int64_t rank_again(Column<const int32_t> known, int64_t n_known, Column<const int32_t> rows,
                          Column<const double> values, Column<int32_t> ranks, Column<int32_t> order,
                          Column<double> distinct, Column<int32_t> starts) {
  struct Place {
    int32_t next, rank;  // in the order; first how many rows there are
  };
  const int64_t n_rows = int64_t(rows.size());
  const Released release;
  std::vector<Place> places(n_known + 1, Place{0, -1});  // the first one of missing values
  for (int64_t i = 0; i < n_rows; ++i) ++places[(ranks(i) = known(rows(i)) + 1)].next;
  int32_t at = std::exchange(places[0].next, 0), n_distinct = 0;
  for (auto place = places.begin() + 1; place != places.end(); ++place) {
    if (!place->next) continue;
    starts(n_distinct) = at, place->rank = n_distinct++;
    at += std::exchange(place->next, at);
  }
  starts(n_distinct) = at;
  for (int64_t i = 0; i < n_rows; ++i) {
    Place& place = places[ranks(i)];
    ranks(i) = place.rank, order(place.next++) = int32_t(i);
  }
  for (int32_t r = 0; r < n_distinct; ++r) distinct(r) = values(order(starts(r)));
  return n_distinct;
}

static void bind_settings(nb::module_& module) {
  using S = EngineSettings;
  using G = GrowSettings;
  nb::class_<S> bound(module, "GrowSettings", "What a user may set of the search.");
  bound.def(nb::init<>());
  bind_field<&S::fitness, &Fitness::bic>(bound, "bic"), bind_field<&S::fitness, &Fitness::n>(bound, "n");
  bind_field<&S::fitness, &Fitness::alpha>(bound, "alpha"),
      bind_field<&S::fitness, &Fitness::penalty>(bound, "penalty");
  bind_field<&S::fitness, &Fitness::split_weight>(bound, "split_weight");
  bind_field<&S::fitness, &Fitness::levels>(bound, "levels");
  bind_field<&S::limits, &GrowLimits::min_samples_leaf>(bound, "min_samples_leaf");
  bind_field<&S::limits, &GrowLimits::max_leaves>(bound, "max_leaves");
  bind_field<&S::limits, &GrowLimits::max_depth>(bound, "max_depth");
  bind_field<&S::limits, &GrowLimits::rows_per_parameter>(bound, "rows_per_parameter");
  bind_field<&S::limits, &GrowLimits::max_terms>(bound, "max_terms");
  bind_field<&S::limits, &GrowLimits::term>(bound, "term");
  bind_field<&S::search, &G::seed>(bound, "seed"), bind_field<&S::search, &G::population>(bound, "population");
  bind_field<&S::search, &G::crossover>(bound, "crossover"), bind_field<&S::search, &G::mutation>(bound, "mutation");
  bind_field<&S::search, &G::polish_interval>(bound, "polish_interval");
  bind_field<&S::search, &G::polish_random>(bound, "polish_random");
  bind_field<&S::search, &G::n_threads>(bound, "n_threads"),
      bind_field<&S::search, &G::cache_bytes>(bound, "cache_bytes");
  bind_field<&S::search, &G::by_qr>(bound, "qr"), bind_field<&S::search, &G::margin>(bound, "margin");
  using R = OperatorRates;
  bind_field<&S::search, &G::rates, &R::swap_subtrees>(bound, "swap_subtrees");
  bind_field<&S::search, &G::rates, &R::swap_splits>(bound, "swap_splits");
  bind_field<&S::search, &G::rates, &R::swap_branches>(bound, "swap_branches");
  bind_field<&S::search, &G::rates, &R::copy_better>(bound, "copy_better");
  bind_field<&S::search, &G::rates, &R::new_split>(bound, "new_split");
  bind_field<&S::search, &G::rates, &R::shift_threshold>(bound, "shift_threshold");
  bind_field<&S::search, &G::rates, &R::prune>(bound, "prune"),
      bind_field<&S::search, &G::rates, &R::search_threshold>(bound, "search_threshold");
  bind_field<&S::search, &G::rates, &R::expand>(bound, "expand");
  bind_field<&S::search, &G::rates, &R::change_model>(bound, "change_model");
  using M = PolishMoves;
  bind_field<&S::search, &G::moves, &M::models>(bound, "polish_models");
  bind_field<&S::search, &G::moves, &M::variants>(bound, "polish_variants");
  bind_field<&S::search, &G::moves, &M::thresholds>(bound, "polish_thresholds");
  bind_field<&S::search, &G::moves, &M::splits>(bound, "polish_splits");
  bind_field<&S::search, &G::moves, &M::pull_ups>(bound, "polish_pull_ups");
  bind_field<&S::search, &G::moves, &M::rotations>(bound, "polish_rotations");
}

void bind_grow(nb::module_& module) {
  bind_settings(module);
  bind_grow_gpu(module);
  module.def("split_order", &split_order, nb::arg("order"), nb::arg("bounds"), nb::arg("parts"), nb::arg("n_threads"),
             "Write every feature's order of rows as the orders of contiguous parts.");
  module.def("rank_again", &rank_again, nb::arg("known"), nb::arg("n_known"), nb::arg("rows"), nb::arg("values"),
             nb::arg("ranks"), nb::arg("order"), nb::arg("distinct"), nb::arg("starts"),
             "Rank some rows of a column whose ranks are known; returns how many values are distinct.");
  nb::class_<GrowBinding>(module, "GrowEngine", "Evolutionary search for a model tree.")
      .def(nb::init<nb::object, const EngineSettings&, const GpuSearch*>(), nb::arg("rows"), nb::arg("settings"),
           nb::arg("gpu").none())
      .def("initialise", &GrowBinding::initialise, nb::arg("trees"),
           nb::arg("seconds") = std::numeric_limits<double>::infinity(),
           "Evaluate given trees and random ones, as many as the seconds allow.")
      .def("step", &GrowBinding::step, nb::arg("generations"), nb::arg("patience"), nb::arg("tolerance"),
           nb::arg("seconds"), nb::arg("least_work") = 0.0,
           "Records (generation, fitness, error, leaves, mean leaves) of the generations run.")
      .def("best", &GrowBinding::best, "The best tree so far, as arrays by node.")
      .def("population", &GrowBinding::population, "All trees of the current generation.")
      .def("met", &GrowBinding::met, nb::arg("seconds") = std::numeric_limits<double>::infinity(),
           "Trees of other splits near the best one, the fittest first.")
      .def("apply", &GrowBinding::apply, nb::arg("name"), nb::arg("tree"), nb::arg("node"), nb::arg("other").none(),
           nb::arg("other_node"), nb::arg("seed"), "Apply one operator to one or two trees.")
      .def("is_at_rest", &GrowBinding::is_at_rest, nb::arg("patience"), nb::arg("least_work") = 0.0,
           "Whether the search has come to rest.")
      .def_prop_ro("work", &GrowBinding::work, "Trees evaluated and rows read, in seconds of one CPU core.")
      .def_prop_ro("interrupted", &GrowBinding::interrupted, "Whether Ctrl-C ended the last step.")
      .def_prop_ro("gpu_counters", &GrowBinding::gpu_counters,
                   "Rounds of launches, and seconds from their requests to the answers.")
      .def_prop_ro("procedure_seconds", &GrowBinding::procedure_seconds,
                   "Seconds of the paper's procedures, summed over threads.")
      .def_prop_ro("counters", &GrowBinding::counters, "Generation, last improvement, trees evaluated, rows read.");
}

}  // namespace glasswood
