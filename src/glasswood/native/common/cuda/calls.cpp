// Calls on GPU rows like earlier ones. A launch for one row takes the GPU as long as a few tens of Python's operations
// take the host, so what is the same from call to call is compared and done here.
#include <algorithm>
#include <memory>

#include "common/cuda/launch.h"

namespace glasswood {

namespace {

// Attributes of CuPy's arrays, which hold the rows' memory, and of its memory.
struct AttributeNames {
  PyObject *data, *ptr, *device, *shape, *strides, *dtype;
  static const AttributeNames& get() {
    const auto name = [](const char* text) { return PyUnicode_InternFromString(text); };
    static const AttributeNames names{name("data"),  name("ptr"),     name("device_id"),
                                      name("shape"), name("strides"), name("dtype")};
    return names;
  }
};

nb::object attribute(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GetAttr(object, name);
  if (!found) throw nb::python_error();
  return nb::steal(found);
}

uint64_t integer(const nb::object& number) {
  const uint64_t value = PyLong_AsUnsignedLongLong(number.ptr());
  if (value == uint64_t(-1) && PyErr_Occurred()) throw nb::python_error();
  return value;
}

bool are_equal(PyObject* a, PyObject* b) {
  if (a == b) return true;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) throw nb::python_error();
  return equal == 1;
}

uint64_t number_of(PyObject* object, PyObject* name) { return integer(attribute(object, name)); }

// The GPU and stream that are current, in the thread that asks.
struct Place {
  unsigned long thread;
  void *context, *stream;
  bool operator==(const Place&) const = default;
};

// The arguments of a call, and rows like which it had.
struct Arguments {
  nb::object output, algorithm, device, shape, strides, dtype;

  bool matches(PyObject* X, PyObject* o, PyObject* a, PyObject* d) const {
    const AttributeNames& names = AttributeNames::get();
    return are_equal(output.ptr(), o) && are_equal(algorithm.ptr(), a) && are_equal(device.ptr(), d) &&
           are_equal(attribute(X, names.shape).ptr(), shape.ptr()) &&
           are_equal(attribute(X, names.strides).ptr(), strides.ptr()) &&
           are_equal(attribute(X, names.dtype).ptr(), dtype.ptr());
  }
};

// Launches on kept buffers and the array that the next result goes to.
struct Call {
  Arguments arguments;
  Place place;
  uint64_t gpu;  // of the rows
  GpuPlan plan;  // its owner must not lead back to who owns the calls
  nb::object result_shape, result_dtype;
  size_t spare_bytes;  // of a result if it is allocated ahead
  nb::object spare{};
  uint64_t spare_address = 0;
};

}  // namespace

class GpuCalls {
 public:
  // current_stream names the stream; so does the function of C in the capsule, if it is of that type.
  GpuCalls(const CudaDriver::Addresses& driver, nb::object array_type, nb::object current_stream, nb::handle capsule,
           nb::object empty, nb::object out_of_memory, size_t most, size_t most_bytes)
      : driver_(CudaDriver::at(driver)),
        array_type_(std::move(array_type)),
        current_stream_(std::move(current_stream)),
        empty_(std::move(empty)),
        out_of_memory_(std::move(out_of_memory)),
        most_(most),
        most_bytes_(most_bytes) {
    constexpr const char* TYPE = "intptr_t (void)";
    if (PyCapsule_IsValid(capsule.ptr(), TYPE))
      stream_function_ = reinterpret_cast<intptr_t (*)()>(PyCapsule_GetPointer(capsule.ptr(), TYPE));
  }

  // The result where an earlier call of this thread had rows, arguments and a stream like these, otherwise None; None
  // as well where memory is short or the stream is captured: the long way says what is wrong.
  nb::object again(nb::handle X, nb::handle output, nb::handle algorithm, nb::handle device) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(X.ptr())) != array_type_.ptr() || calls_.empty()) return nb::none();
    const Place place = here();
    const nb::object data = attribute(X.ptr(), AttributeNames::get().data);
    const uint64_t gpu = number_of(data.ptr(), AttributeNames::get().device);
    for (size_t i = 0; i < calls_.size(); ++i) {
      const std::shared_ptr<Call> call = calls_[i];
      if (!(call->place == place && call->gpu == gpu &&
            call->arguments.matches(X.ptr(), output.ptr(), algorithm.ptr(), device.ptr())))
        continue;
      // Comparing may have run code of Python, and another thread with it.
      const auto found = std::find(calls_.begin(), calls_.end(), call);
      if (found != calls_.end()) std::rotate(calls_.begin(), found, found + 1);
      return run(*call, number_of(data.ptr(), AttributeNames::get().ptr));
    }
    return nb::none();
  }

  // Keeps what answers such arguments on rows of the current GPU, in its current stream; the calls that were used least
  // recently give way.
  void keep(nb::handle X, nb::object output, nb::object algorithm, nb::object device, const GpuPlan& plan,
            nb::object shape, nb::object dtype, size_t spare_bytes) {
    const AttributeNames& names = AttributeNames::get();
    Arguments arguments{std::move(output),
                        std::move(algorithm),
                        std::move(device),
                        attribute(X.ptr(), names.shape),
                        attribute(X.ptr(), names.strides),
                        attribute(X.ptr(), names.dtype)};
    const uint64_t gpu = number_of(attribute(X.ptr(), names.data).ptr(), names.device);
    calls_.insert(calls_.begin(), std::make_shared<Call>(Call{std::move(arguments), here(), gpu, plan, std::move(shape),
                                                              std::move(dtype), spare_bytes}));
    drop_oldest();
  }

 private:
  CudaDriver driver_;
  nb::object array_type_, current_stream_, empty_, out_of_memory_;
  intptr_t (*stream_function_)() = nullptr;
  size_t most_, most_bytes_;
  std::vector<std::shared_ptr<Call>> calls_;  // the latest first

  // What gives way is destroyed last: that runs code of Python, which may come back here.
  void drop_oldest() {
    size_t n_kept = 0, bytes = 0;
    while (n_kept < std::min(most_, calls_.size())) {
      bytes += calls_[n_kept]->plan.n_bytes + calls_[n_kept]->spare_bytes;
      if (bytes > most_bytes_ && n_kept > 0) break;
      ++n_kept;
    }
    const std::vector<std::shared_ptr<Call>> oldest(calls_.begin() + n_kept, calls_.end());
    calls_.resize(n_kept);
  }

  Place here() const {
    Place place{PyThread_get_thread_ident(), nullptr, nullptr};
    driver_.get_context(&place.context);
    if (!stream_function_) {
      place.stream = reinterpret_cast<void*>(integer(current_stream_()));
      return place;
    }
    place.stream = reinterpret_cast<void*>(stream_function_());
    if (PyErr_Occurred()) throw nb::python_error();
    return place;
  }

  // What a function makes in a GPU's memory; nothing where that is short.
  nb::object make(PyObject* function, PyObject* const* arguments, size_t n) const {
    PyObject* found = nullptr;
    outlive_interpreter([&] { found = PyObject_Vectorcall(function, arguments, n, nullptr); });
    if (found) return nb::steal(found);
    if (!PyErr_ExceptionMatches(out_of_memory_.ptr())) throw nb::python_error();
    PyErr_Clear();
    return nb::object();
  }

  // A new array for a result; nothing where memory is short.
  nb::object allocate(Call& call) const {
    PyObject* arguments[] = {call.result_shape.ptr(), call.result_dtype.ptr()};
    nb::object array = make(empty_.ptr(), arguments, 2);
    if (!array.is_valid()) return array;
    call.spare_address = number_of(attribute(array.ptr(), AttributeNames::get().data).ptr(), AttributeNames::get().ptr);
    return array;
  }

  // Whether the stream is captured into a graph; the null stream never is.
  bool is_captured(void* stream) const {
    int status = 0;
    return stream && (driver_.is_capturing(stream, &status) != 0 || status != 0);
  }

  nb::object run(Call& call, uint64_t rows) const {
    if (is_captured(call.place.stream)) return nb::none();
    nb::object result = std::move(call.spare), buffers;
    call.spare = nb::object();
    if (!result.is_valid() && !(result = allocate(call)).is_valid()) return nb::none();
    const GpuPlan& plan = call.plan;
    if (!plan.make_buffers.is_none() && !(buffers = make(plan.make_buffers.ptr(), nullptr, 0)).is_valid())
      return nb::none();
    *reinterpret_cast<uint64_t*>(plan.rows) = rows;
    *reinterpret_cast<uint64_t*>(plan.result) = call.spare_address;
    int code = 0;
    {
      const Released released;  // the driver may wait in a launch, for callbacks that need the lock
      code = plan.start(driver_, call.place.stream);
    }
    if (code != 0) raise_device_error(driver_, code, int(call.gpu));
    // An allocation takes as long as a launch; the GPU is at work meanwhile.
    if (call.spare_bytes > 0) call.spare = allocate(call);
    return result;
  }
};

void bind_gpu_calls(nb::module_& module) {
  using Shape = std::array<unsigned, 3>;
  nb::class_<GpuLaunch>(module, "GpuLaunch", "A kernel with its arguments.")
      .def(nb::init<uint64_t, Shape, Shape, unsigned, uint64_t, bool>(), nb::arg("function"), nb::arg("grid"),
           nb::arg("block"), nb::arg("shared"), nb::arg("arguments"), nb::arg("overlaps") = false);
  nb::class_<GpuPlan>(module, "GpuPlan", "Launches from rows to results.")
      .def(nb::init<nb::object, std::vector<GpuLaunch>, uint64_t, uint64_t, nb::object, size_t, size_t, uint64_t,
                    std::vector<GpuPlan::Side>>(),
           nb::arg("owner"), nb::arg("launches"), nb::arg("rows"), nb::arg("result"), nb::arg("make_buffers").none(),
           nb::arg("n_bytes"), nb::arg("first_beside"), nb::arg("begin"), nb::arg("sides"));
  nb::class_<GpuCalls>(module, "GpuCalls", "Calls on GPU rows like earlier ones.")
      .def(nb::init<const CudaDriver::Addresses&, nb::object, nb::object, nb::handle, nb::object, nb::object, size_t,
                    size_t>(),
           nb::arg("driver"), nb::arg("array_type"), nb::arg("current_stream"), nb::arg("capsule").none(),
           nb::arg("empty"), nb::arg("out_of_memory"), nb::arg("most"), nb::arg("most_bytes"))
      .def("again", &GpuCalls::again, nb::arg("X").none(), nb::arg("output").none(), nb::arg("algorithm").none(),
           nb::arg("device").none())
      .def("keep", &GpuCalls::keep, nb::arg("X"), nb::arg("output"), nb::arg("algorithm"), nb::arg("device"),
           nb::arg("plan"), nb::arg("shape"), nb::arg("dtype"), nb::arg("spare_bytes"));
}

}  // namespace glasswood
