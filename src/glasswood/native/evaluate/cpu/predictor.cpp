// One row at a time for Python: no array is made on the way, and nothing is checked but the row's memory.
#include <memory>
#include <variant>

#include "common/row_buffer.h"
#include "evaluate/cpu/plan_tasks.h"

namespace glasswood {

class RowPredictor {
 public:
  // result: "leaf", or the dtype of margins.
  RowPredictor(nb::object plan, const std::string& result, double missing, bool serial, nb::object reduced)
      : plan_(std::move(plan)), reduced_(std::move(reduced)), missing_(missing), is_single_(result == "float32") {
    const RowSource no_row{nullptr, 1, 0, 1, false};
    if (nb::isinstance<NodePlan>(plan_)) {
      const auto& nodes = nb::cast<const NodePlan&>(plan_);
      start(task_of(nodes, no_row, 1), nodes.coding, result == "leaf");
      as_they_lie_ = nodes.columns.as_they_lie;
    } else {
      EvaluateTask task = task_of(nb::cast<const EvaluatePlan&>(plan_), no_row, 1);
      task.serial = serial;
      start(task, nb::cast<const EvaluatePlan&>(plan_).coding, result == "leaf");
    }
  }

  nb::object operator()(nb::handle row) {
    const RowBuffer buffer(row, n_features_);
    const void* values = buffer.values;
    if (missing_ == missing_)
      values =
          buffer.is_double ? settle(static_cast<const double*>(values)) : settle(static_cast<const float*>(values));
    const RowSource source{values, 1, n_features_, 1, buffer.is_double};
    std::visit([&](auto& task) { predict(task, source); }, task_);
    if (!leaves_.empty() || margins_.empty()) return to_array<int32_t>(leaves_);
    if (margins_.size() == 1) return nb::float_(is_single_ ? double(float(margins_[0])) : margins_[0]);
    if (is_single_) return to_array<float>(margins_);
    return to_array<double>(margins_);
  }

  nb::object reduced() const { return reduced_; }

 private:
  nb::object plan_, reduced_;
  double missing_;
  bool is_single_, row_is_double_ = false, as_they_lie_ = false;
  int64_t n_features_ = 0;
  std::variant<NodeTask, EvaluateTask> task_;
  std::unique_ptr<Workspace> workspace_;
  std::vector<double> margins_;
  std::vector<int32_t> leaves_;
  std::vector<char> settled_;

  template <class Task>
  void start(Task task, const Coding& coding, bool leaf) {
    n_features_ = int64_t(coding.flags.size());
    row_is_double_ = coding.ranked;
    workspace_ = std::make_unique<Workspace>(task.workspace_size);
    task.workspace = workspace_->data();
    if (leaf) {
      leaves_.resize(task.forest.n_trees);
      task.leaf = leaves_.data();
    } else {
      margins_.resize(task.forest.n_outputs);
      task.margin = margins_.data();
    }
    task_ = task;
  }

  template <class Task>
  void predict(Task& task, const RowSource& source) {
    task.rows = source;
    if constexpr (std::is_same_v<Task, NodeTask>) task.in_place = as_they_lie_ && !source.is_double;
    evaluate(task);
  }

  // The forest's marker becomes NaN, compared in the type of the thresholds.
  template <class Real>
  const void* settle(const Real* values) {
    settled_.resize(n_features_ * sizeof(Real));
    Real* result = reinterpret_cast<Real*>(settled_.data());
    for (int64_t i = 0; i < n_features_; ++i) {
      const bool is_missing = row_is_double_ ? double(values[i]) == missing_ : float(values[i]) == float(missing_);
      result[i] = is_missing ? std::numeric_limits<Real>::quiet_NaN() : values[i];
    }
    return result;
  }

  template <class To, class From>
  static nb::object to_array(const std::vector<From>& values) {
    return nb::cast(to_numpy(std::vector<To>(values.begin(), values.end())));
  }
};

void bind_predictor(nb::module_& module) {
  nb::class_<RowPredictor>(module, "RowPredictor", "Predicts one row a call.")
      .def(nb::init<nb::object, const std::string&, double, bool, nb::object>(), nb::arg("plan"), nb::arg("result"),
           nb::arg("missing"), nb::arg("serial"), nb::arg("reduced"))
      .def("__call__", &RowPredictor::operator(), nb::arg("row").none(), nb::lock_self())
      .def("__reduce__", &RowPredictor::reduced);
}

}  // namespace glasswood
