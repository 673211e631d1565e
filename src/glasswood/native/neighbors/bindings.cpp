// Bindings of neighbours: glasswood.neighbors calls these.
#include "common/bindings.h"

#include <nanobind/stl/optional.h>

#include <atomic>

#include "common/instruction_set.h"
#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"
#include "common/unset_vector.h"
#include "common/workspace.h"
#include "neighbors/leaf_lists.h"
#include "neighbors/shares.h"

namespace glasswood {

GLASSWOOD_VECTOR_KERNEL_TABLES(ShareKernels, neighbors)

namespace {

template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Positions = Matrix<const int32_t>;
template <class T>
using Results = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr int64_t kTogether = 64;  // query rows of a task

// Leaves that rows reach, (n, n_trees), each within its tree.
void check_positions(const Positions& positions, std::span<const int32_t> first_leaf, int n_threads) {
  const int64_t n_trees = int64_t(first_leaf.size()) - 1, n_rows = int64_t(positions.shape(0));
  if (int64_t(positions.shape(1)) != n_trees) throw nb::value_error("positions have another number of trees");
  std::atomic<bool> wrong = false;
  const BorrowedTeam threads(n_rows * n_trees > 100'000 ? n_threads : 1);
  share_out(threads.team(), (n_rows + 1023) / 1024, [&](int64_t at, int32_t) {
    bool outside = false;
    for (int64_t row = at * 1024; row < std::min(n_rows, (at + 1) * 1024); ++row)
      for (int64_t tree = 0; tree < n_trees; ++tree) {
        const int32_t leaf = positions.data()[row * n_trees + tree];
        outside |= leaf < first_leaf[size_t(tree)] || leaf >= first_leaf[size_t(tree) + 1];
      }
    if (outside) wrong = true;
  });
  if (wrong) throw nb::value_error("positions lie outside their trees");
}

void check_lists(const LeafLists& lists, int64_t n_rows) {
  const auto refuse = [](bool wrong, const char* what) {
    if (wrong) throw nb::value_error(what);
  };
  refuse(lists.first_leaf.empty() || lists.offsets.empty() || lists.first_leaf.front() != 0 ||
             lists.first_leaf.back() != int64_t(lists.offsets.size()) - 1 || !std::ranges::is_sorted(lists.first_leaf),
         "leaves of trees do not fit");
  refuse(lists.offsets.front() != 0 || lists.offsets.back() != int64_t(lists.rows.size()) ||
             !std::ranges::is_sorted(lists.offsets),
         "lists of leaves do not fit");
  for (size_t leaf = 0; leaf + 1 < lists.offsets.size(); ++leaf) {
    int64_t before = -1;
    for (const int32_t row : lists.of(int32_t(leaf))) {
      refuse(row <= before || row >= n_rows, "rows of a leaf do not rise, or lie outside");
      before = row;
    }
  }
}

// What the trees were given of the rows: how often each row, and how much it weighs; without either all once.
class Given {
 public:
  using Counts = std::optional<Matrix<const uint16_t>>;
  Given(const Positions& positions, const Vector<int32_t>& first_leaf, const Counts& counts,
        const std::optional<Vector<double>>& row_weight, int n_threads)
      : n_rows(int64_t(positions.shape(0))),
        n_trees(int64_t(positions.shape(1))),
        first(view(first_leaf)),
        leaves_(positions.data()),
        counts_(counts ? counts->data() : nullptr),
        row_weight_(row_weight ? row_weight->data() : nullptr) {
    check_positions(positions, first, n_threads);
    if (counts && (int64_t(counts->shape(0)) != n_rows || int64_t(counts->shape(1)) != n_trees))
      throw nb::value_error("counts are not one for each row and tree");
    if (row_weight && int64_t(row_weight->size()) != n_rows) throw nb::value_error("weights are not one a row");
  }

  // A tree's column: rows one after the other, which are read in any order.
  struct Tree {
    int64_t index;
    const int32_t* leaf;
    const uint16_t* counts;
    const double* row_weight;

    double weight(int64_t row) const { return (counts ? counts[row] : 1.0) * (row_weight ? row_weight[row] : 1.0); }
  };

  bool has_weights() const { return counts_ || row_weight_; }

  template <class Take>
  void each_tree(const Team& team, const Take& take) const {
    share_out(team, (n_trees + kTreesTogether - 1) / kTreesTogether, [&](int64_t at, int32_t) {
      const int64_t from = at * kTreesTogether, n = std::min(kTreesTogether, n_trees - from);
      const UnsetVector<int32_t> leaf = columns(leaves_, from, n);
      const UnsetVector<uint16_t> counts = columns(counts_, from, n);
      for (int64_t tree = 0; tree < n; ++tree)
        take(Tree{from + tree, &leaf[size_t(tree * n_rows)], counts_ ? &counts[size_t(tree * n_rows)] : nullptr,
                  row_weight_});
    });
  }

  const int64_t n_rows, n_trees;
  const std::span<const int32_t> first;  // leaf of each tree

 private:
  static constexpr int64_t kTreesTogether = 8;

  template <class T>
  UnsetVector<T> columns(const T* table, int64_t from, int64_t n) const {
    UnsetVector<T> result(table ? size_t(n * n_rows) : 0);
    for (int64_t row = 0; table && row < n_rows; ++row)
      for (int64_t tree = 0; tree < n; ++tree) result[size_t(tree * n_rows + row)] = table[row * n_trees + from + tree];
    return result;
  }

  const int32_t* leaves_;
  const uint16_t* counts_;
  const double* row_weight_;
};

// Rows of each leaf in the given order, as places in it; those of weight 0 are left out.
nb::tuple index_leaves(const Positions& positions, const Vector<int32_t>& first_leaf, const Vector<int32_t>& order,
                       const Given::Counts& counts, const std::optional<Vector<double>>& row_weight, int n_threads) {
  const Given given(positions, first_leaf, counts, row_weight, n_threads);
  const std::span<const int32_t> first = given.first, places = view(order);
  if (int64_t(places.size()) != given.n_rows) throw nb::value_error("the order has another number of rows");
  for (const int32_t row : places)
    if (row < 0 || row >= given.n_rows) throw nb::value_error("the order names no row");
  std::vector<int64_t> offsets(size_t(first.back()) + 1);
  UnsetVector<int32_t> rows;
  UnsetVector<double> mass;
  run_interruptibly([&] {
    const BorrowedTeam threads(n_threads);
    given.each_tree(threads.team(), [&](const Given::Tree& tree) {
      for (int64_t row = 0; row < given.n_rows; ++row) offsets[size_t(tree.leaf[row]) + 1] += tree.weight(row) > 0;
    });
    for (size_t leaf = 0; leaf + 1 < offsets.size(); ++leaf) offsets[leaf + 1] += offsets[leaf];
    rows.resize(size_t(offsets.back()));
    mass.resize(given.has_weights() ? rows.size() : 0);
    given.each_tree(threads.team(), [&](const Given::Tree& tree) {
      const int32_t begin = first[size_t(tree.index)], end = first[size_t(tree.index) + 1];
      std::vector<int64_t> next(offsets.begin() + begin, offsets.begin() + end);
      std::vector<double> sum(next.size());
      for (size_t place = 0; place < places.size(); ++place) {
        const int32_t row = places[place];
        const double weight = tree.weight(row);
        if (weight == 0) continue;
        const size_t leaf = size_t(tree.leaf[row] - begin), at = size_t(next[leaf]++);
        rows[at] = int32_t(place);
        if (!mass.empty()) mass[at] = sum[leaf] += weight;
      }
    });
  });
  return nb::make_tuple(to_numpy(std::move(offsets)), to_numpy(std::move(rows)), to_numpy(std::move(mass)));
}

// Weight of the rows that each leaf was given.
auto weigh_leaves(const Positions& positions, const Vector<int32_t>& first_leaf, const Given::Counts& counts,
                  const std::optional<Vector<double>>& row_weight, int n_threads) {
  const Given given(positions, first_leaf, counts, row_weight, n_threads);
  std::vector<double> total(size_t(given.first.back()));
  run_interruptibly([&] {
    const BorrowedTeam threads(n_threads);
    given.each_tree(threads.team(), [&](const Given::Tree& tree) {
      for (int64_t row = 0; row < given.n_rows; ++row) total[size_t(tree.leaf[row])] += tree.weight(row);
    });
  });
  return to_numpy(std::move(total));
}

// Finds shares either by the lists of leaves or by codes of all rows, whichever looks at less.
class RowShares {
 public:
  RowShares(Vector<int64_t> offsets, Vector<int32_t> rows, Vector<int32_t> first_leaf, Vector<uint16_t> weight,
            int64_t n_rows)
      : offsets_(offsets),
        rows_(rows),
        first_leaf_(first_leaf),
        weights_(weight),
        lists_{view(offsets_), view(rows_), view(first_leaf_)},
        weight_(view(weights_)),
        n_rows_(n_rows) {
    check_lists(lists_, n_rows);
    if (int64_t(weight_.size()) != lists_.n_trees()) throw nb::value_error("weights are not one a tree");
    int64_t sum = 0;
    for (const uint16_t one : weight_) sum += one;
    if (sum > 0xffff) throw nb::value_error("the weights add up to more than 65535");
    if (n_rows > 0x7fffffff) throw nb::value_error("there are more than 2147483647 rows");
  }

  void nearest(const Positions& positions, int64_t first_own, const Matrix<int32_t>& rows,
               const Matrix<int32_t>& shares, const std::string& by, int n_threads) {
    const int64_t n_queries = int64_t(positions.shape(0)), n = int64_t(rows.shape(1));
    if (int64_t(rows.shape(0)) != n_queries || n < 1 || rows.shape(0) != shares.shape(0) ||
        rows.shape(1) != shares.shape(1))
      throw nb::value_error("the result has the wrong shape");
    check_positions(positions, lists_.first_leaf, n_threads);
    std::vector<uint64_t> keys(size_t(n_queries * n));
    ShareTask task = task_of(positions, first_own);
    task.n_nearest = int32_t(n);
    task.nearest = keys.data();
    run(task, by, n_threads, [&](int64_t query, int32_t row, uint16_t share) {
      insert(keys.data() + query * n, int32_t(n), key_of(share, row));
    });
    for (size_t i = 0; i < keys.size(); ++i) rows.data()[i] = row_of(keys[i]), shares.data()[i] = share_of(keys[i]);
  }

  void squares(const Positions& positions, int64_t first_own, const Vector<int32_t>& group,
               const Vector<int32_t>& query_group, const Results<uint64_t>& out, const std::string& by, int n_threads) {
    const int64_t n_queries = int64_t(positions.shape(0));
    if (int64_t(group.size()) != n_rows_ || int64_t(query_group.size()) != n_queries ||
        int64_t(out.shape(0)) != n_queries)
      throw nb::value_error("groups or the result have the wrong shape");
    check_positions(positions, lists_.first_leaf, n_threads);
    ShareTask task = task_of(positions, first_own);
    task.group = group.data(), task.query_group = query_group.data(), task.squares = out.data();
    std::fill_n(out.data(), n_queries, 0);
    run(task, by, n_threads, [&](int64_t query, int32_t row, uint16_t share) {
      if (task.group[row] == task.query_group[query]) task.squares[query] += uint64_t(share) * share;
    });
  }

  // Whether codes are compared: nanoseconds of a query row either way.
  bool prefers_codes() const {
    constexpr double kListed = 1.5, kCompared = 0.012;  // a row of a list, a code of one byte
    if (code_bytes() == 0) return false;
    double listed = 0;
    for (size_t leaf = 0; leaf + 1 < lists_.offsets.size(); ++leaf) {
      const double size = double(lists_.size(int32_t(leaf)));
      listed += size * size;
    }
    return kListed * listed / double(std::max<int64_t>(n_rows_, 1)) >
           kCompared * code_bytes() * double(n_rows_) * lists_.n_trees();
  }

 private:
  ShareTask task_of(const Positions& positions, int64_t first_own) const {
    ShareTask task{};
    task.n_rows = n_rows_, task.n_queries = int64_t(positions.shape(0)), task.n_trees = lists_.n_trees();
    task.weight = weight_.data(), task.positions = positions.data(), task.first_leaf = lists_.first_leaf.data();
    task.first_own = first_own;
    return task;
  }

  // 0 where a tree has too many leaves for codes.
  int code_bytes() const {
    int32_t most = 0;
    for (int32_t tree = 0; tree < lists_.n_trees(); ++tree)
      most = std::max(most, lists_.first_leaf[size_t(tree) + 1] - lists_.first_leaf[size_t(tree)]);
    const bool is_plain = std::ranges::all_of(weight_, [](uint16_t weight) { return weight == 1; });
    return most <= 256 && is_plain ? 1 : most <= 65536 ? 2 : 0;
  }

  // With Python's lock, once.
  template <class Code>
  void write_codes(int n_threads) {
    const int64_t n_trees = lists_.n_trees(), n_blocks = (n_rows_ + kBlockRows - 1) / kBlockRows;
    codes_.emplace(n_blocks * kBlockRows * n_trees * int64_t(sizeof(Code)));
    Code* codes = reinterpret_cast<Code*>(codes_->data());
    std::fill_n(codes, n_blocks * kBlockRows * n_trees, Code(0));
    const BorrowedTeam threads(n_threads);
    share_out(threads.team(), n_trees, [&](int64_t tree, int32_t) {
      const int32_t first = lists_.first_leaf[size_t(tree)], end = lists_.first_leaf[size_t(tree) + 1];
      for (int32_t leaf = first; leaf < end; ++leaf)
        for (const int64_t row : lists_.of(leaf))
          codes[(row / kBlockRows * n_trees + tree) * kBlockRows + row % kBlockRows] = Code(leaf - first);
    });
  }

  // `found` takes what the lists find; kernels of codes write for themselves.
  template <class Found>
  void run(ShareTask& task, const std::string& by, int n_threads, const Found& found) {
    const bool by_codes = by == "codes" || (by == "auto" && prefers_codes());
    if (by_codes && code_bytes() == 0) throw nb::value_error("a tree has too many leaves for codes");
    const int n_useful = useful_threads(double(task.n_queries) / 16, n_threads);
    task.code_bytes = code_bytes();
    if (by_codes && !codes_) task.code_bytes == 1 ? write_codes<uint8_t>(n_threads) : write_codes<uint16_t>(n_threads);
    run_interruptibly([&] {
      const BorrowedTeam threads(n_useful);
      task.team = threads.team();
      if (!by_codes) return run_lists(task, n_useful, found);
      const ShareKernels& kernels = kernels_of(neighbors_tables);
      task.workspace_size = kernels.workspace(task);
      const Workspace workspace(task.workspace_size * n_useful);
      task.codes = codes_->data(), task.workspace = workspace.data();
      kernels.find(task);
    });
  }

  template <class Found>
  void run_lists(const ShareTask& task, int n_threads, const Found& found) const {
    std::vector<std::optional<SharedRows>> spaces(static_cast<size_t>(n_threads));
    share_out(task.team, (task.n_queries + kTogether - 1) / kTogether, [&](int64_t at, int32_t thread) {
      std::optional<SharedRows>& space = spaces[size_t(thread)];
      if (!space) space.emplace(lists_, weight_, n_rows_);
      for (int64_t query = at * kTogether; query < std::min(task.n_queries, (at + 1) * kTogether); ++query)
        space->find(task.positions + query * task.n_trees, task.first_own < 0 ? -1 : task.first_own + query,
                    [&](int32_t row, uint16_t share) { found(query, row, share); });
    });
  }

  const Vector<int64_t> offsets_;
  const Vector<int32_t> rows_, first_leaf_;
  const Vector<uint16_t> weights_;
  const LeafLists lists_;
  const std::span<const uint16_t> weight_;
  const int64_t n_rows_;
  std::optional<Workspace> codes_;  // [block][tree][row of the block]
};

// Distributions of targets, by lists of ranks.
class TargetMixture {
 public:
  TargetMixture(Vector<int64_t> offsets, Vector<int32_t> ranks, Vector<int32_t> first_leaf, Vector<double> mass,
                Vector<double> share, Vector<double> targets)
      : offsets_(offsets),
        ranks_(ranks),
        first_leaf_(first_leaf),
        mass_(mass),
        share_(share),
        targets_(targets),
        mixture_{{view(offsets_), view(ranks_), view(first_leaf_)}, view(mass_), view(share_), view(targets_)} {
    check_lists(mixture_.lists, int64_t(mixture_.targets.size()));
    if (int64_t(mixture_.share.size()) != mixture_.lists.n_trees()) throw nb::value_error("shares are not one a tree");
    if (!mixture_.mass.empty() && mixture_.mass.size() != mixture_.lists.rows.size())
      throw nb::value_error("masses are not one a row");
  }

  void quantiles(const Positions& positions, const Vector<double>& q, bool linear, bool weighted,
                 const Matrix<double>& out, int n_threads) const {
    each_query(positions, weighted, out, int64_t(q.size()), n_threads,
               [&](Distribution& found, int64_t i) { return found.quantile(q.data()[i], linear); });
  }

  // Shares of the weight below some ranks.
  void below(const Positions& positions, const Vector<int32_t>& ranks, bool weighted, const Matrix<double>& out,
             int n_threads) const {
    each_query(positions, weighted, out, int64_t(ranks.size()), n_threads,
               [&](Distribution& found, int64_t i) { return found.below(ranks.data()[i]); });
  }

 private:
  template <class Value>
  void each_query(const Positions& positions, bool weighted, const Matrix<double>& out, int64_t n, int n_threads,
                  const Value& value) const {
    const int64_t n_queries = int64_t(positions.shape(0)), n_trees = int64_t(positions.shape(1));
    if (int64_t(out.shape(0)) != n_queries || int64_t(out.shape(1)) != n)
      throw nb::value_error("the result has the wrong shape");
    check_positions(positions, mixture_.lists.first_leaf, n_threads);
    run_interruptibly([&] {
      const BorrowedTeam threads(useful_threads(double(n_queries) / 16, n_threads));
      share_out(threads.team(), (n_queries + kTogether - 1) / kTogether, [&](int64_t at, int32_t) {
        Distribution found(mixture_, weighted);
        for (int64_t query = at * kTogether; query < std::min(n_queries, (at + 1) * kTogether); ++query) {
          const bool any = found.open(positions.data() + query * n_trees);
          for (int64_t i = 0; i < n; ++i) out.data()[query * n + i] = any ? value(found, i) : kNothing;
        }
      });
    });
  }

  static constexpr double kNothing = __builtin_nan("");
  const Vector<int64_t> offsets_;
  const Vector<int32_t> ranks_, first_leaf_;
  const Vector<double> mass_, share_, targets_;
  const Mixture mixture_;
};

}  // namespace

void bind_neighbors(nb::module_& module) {
  module.def("index_leaves", &index_leaves, nb::arg("positions"), nb::arg("first_leaf"), nb::arg("order"),
             nb::arg("counts").none(), nb::arg("row_weight").none(), nb::arg("n_threads"),
             "Offsets of leaves, their rows as places in the order, and cumulated weights.");
  module.def("weigh_leaves", &weigh_leaves, nb::arg("positions"), nb::arg("first_leaf"), nb::arg("counts").none(),
             nb::arg("row_weight").none(), nb::arg("n_threads"), "Weight of the rows that each leaf was given.");
  nb::class_<RowShares>(module, "RowShares", "Shares of trees in which rows reach the leaves of training rows.")
      .def(nb::init<Vector<int64_t>, Vector<int32_t>, Vector<int32_t>, Vector<uint16_t>, int64_t>(), nb::arg("offsets"),
           nb::arg("rows"), nb::arg("first_leaf"), nb::arg("weight"), nb::arg("n_rows"))
      .def("nearest", &RowShares::nearest, nb::arg("positions"), nb::arg("first_own"), nb::arg("rows"),
           nb::arg("shares"), nb::arg("by"), nb::arg("n_threads"))
      .def("squares", &RowShares::squares, nb::arg("positions"), nb::arg("first_own"), nb::arg("group"),
           nb::arg("query_group"), nb::arg("out"), nb::arg("by"), nb::arg("n_threads"))
      .def_prop_ro("prefers_codes", &RowShares::prefers_codes);
  nb::class_<TargetMixture>(module, "TargetMixture", "Distributions of targets over the leaves that rows reach.")
      .def(
          nb::init<Vector<int64_t>, Vector<int32_t>, Vector<int32_t>, Vector<double>, Vector<double>, Vector<double>>(),
          nb::arg("offsets"), nb::arg("ranks"), nb::arg("first_leaf"), nb::arg("mass"), nb::arg("share"),
          nb::arg("targets"))
      .def("quantiles", &TargetMixture::quantiles, nb::arg("positions"), nb::arg("q"), nb::arg("linear"),
           nb::arg("weighted"), nb::arg("out"), nb::arg("n_threads"))
      .def("below", &TargetMixture::below, nb::arg("positions"), nb::arg("ranks"), nb::arg("weighted"), nb::arg("out"),
           nb::arg("n_threads"));
}

}  // namespace glasswood
