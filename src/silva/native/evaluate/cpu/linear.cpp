// Margins from leaves that hold linear models: the CPU's counterpart of evaluate/cuda/sum_linear.cu, with its bits (no
// product is fused with a sum).
#include "common/bindings.h"
#include "common/interrupts.h"
#include "common/linear_term.h"
#include "common/threads/borrowed_team.h"

namespace silva {
namespace {

constexpr int kBlock = 64;    // rows whose values stay in the first-level cache
constexpr int kTogether = 4;  // terms: branches depend on a leaf's number of terms as little as that
constexpr double kWorthwhile = 5e4, kLeafCost = 10;  // nanoseconds: of a thread that pays, of a leaf's model

struct Term {
  int32_t column, category;
  double coefficient, mean;
};

struct Model {
  int64_t first, end, padded_end;  // terms; those behind the end add 0
  double value, low, high, missing;
  bool plain;  // numbers alone
};

template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

class LinearPlan {
 public:
  explicit LinearPlan(nb::handle handle) {
    const ForestView forest = view_of(handle);
    n_features_ = forest.n_features;
    base_.assign(forest.base_score.begin(), forest.base_score.end());
    output_.assign(forest.tree_output.begin(), forest.tree_output.end());
    weight_.assign(forest.tree_weight.begin(), forest.tree_weight.end());
    std::vector<int32_t> column(forest.n_features, -1);
    for (const int32_t feature : forest.linear_feature)
      if (column[feature] < 0) column[feature] = int32_t(used_.size()), used_.push_back(feature);
    for (size_t leaf = 0; leaf < forest.leaf_value.size(); ++leaf) add_model(forest, leaf, column);
  }

  // leaves: [row][tree], places in leaf_value.
  void margins(const RowMatrix& matrix, const Matrix<const int32_t>& leaves, const Matrix<double>& out,
               int n_threads) const {
    const RowSource rows = rows_of(matrix, n_features_);
    const int64_t n_trees = int64_t(weight_.size());
    if (int64_t(leaves.shape(0)) != rows.n_rows || int64_t(leaves.shape(1)) != n_trees ||
        int64_t(out.shape(0)) != rows.n_rows || out.shape(1) != base_.size())
      throw nb::value_error("the result has the wrong shape");
    const int n_useful = useful_threads(double(rows.n_rows) * double(n_trees) * kLeafCost / kWorthwhile, n_threads);
    run_interruptibly([&] {
      const BorrowedTeam threads(n_useful);
      share_out(threads.team(), (rows.n_rows + kBlock - 1) / kBlock, [&](int64_t block, int32_t) {
        const int64_t first = block * kBlock, n = std::min<int64_t>(kBlock, rows.n_rows - first);
        add_block(rows, first, n, leaves.data() + first * n_trees, out.data() + first * int64_t(base_.size()));
      });
    });
  }

 private:
  std::vector<double> base_, weight_;
  std::vector<int32_t> output_, used_;
  std::vector<Term> terms_;
  std::vector<Model> models_;
  int32_t n_features_ = 0;

  void add_model(const ForestView& forest, size_t leaf, const std::vector<int32_t>& column) {
    Model model{int64_t(terms_.size()),
                0,
                0,
                forest.leaf_value[leaf],
                forest.leaf_range[2 * leaf],
                forest.leaf_range[2 * leaf + 1],
                forest.leaf_missing.empty() ? kNoValue : forest.leaf_missing[leaf],
                true};
    for (int64_t t = forest.linear_offsets[leaf]; t < forest.linear_offsets[leaf + 1]; ++t) {
      terms_.push_back({column[forest.linear_feature[t]], forest.linear_category[t], forest.linear_coefficient[t],
                        forest.linear_mean[t]});
      model.plain &= forest.linear_category[t] == kTermOfNumber;
    }
    model.end = int64_t(terms_.size());
    const int32_t zeros = int32_t(used_.size());
    while ((int64_t(terms_.size()) - model.first) % kTogether) terms_.push_back({zeros, kTermOfNumber, 0, 0});
    model.padded_end = int64_t(terms_.size());
    models_.push_back(model);
  }

  void add_block(const RowSource& rows, int64_t first, int64_t n, const int32_t* leaves, double* out) const {
    const int64_t n_trees = int64_t(weight_.size()), n_used = int64_t(used_.size()), n_outputs = int64_t(base_.size());
    const int64_t stride = n_used + 1;  // a column of zeros at the end
    std::vector<double> values(n * stride);
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t at = 0; at < n_used; ++at) values[row * stride + at] = value_of(rows, first + row, used_[at]);
      std::copy(base_.begin(), base_.end(), out + row * n_outputs);
    }
    for (int64_t tree = 0; tree < n_trees; ++tree)
      for (int64_t row = 0; row < n; ++row)
        out[row * n_outputs + output_[tree]] +=
            weight_[tree] * evaluate(models_[leaves[row * n_trees + tree]], values.data() + row * stride);
  }

  static double value_of(const RowSource& rows, int64_t row, int32_t feature) {
    const int64_t at = row * rows.row_stride + feature * rows.feature_stride;
    return rows.is_double ? static_cast<const double*>(rows.data)[at] : static_cast<const float*>(rows.data)[at];
  }

  double evaluate(const Model& model, const double* row) const {
    if (model.plain) {
      double sum = 0;
      for (int64_t at = model.first; at < model.padded_end; at += kTogether)
        for (int64_t t = at; t < at + kTogether; ++t)
          sum += terms_[t].coefficient * (row[terms_[t].column] - terms_[t].mean);
      // Not a number where one is missing, or infinities meet.
      if (sum == sum) return model_value(model.value + sum, false, kNoValue, model.low, model.high);
    }
    return evaluate_any(model, row);
  }

  double evaluate_any(const Model& model, const double* row) const {
    double sum = 0;
    bool is_missing = false;
    for (int64_t at = model.first; at < model.end; ++at) {
      const Term& term = terms_[at];
      const double x = row[term.column];
      is_missing |= lacks_number(x, term.category);
      sum += term.coefficient * term_deviation(x, term.category, term.mean);
    }
    return model_value(model.value + sum, is_missing, model.missing, model.low, model.high);
  }
};

}  // namespace

void bind_linear(nb::module_& module) {
  nb::class_<LinearPlan>(module, "LinearPlan", "The linear models of a forest's leaves.")
      .def(nb::init<nb::handle>(), nb::arg("forest"))
      .def("margins", &LinearPlan::margins, nb::arg("rows"), nb::arg("leaves"), nb::arg("out"), nb::arg("n_threads"),
           "Margins, (n, n_outputs), of rows that reach these places in leaf_value, (n, n_trees).");
}

}  // namespace silva
