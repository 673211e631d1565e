// One row of the host at a time on a GPU: the row is an argument of the launch, or lies in page-locked memory if it is
// too long, and the margins are written to such memory, which is watched: that takes less time than to ask the driver.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>

#include "common/row_buffer.h"
#include "evaluate/cuda/launch.h"

namespace silva {

namespace {

constexpr std::chrono::microseconds WATCHED{200};

// Buffers and stream of a call at a time.
struct Lane {
  nb::object owner;
  GpuLaunch launch;
  void *row, *result, *stream;
  void* context = nullptr;
};

// Makes a context the current one while it exists.
class Entered {
 public:
  Entered(const CudaDriver& driver, void* context) : driver_(driver) {
    driver.get_context(&before_);
    changes_ = before_ != context;
    if (changes_) driver.set_context(context);
  }
  ~Entered() {
    if (changes_) driver_.set_context(before_);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  const CudaDriver& driver_;
  void* before_ = nullptr;
  bool changes_;
};

}  // namespace

class GpuRowPredictor {
 public:
  // make_lane(type code): owner, recipe of the launch, addresses of the row and the margins on the host, stream.
  // unwritten: the upper word of a margin to come.
  GpuRowPredictor(const CudaDriver::Addresses& driver, int gpu, int64_t n_features, int64_t n_outputs, bool is_single,
                  uint32_t unwritten, nb::object make_lane, nb::object reduced)
      : driver_(CudaDriver::at(driver)),
        gpu_(gpu),
        n_features_(n_features),
        n_outputs_(n_outputs),
        is_single_(is_single),
        unwritten_(unwritten),
        make_lane_(std::move(make_lane)),
        reduced_(std::move(reduced)) {}
  GpuRowPredictor(const GpuRowPredictor&) = delete;

  nb::object operator()(nb::handle row) {
    const RowBuffer buffer(row, n_features_);
    auto& idle = idle_[buffer.is_double];
    std::unique_ptr<Lane> lane;
    if (idle.empty()) {
      lane = make(buffer.is_double);
    } else {
      lane = std::move(idle.back());
      idle.pop_back();
    }
    std::memcpy(lane->row, buffer.view.buf, size_t(buffer.view.len));
    int code;
    {
      Released released;
      code = run(*lane);
    }
    // A lane whose launch failed is not used again.
    if (code != 0) raise_device_error(driver_, code, gpu_);
    nb::object result = is_single_ ? to_object<float>(*lane) : to_object<double>(*lane);
    idle.push_back(std::move(lane));
    return result;
  }

  nb::object reduced() const { return reduced_; }

  // For the collector of cycles: a forest keeps predictors, which name the forest.
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    const GpuRowPredictor& predictor = *nb::inst_ptr<GpuRowPredictor>(self);
    Py_VISIT(predictor.make_lane_.ptr());
    Py_VISIT(predictor.reduced_.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    GpuRowPredictor& predictor = *nb::inst_ptr<GpuRowPredictor>(self);
    predictor.make_lane_.reset();
    predictor.reduced_.reset();
    return 0;
  }

 private:
  CudaDriver driver_;
  int gpu_;
  int64_t n_features_, n_outputs_;
  bool is_single_;
  uint32_t unwritten_;
  nb::object make_lane_, reduced_;
  std::vector<std::unique_ptr<Lane>> idle_[2];

  std::unique_ptr<Lane> make(bool is_double) const {
    const nb::tuple made = nb::cast<nb::tuple>(make_lane_(is_double ? "d" : "f"));
    const auto at = [&](int i) { return reinterpret_cast<void*>(nb::cast<uint64_t>(made[i])); };
    auto lane = std::make_unique<Lane>(Lane{made[0], GpuLaunch(nb::cast<LaunchRecipe>(made[1])), at(2), at(3), at(4)});
    if (const int code = driver_.stream_context(lane->stream, &lane->context)) raise_device_error(driver_, code, gpu_);
    return lane;
  }

  int run(Lane& lane) const {
    const Entered entered(driver_, lane.context);
    const bool is_watched = n_outputs_ == 1;
    volatile uint32_t* const last = static_cast<uint32_t*>(lane.result) + (is_single_ ? 0 : 1);
    if (is_watched) *last = unwritten_;
    if (const int code = lane.launch.start(driver_, lane.stream)) return code;
    return is_watched && watch(last) ? 0 : driver_.synchronize(lane.stream);
  }

  bool watch(const volatile uint32_t* word) const {
    const auto until = std::chrono::steady_clock::now() + WATCHED;
    do {
      for (int look = 0; look < 64; ++look)
        if (*word != unwritten_) {
          std::atomic_thread_fence(std::memory_order_acquire);
          return true;
        }
    } while (std::chrono::steady_clock::now() < until);
    return false;
  }

  template <class Real>
  nb::object to_object(const Lane& lane) const {
    const Real* const margins = static_cast<const Real*>(lane.result);
    if (n_outputs_ == 1) return nb::float_(double(margins[0]));
    return nb::cast(to_numpy(std::vector<Real>(margins, margins + n_outputs_)));
  }
};

void bind_gpu_row(nb::module_& module) {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&GpuRowPredictor::traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&GpuRowPredictor::clear)},
                                {0, nullptr}};
  nb::class_<GpuRowPredictor>(module, "GpuRowPredictor", nb::type_slots(slots),
                              "Predicts one row of the host a call, on a GPU.")
      .def(nb::init<const CudaDriver::Addresses&, int, int64_t, int64_t, bool, uint32_t, nb::object, nb::object>(),
           nb::arg("driver"), nb::arg("gpu"), nb::arg("n_features"), nb::arg("n_outputs"), nb::arg("is_single"),
           nb::arg("unwritten"), nb::arg("make_lane"), nb::arg("reduced"))
      .def("__call__", &GpuRowPredictor::operator(), nb::arg("row").none())
      .def("__reduce__", &GpuRowPredictor::reduced);
}

}  // namespace silva
