// One row of the host at a time on a GPU: the row is an argument of the launch, or lies in page-locked memory if it is
// too long, and the margins are written to such memory, which is watched: that takes less time than to ask the driver.
#include <atomic>
#include <chrono>
#include <cstring>

#include "common/cuda/launch.h"
#include "common/row_buffer.h"

namespace glasswood {

// What Python lays out for one call at a time: launch, addresses of the row and the margins on the host, and the
// stream.
struct GpuRowBuffers {
  nb::object owner;
  GpuLaunch launch;
  uint64_t row, result, stream;
  void* context = nullptr;

  GpuRowBuffers(nb::object owner, const GpuLaunch& launch, uint64_t row, uint64_t result, uint64_t stream)
      : owner(std::move(owner)), launch(launch), row(row), result(result), stream(stream) {}
};

namespace {

constexpr std::chrono::microseconds WATCHED{200};

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
  // make_buffers(type code of the row): GpuRowBuffers. unwritten: the upper word of a margin to come.
  GpuRowPredictor(const CudaDriver::Addresses& driver, int gpu, int64_t n_features, int64_t n_outputs, bool is_single,
                  uint32_t unwritten, nb::object make_buffers, nb::object reduced)
      : driver_(CudaDriver::at(driver)),
        gpu_(gpu),
        n_features_(n_features),
        n_outputs_(n_outputs),
        is_single_(is_single),
        unwritten_(unwritten),
        make_buffers_(std::move(make_buffers)),
        reduced_(std::move(reduced)) {}
  GpuRowPredictor(const GpuRowPredictor&) = delete;

  nb::object operator()(nb::handle row) {
    const RowBuffer buffer(row, n_features_);
    auto& idle = idle_[buffer.is_double];
    if (idle.empty()) idle.push_back(make(buffer.is_double));
    GpuRowBuffers buffers = std::move(idle.back());
    idle.pop_back();
    std::memcpy(pointer<void>(buffers.row), buffer.values, size_t(buffer.view.len));
    int code;
    {
      Released released;
      code = run(buffers);
    }
    // Buffers whose launch failed are not used again.
    if (code != 0) raise_device_error(driver_, code, gpu_);
    nb::object result = is_single_ ? to_object<float>(buffers) : to_object<double>(buffers);
    idle.push_back(std::move(buffers));
    return result;
  }

  nb::object reduced() const { return reduced_; }

  // For the collector of cycles: a forest keeps predictors, which name the forest.
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    const GpuRowPredictor& predictor = *nb::inst_ptr<GpuRowPredictor>(self);
    Py_VISIT(predictor.make_buffers_.ptr());
    Py_VISIT(predictor.reduced_.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    GpuRowPredictor& predictor = *nb::inst_ptr<GpuRowPredictor>(self);
    predictor.make_buffers_.reset();
    predictor.reduced_.reset();
    return 0;
  }

 private:
  CudaDriver driver_;
  int gpu_;
  int64_t n_features_, n_outputs_;
  bool is_single_;
  uint32_t unwritten_;
  nb::object make_buffers_, reduced_;
  std::vector<GpuRowBuffers> idle_[2];

  template <class T>
  static T* pointer(uint64_t address) {
    return reinterpret_cast<T*>(address);
  }

  GpuRowBuffers make(bool is_double) const {
    auto buffers = nb::cast<GpuRowBuffers>(make_buffers_(is_double ? "d" : "f"));
    if (const int code = driver_.stream_context(pointer<void>(buffers.stream), &buffers.context))
      raise_device_error(driver_, code, gpu_);
    return buffers;
  }

  int run(const GpuRowBuffers& buffers) const {
    const Entered entered(driver_, buffers.context);
    const bool is_watched = n_outputs_ == 1;
    volatile uint32_t* const last = pointer<uint32_t>(buffers.result) + (is_single_ ? 0 : 1);
    if (is_watched) *last = unwritten_;
    void* const stream = pointer<void>(buffers.stream);
    if (const int code = buffers.launch.start(driver_, stream)) return code;
    return is_watched && watch(last) ? 0 : driver_.synchronize(stream);
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
  nb::object to_object(const GpuRowBuffers& buffers) const {
    const Real* const margins = pointer<const Real>(buffers.result);
    if (n_outputs_ == 1) return nb::float_(double(margins[0]));
    return nb::cast(to_numpy(std::vector<Real>(margins, margins + n_outputs_)));
  }
};

void bind_gpu_row(nb::module_& module) {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&GpuRowPredictor::traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&GpuRowPredictor::clear)},
                                {0, nullptr}};
  nb::class_<GpuRowBuffers>(module, "GpuRowBuffers", "What one call of a GpuRowPredictor at a time needs.")
      .def(nb::init<nb::object, const GpuLaunch&, uint64_t, uint64_t, uint64_t>(), nb::arg("owner"), nb::arg("launch"),
           nb::arg("row"), nb::arg("result"), nb::arg("stream"));
  nb::class_<GpuRowPredictor>(module, "GpuRowPredictor", nb::type_slots(slots),
                              "Predicts one row of the host a call, on a GPU.")
      .def(nb::init<const CudaDriver::Addresses&, int, int64_t, int64_t, bool, uint32_t, nb::object, nb::object>(),
           nb::arg("driver"), nb::arg("gpu"), nb::arg("n_features"), nb::arg("n_outputs"), nb::arg("is_single"),
           nb::arg("unwritten"), nb::arg("make_buffers"), nb::arg("reduced"))
      .def("__call__", &GpuRowPredictor::operator(), nb::arg("row").none(), nb::lock_self())
      .def("__reduce__", &GpuRowPredictor::reduced);
}

}  // namespace glasswood
