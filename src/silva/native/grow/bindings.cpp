// Bindings of the engine that grows trees.
#include "common/bindings.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "common/instruction_set.h"
#include "grow/search/engine.h"

#if defined(__linux__) && __has_include(<ucontext.h>)
#include "grow/cuda/host/threshold_search.h"
#define SILVA_GROW_GPU
#endif

namespace silva {

const GrowKernels& grow_kernels() {
#ifdef SILVA_X86
  static const InstructionSet set = instruction_set();
  static const GrowKernels& chosen = set == InstructionSet::kV4   ? grow_v4::kernels
                                     : set == InstructionSet::kV3 ? grow_v3::kernels
                                                                  : grow_v2::kernels;
  return chosen;
#else
  return grow_baseline::kernels;
#endif
}

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// float64 or float32.
using StoredMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

static StoredRows stored_rows(const StoredMatrix& z) {
  if (z.dtype() == nb::dtype<double>()) return {static_cast<const double*>(z.data()), nullptr, z.shape(1)};
  if (z.dtype() == nb::dtype<float>()) return {nullptr, static_cast<const float*>(z.data()), z.shape(1)};
  throw std::invalid_argument("z holds neither float64 nor float32");
}

using Numbers = std::map<std::string, double>;

static double number(const Numbers& numbers, const std::string& name) {
  const auto found = numbers.find(name);
  if (found == numbers.end()) throw std::invalid_argument("the engine needs a setting named " + name);
  return found->second;
}

static nb::dict tree_to_python(const GrowTree& tree, int n_attributes) {
  const size_t n = tree.nodes.size();
  std::vector<int32_t> attribute(n), cut(n), left(n), right(n);
  std::vector<uint8_t> missing_left(n), model(n * n_attributes);
  std::vector<int64_t> n_rows(n);
  std::vector<double> error(n);
  for (size_t v = 0; v < n; ++v) {
    const GrowNode& node = tree.nodes[v];
    attribute[v] = node.test.attribute, cut[v] = node.test.cut, missing_left[v] = node.test.missing_left;
    left[v] = node.left, right[v] = node.right, n_rows[v] = node.n_rows, error[v] = node.error;
    for (int a = 0; a < n_attributes && node.is_leaf(); ++a) model[v * n_attributes + a] = node.model.has(a);
  }
  nb::dict result;
  result["attribute"] = to_numpy(std::move(attribute));
  result["cut"] = to_numpy(std::move(cut));
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
  const auto attribute = nb::cast<Vector<int32_t>>(arrays["attribute"]);
  const auto cut = nb::cast<Vector<int32_t>>(arrays["cut"]);
  const auto missing_left = nb::cast<Vector<uint8_t>>(arrays["missing_left"]);
  const auto left = nb::cast<Vector<int32_t>>(arrays["left"]);
  const auto right = nb::cast<Vector<int32_t>>(arrays["right"]);
  const auto model = nb::cast<Vector<uint8_t>>(arrays["model"]);
  GrowTree tree;
  for (size_t v = 0; v < attribute.size(); ++v) {
    GrowNode node;
    if (attribute(v) >= data.n_attributes) throw std::invalid_argument("the tree tests an attribute that is not there");
    node.test = {attribute(v), cut(v), missing_left(v) != 0};
    node.left = left(v), node.right = right(v);
    if (!node.is_leaf() && (node.left != int(v) + 1 || node.right <= node.left || node.right >= int(attribute.size())))
      throw std::invalid_argument("the tree is not in preorder");
    node.model = AttributeSet(data.n_attributes);
    for (int a = 0; a < data.n_attributes; ++a)
      if (data.column[a] >= 0) node.model.set(a, model(v * data.n_attributes + a) != 0);
    tree.nodes.push_back(std::move(node));
  }
  return tree;
}

#ifdef SILVA_GROW_GPU
using Addresses = std::map<std::string, uint64_t>;

static StreamHandles stream_handles(const Addresses& a) {
  StreamHandles h{};
  for (auto [name, field] : {std::pair{"stream", &h.stream},
                             {"packet", &h.packet},
                             {"packet_host", &h.packet_host},
                             {"results", &h.results},
                             {"results_host", &h.results_host},
                             {"grid_sums", &h.grid_sums},
                             {"parts", &h.parts},
                             {"part_counts", &h.part_counts},
                             {"sum_rows", &h.sum_rows},
                             {"add_parts", &h.add_parts},
                             {"count_rows", &h.count_rows},
                             {"list_rows", &h.list_rows},
                             {"count_ranks", &h.count_ranks},
                             {"find_cuts", &h.find_cuts},
                             {"advance_sums", &h.advance_sums},
                             {"solve_cuts", &h.solve_cuts}})
    *field = a.at(name);
  h.packet_bytes = a.at("packet_bytes"), h.results_bytes = a.at("results_bytes");
  h.grid_sums_bytes = a.at("grid_sums_bytes");
  h.n_parts = a.at("n_parts"), h.n_counts = a.at("n_counts");
  h.gpu = int(a.at("gpu")), h.n_processors = int(a.at("n_processors")), h.stride = int(a.at("stride"));
  return h;
}

static GpuPart gpu_part(const Addresses& a) {
  GpuPart part{};
  part.first = int64_t(a.at("first")), part.n_rows = int64_t(a.at("n_rows")), part.stream = int(a.at("stream"));
  part.z = a.at("z"), part.ranks = a.at("ranks"), part.order = a.at("order");
  part.zones = a.at("zones");
  part.z_host = a.at("z_host"), part.ranks_host = a.at("ranks_host"), part.order_host = a.at("order_host");
  part.ranks_host_step = int64_t(a.at("ranks_host_step")), part.z_bytes = int64_t(a.at("z_bytes"));
  part.lists = a.at("lists"), part.list_bytes = int64_t(a.at("list_bytes"));
  part.list_sums = a.at("list_sums"), part.list_sums_bytes = int64_t(a.at("list_sums_bytes"));
  return part;
}

static QrHandles qr_handles(const Addresses& a) {
  QrHandles h{};
  for (auto [name, field] : {std::pair{"z", &h.z},
                             {"ranks", &h.ranks},
                             {"stream", &h.stream},
                             {"leaves", &h.leaves},
                             {"sorted_leaves", &h.sorted_leaves},
                             {"sorted_rows", &h.sorted_rows},
                             {"spare_rows", &h.spare_rows},
                             {"tile_counts", &h.tile_counts},
                             {"matrices", &h.matrices},
                             {"triangles", &h.triangles},
                             {"means", &h.means},
                             {"coefficients", &h.coefficients},
                             {"chunks", &h.chunks},
                             {"packet", &h.packet},
                             {"packet_host", &h.packet_host},
                             {"results", &h.results},
                             {"redistribute", &h.redistribute},
                             {"count_keys", &h.count_keys},
                             {"scan_keys", &h.scan_keys},
                             {"separate", &h.separate},
                             {"average_columns", &h.average_columns},
                             {"reorganise", &h.reorganise},
                             {"factorise", &h.factorise},
                             {"calc_models", &h.calc_models},
                             {"estimate_errors", &h.estimate_errors},
                             {"reduction", &h.reduction}})
    *field = a.at(name);
  h.packet_bytes = a.at("packet_bytes"), h.results_bytes = a.at("results_bytes");
  h.n_triangle_doubles = a.at("n_triangle_doubles"), h.n_coefficients = a.at("n_coefficients");
  h.stride = int(a.at("stride")), h.gpu = int(a.at("gpu"));
  for (int i = 0; i < kQrEvents; ++i) h.events[i] = a.at("event" + std::to_string(i));
  return h;
}
#endif

// Numbers and addresses of the GPUs: one record of the search, those of its streams and of the parts of the rows.
using GpuArguments = std::map<std::string, std::vector<std::map<std::string, uint64_t>>>;

// Owns references to the arrays that the engine borrows.
class GrowBinding {
 public:
  GrowBinding(StoredMatrix z, Vector<double> y, Matrix<int32_t> ranks, Matrix<int32_t> order, Vector<double> values,
              Vector<int32_t> starts, Vector<int64_t> offsets, Vector<int32_t> column, Vector<int32_t> indicator,
              int width, const Numbers& settings, const std::optional<GpuArguments>& gpu)
      : z_(z), y_(y), ranks_(ranks), order_(order), values_(values), starts_(starts) {
    data_.n_rows = int64_t(ranks.shape(1));
    data_.n_attributes = int(ranks.shape(0));
    data_.width = width;
    data_.z = stored_rows(z);
    data_.y = y.data(), data_.ranks = ranks.data(), data_.order = order.data();
    data_.column.assign(column.data(), column.data() + column.size());
    data_.indicator.assign(indicator.data(), indicator.data() + indicator.size());
    for (int a = 0; a < data_.n_attributes; ++a) {
      data_.values.push_back(values.data() + offsets(a));
      data_.starts.push_back(starts.data() + offsets(a) + a);
      data_.n_distinct.push_back(int32_t(offsets(a + 1) - offsets(a)));
    }
    engine_ = std::make_unique<Engine>(data_, read_fitness(settings), read_limits(settings), read_settings(settings),
                                       size_t(number(settings, "cache_bytes")), make_reader(gpu));
  }

  void initialise(const nb::list& trees) {
    std::vector<GrowTree> given;
    for (const nb::handle& tree : trees) given.push_back(tree_from_python(nb::cast<nb::dict>(tree), data_));
    nb::gil_scoped_release release;
    engine_->initialise(std::move(given));
  }

  // Up to `generations` steps; stops early after `patience` generations without improvement, at the deadline and
  // when Python has a pending signal (Ctrl-C).
  nb::list step(int64_t generations, int64_t patience, double tolerance, double seconds) {
    nb::list records;
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(int64_t(std::min(seconds, 1e9) * 1e3));
    interrupted_ = false;
    caller_ = std::this_thread::get_id();
    const std::function<bool()> stopped = [&] { return poll(deadline); };
    between_rounds_ = [this, deadline] { poll(deadline); };  // may outlive this call, if an error ends it
    for (int64_t g = 0; g < generations && !stopped(); ++g) {
      if (engine_->generation() - engine_->last_improvement() >= patience) break;
      GenerationRecord r;
      {
        nb::gil_scoped_release release;
        r = engine_->step(tolerance, stopped);
      }
      records.append(nb::make_tuple(r.generation, r.fitness, r.error, r.leaves, r.mean_leaves));
    }
    between_rounds_ = nullptr;
    return records;
  }

  bool interrupted() const { return interrupted_; }
  nb::dict best() const { return tree_to_python(engine_->best(), data_.n_attributes); }
  nb::list population() const {
    nb::list trees;
    for (const GrowTree& tree : engine_->population()) trees.append(tree_to_python(tree, data_.n_attributes));
    return trees;
  }
  nb::tuple gpu_counters() const {
#ifdef SILVA_GROW_GPU
    if (gpu_) return nb::make_tuple(gpu_->n_rounds(), gpu_->seconds());
#endif
    return nb::make_tuple(int64_t(0), 0.0);
  }
  nb::tuple counters() const {
    return nb::make_tuple(engine_->generation(), engine_->last_improvement(), engine_->n_evaluations(),
                          engine_->rows_read());
  }

  nb::dict procedure_seconds() const {
    nb::dict seconds;
    const ProcedureSeconds total = engine_->procedure_seconds();
    for (int p = 0; p < kProcedures; ++p) seconds[kProcedureNames[p]] = total[p];
    return seconds;
  }

  // The tree, and a second one after a crossover, as the named operator leaves them, evaluated.
  nb::list apply(const std::string& name, const nb::dict& tree, int node, const nb::object& other, int other_node,
                 uint64_t seed) {
    GrowTree a = tree_from_python(tree, data_),
             b = other.is_none() ? a : tree_from_python(nb::cast<nb::dict>(other), data_);
    engine_->apply_alone(seed, [&](const OperatorContext& c) {
      for (GrowTree* t : {&a, &b}) c.evaluator.evaluate(*t, c.layer, c.scratch);
      apply_named(name, a, node, b, other_node, c);
      if (name == "evaluate_by_qr") return;
      for (GrowTree* t : {&a, &b}) c.evaluator.evaluate(*t, c.layer, c.scratch);
    });
    nb::list results;
    for (const GrowTree* t : {&a, &b}) results.append(tree_to_python(*t, data_.n_attributes));
    return results;
  }

 private:
  void apply_named(const std::string& name, GrowTree& a, int v, GrowTree& b, int w, const OperatorContext& c) const {
    if (name == "evaluate") return;
    if (name == "evaluate_by_qr") return c.evaluator.evaluate_by_qr(a, c.scratch);
    if (name == "swap_subtrees") return swap_subtrees(a, v, b, w);
    if (name == "swap_tests") return swap_tests(a, v, b, w);
    if (name == "swap_branches") return swap_branches(a, v, b, w, c.random);
    if (name == "copy_better") return copy_better(a, v, b, w);
    const std::function<bool()> never = [] { return false; };
    if (name == "new_test")
      a = new_test(c, a, v);
    else if (name == "shift_threshold")
      a = shift_threshold(c, a, v);
    else if (name == "prune")
      a = prune(c, a, v);
    else if (name == "sweep")
      a = sweep_node(c, a, v);
    else if (name == "expand")
      a = expand(c, a, v);
    else if (name == "change_model")
      a = change_model(c, a, v);
    else if (name == "polish")
      a = engine_->polished(a, kThorough, c, never);
    else
      throw std::invalid_argument("there is no operator named " + name);
  }

  bool poll(std::chrono::steady_clock::time_point deadline) {
    if (interrupted_) return true;
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return true;
    if (is_on_fiber()) return false;  // signal handlers are Python code, which needs the thread's own stack
    if (std::this_thread::get_id() != caller_ || now < next_poll_) return false;
    next_poll_ = now + std::chrono::milliseconds(50);
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() == 0) return false;
    PyErr_Clear();
    interrupted_ = true;
    return true;
  }

  std::unique_ptr<RowReader> make_reader(const std::optional<GpuArguments>& gpu) {
    if (!gpu) return std::make_unique<CoreReader>(data_, grow_kernels());
#ifdef SILVA_GROW_GPU
    const Addresses& search = gpu->at("search").at(0);
    const GpuSettings settings{int64_t(search.at("core_work")), int(search.at("n_lists")), int(search.at("n_cells")),
                               int(search.at("sectors")), double(search.at("solve_work"))};
    std::vector<StreamHandles> streams;
    std::vector<GpuPart> parts;
    for (const Addresses& stream : gpu->at("streams")) streams.push_back(stream_handles(stream));
    for (const Addresses& part : gpu->at("parts")) parts.push_back(gpu_part(part));
    auto reader =
        std::make_unique<GpuReader>(data_, grow_kernels(), settings, streams, std::move(parts),
                                    gpu->contains("qr") ? qr_handles(gpu->at("qr").at(0)) : QrHandles{},
                                    CudaDriver::at(search), [this] { between_rounds_ ? between_rounds_() : void(); });
    gpu_ = reader.get();
    return reader;
#else
    throw std::runtime_error("growing on GPUs needs Linux with glibc; use device='cpu'");
#endif
  }

  static bool is_on_fiber() {
#ifdef SILVA_GROW_GPU
    return Fiber::current() != nullptr;
#else
    return false;
#endif
  }

  static Fitness read_fitness(const Numbers& n) {
    return {number(n, "bic") != 0, number(n, "n"), number(n, "alpha"), number(n, "penalty"), number(n, "test_weight")};
  }

  static GrowLimits read_limits(const Numbers& n) {
    return {int(number(n, "min_samples_leaf")), int(number(n, "max_leaves")),
            std::min(int(number(n, "max_depth")), kMaxDepth), number(n, "rows_per_parameter")};
  }

  static GrowSettings read_settings(const Numbers& n) {
    GrowSettings s;
    s.seed = uint64_t(number(n, "seed"));
    s.population = int(number(n, "population"));
    s.crossover = number(n, "crossover"), s.mutation = number(n, "mutation");
    s.polish_interval = int(number(n, "polish_interval")), s.polish_random = int(number(n, "polish_random"));
    s.n_threads = int(number(n, "n_threads")), s.by_qr = number(n, "qr") != 0;
    OperatorRates& r = s.rates;
    for (auto [name, rate] : {std::pair{"swap_subtrees", &r.swap_subtrees},
                              {"swap_tests", &r.swap_tests},
                              {"swap_branches", &r.swap_branches},
                              {"copy_better", &r.copy_better},
                              {"new_test", &r.new_test},
                              {"shift_threshold", &r.shift_threshold},
                              {"prune", &r.prune},
                              {"sweep", &r.sweep},
                              {"expand", &r.expand},
                              {"change_model", &r.change_model}})
      *rate = number(n, name);
    PolishMoves& m = s.moves;
    for (auto [name, on] : {std::pair{"polish_models", &m.models},
                            {"polish_variants", &m.variants},
                            {"polish_sweeps", &m.sweeps},
                            {"polish_splits", &m.splits},
                            {"polish_pull_ups", &m.pull_ups},
                            {"polish_rotations", &m.rotations},
                            {"polish_repairs", &m.repairs}})
      *on = number(n, name) != 0;
    return s;
  }

  StoredMatrix z_;
  Vector<double> y_;
  Matrix<int32_t> ranks_, order_;
  Vector<double> values_;
  Vector<int32_t> starts_;
  GrowData data_;
  std::unique_ptr<Engine> engine_;
  std::chrono::steady_clock::time_point next_poll_{};
  std::thread::id caller_;
  std::atomic<bool> interrupted_ = false;
  std::function<void()> between_rounds_;
#ifdef SILVA_GROW_GPU
  const GpuReader* gpu_ = nullptr;  // the engine's
#endif
};

// Every attribute's order cut into the orders of parts, rows numbered within each: `bounds` are the rows between which
// the parts lie, part p's orders stand behind those of the parts before.
static void split_order(Matrix<int32_t> order, Vector<int64_t> bounds, nb::ndarray<int32_t, nb::ndim<1>> parts,
                        int n_threads) {
  const int64_t n_attributes = int64_t(order.shape(0)), n_rows = int64_t(order.shape(1));
  const int n_parts = int(bounds.size()) - 1;
  nb::gil_scoped_release release;
  ThreadPool pool(n_threads);
  pool.run(int(n_attributes), [&](int a, int) {
    std::vector<int32_t*> next;
    for (int p = 0; p < n_parts; ++p)
      next.push_back(parts.data() + n_attributes * bounds(p) + a * (bounds(p + 1) - bounds(p)));
    const int32_t* rows = order.data() + a * n_rows;
    for (int64_t i = 0; i < n_rows; ++i) {
      const int p = int(std::upper_bound(bounds.data() + 1, bounds.data() + n_parts, rows[i]) - bounds.data()) - 1;
      *next[p]++ = rows[i] - int32_t(bounds(p));
    }
  });
}

void bind_grow(nb::module_& module) {
  module.def("split_order", &split_order, nb::arg("order"), nb::arg("bounds"), nb::arg("parts"), nb::arg("n_threads"),
             "Write every attribute's order of rows as the orders of contiguous parts.");
  nb::class_<GrowBinding>(module, "GrowEngine", "Evolutionary search for a model tree.")
      .def(nb::init<StoredMatrix, Vector<double>, Matrix<int32_t>, Matrix<int32_t>, Vector<double>, Vector<int32_t>,
                    Vector<int64_t>, Vector<int32_t>, Vector<int32_t>, int, const Numbers&,
                    const std::optional<GpuArguments>&>(),
           nb::arg("z"), nb::arg("y"), nb::arg("ranks"), nb::arg("order"), nb::arg("values"), nb::arg("starts"),
           nb::arg("offsets"), nb::arg("column"), nb::arg("indicator"), nb::arg("width"), nb::arg("settings"),
           nb::arg("gpu") = nb::none())
      .def("initialise", &GrowBinding::initialise, nb::arg("trees"), "Evaluate given trees and random ones.")
      .def("step", &GrowBinding::step, nb::arg("generations"), nb::arg("patience"), nb::arg("tolerance"),
           nb::arg("seconds"), "Records (generation, fitness, error, leaves, mean leaves) of the generations run.")
      .def("best", &GrowBinding::best, "The best tree so far, as arrays by node.")
      .def("population", &GrowBinding::population, "All trees of the current generation.")
      .def("apply", &GrowBinding::apply, nb::arg("name"), nb::arg("tree"), nb::arg("node"), nb::arg("other").none(),
           nb::arg("other_node"), nb::arg("seed"), "Apply one operator to one or two trees.")
      .def_prop_ro("interrupted", &GrowBinding::interrupted, "Whether Ctrl-C ended the last step.")
      .def_prop_ro("gpu_counters", &GrowBinding::gpu_counters,
                   "Rounds of launches, and seconds from their questions to the answers.")
      .def_prop_ro("procedure_seconds", &GrowBinding::procedure_seconds,
                   "Seconds of the paper's procedures, summed over threads.")
      .def_prop_ro("counters", &GrowBinding::counters, "Generation, last improvement, trees evaluated, rows read.");
}

}  // namespace silva
