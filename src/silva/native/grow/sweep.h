// The best threshold of a test, its subtrees kept: Gram matrices of the leaves on both sides run along the sorted
// rows, first on a coarse grid of cuts, then between the neighbours of the best one, down to single rows.
#pragma once
#include <limits>
#include <vector>

#include "grow/cuts.h"
#include "grow/evaluate.h"

namespace silva {

struct SweepRequest {
  const Box* box;  // of the node
  int attribute;
  bool missing_left;
  const GrowTree* tree;
  int left, right;                // subtrees below the test; may be the same node
  const RowList* rows = nullptr;  // of the node or a sample of them; null: those of the box
  bool adjusted = false;          // scale errors by (n + k) / (n - k), for models that have yet to be thinned out
};

// The search for the best cut; where rows and sums come from is left to CoreSweep and GpuSweep.
class ThresholdSweep {
 public:
  ThresholdSweep(const Evaluator& evaluator, Scratch& scratch) : e_(evaluator), data_(evaluator.data()), s_(scratch) {}
  virtual ~ThresholdSweep() = default;

  FoundCut run(const SweepRequest& request) {
    request_ = request;
    Bracket all;
    all.last = open();
    for (const Leaf& leaf : leaves_) all.grams.push_back(leaf.missing), all.counts.push_back(leaf.n_missing);
    refine({all}, 2);
    return best_;
  }

 protected:
  struct Leaf {
    bool on_left;
    int least_rows;
    ModelColumns columns;                  // of all sums of the leaf
    std::vector<int32_t> positions, rows;  // of the rows that reach it when the test sends them to its side
    std::vector<double> missing;           // sums of those without a value
    int64_t n_missing = 0;
  };
  // Cuts strictly between two positions. Leaves on the left hold the rows before `first`, those on the right the rows
  // from `last` on.
  struct Bracket {
    int first = 0, last = 0;
    std::vector<std::vector<double>> grams;
    std::vector<int64_t> counts;
  };
  struct Cuts {
    std::vector<int> positions;
    std::vector<int32_t> ranks;
    std::vector<char> more;  // whether ranks change between a cut's neighbours elsewhere than at the cut
  };
  // Gram matrices of one leaf at every cut, entry-major, so that neighbouring cuts are lanes.
  struct Course {
    std::vector<double> grams;
    std::vector<int64_t> counts;
  };

  // Finds the rows and fills leaves_, those of the left side first; returns the number of rows that have a value.
  virtual int open() = 0;
  // Of every bracket.
  virtual std::vector<Cuts> cuts_between(const std::vector<Bracket>& level) = 0;
  // Of every bracket and leaf.
  virtual std::vector<std::vector<Course>> run_along(const std::vector<Cuts>& cuts,
                                                     const std::vector<Bracket>& level) = 0;
  // May settle some of the brackets elsewhere and remove them.
  virtual void hand_over(std::vector<Bracket>&) {}

  // Of equal cuts the lower one, in whatever order they are found.
  void take(const FoundCut& found) {
    if (found.error < best_.error || (found.error == best_.error && found.cut < best_.cut)) best_ = found;
  }

  // Looks at all brackets of a level at once, then between the neighbours of the best cuts of each.
  void refine(std::vector<Bracket> level, int branches) {
    for (hand_over(level); !level.empty(); hand_over(level)) {
      const std::vector<Cuts> cuts = cuts_between(level);
      const std::vector<std::vector<Course>> courses = run_along(cuts, level);
      const std::vector<std::vector<double>> totals = total_errors(courses);
      std::vector<Bracket> next;
      for (size_t b = 0; b < level.size(); ++b) look(level[b], cuts[b], courses[b], totals[b], branches, next);
      level = std::move(next);
      branches = 1;
    }
  }

  // Runs task(i) for every i below n, in parts of about equal `work`, side by side where that repays it.
  template <class Work, class Task>
  void share(int n, Work work, Task task) {
    constexpr double kPart = 300'000;  // multiplications
    std::vector<int> firsts = {0};
    double sum = 0;
    for (int i = 0; i < n; ++i) {
      if (sum >= kPart) firsts.push_back(i), sum = 0;
      sum += work(i);
    }
    firsts.push_back(n);
    e_.reader().fork(int(firsts.size()) - 1, s_, [&](int part, Scratch& s) {
      for (int i = firsts[part]; i < firsts[part + 1]; ++i) task(i, s);
    });
  }

  template <class List>
  static Cuts cuts_of(const List& list, const Bracket& bracket) {
    Cuts cuts{find_cuts(list, bracket.first, bracket.last), {}, {}};
    for (int j = 0; j < int(cuts.positions.size()); ++j) {
      cuts.ranks.push_back(list.rank(cuts.positions[j]));
      cuts.more.push_back(has_more_cuts(list, bracket.first, bracket.last, cuts.positions, j));
    }
    return cuts;
  }

  static size_t padded(size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

  std::vector<int> add_leaves(int root, bool on_left) {
    const GrowTree& tree = *request_.tree;
    std::vector<int> index(subtree_end(tree, root) - root, -1);
    for (int v = root; v < root + int(index.size()); ++v) {
      if (!tree[v].is_leaf()) continue;
      index[v - root] = int(leaves_.size());
      Leaf& leaf = leaves_.emplace_back();
      leaf.on_left = on_left;
      leaf.least_rows = e_.least_rows(tree[v].model);
      leaf.columns = ModelColumns(data_, tree[v].model);
      leaf.missing.assign(leaf.columns.n_entries(), 0);
    }
    return index;
  }

 private:
  // Errors of leaf i at every cut, infinite where it has too few rows.
  std::vector<double> errors_of(const Leaf& leaf, const Course& course, Scratch& s) const {
    const int n = int(course.counts.size()), k = int(leaf.columns.solved().size());
    std::vector<double> errors(padded(n));
    s.work.resize(work_size(k) * kLanes + kLanes);
    for (int j = 0; j < n; j += kLanes) solve(leaf, course, j, s, errors.data() + j);
    for (int j = 0; j < n; ++j) {
      const double count = double(course.counts[j]);
      if (count < leaf.least_rows)
        errors[j] = std::numeric_limits<double>::infinity();
      else if (request_.adjusted)
        errors[j] *= (count + k) / (count - k);
    }
    return errors;
  }

  void solve(const Leaf& leaf, const Course& course, int first, Scratch& s, double* errors) const {
    const ModelColumns& columns = leaf.columns;
    const int n = int(course.counts.size()), k = int(columns.solved().size()), width = columns.width();
    const size_t lanes = padded(n);
    double* work = s.work.data();
    work += (64 - reinterpret_cast<uintptr_t>(work) % 64) % 64 / sizeof(double);
    if (columns.imputed().empty()) {
      e_.kernels().residuals(course.grams.data() + first, lanes, width, columns.solved().data(), k, work, errors);
      return;
    }
    std::vector<double> gram(columns.n_entries());
    for (int l = 0; l < kLanes && first + l < n; ++l) {
      for (size_t p = 0; p < gram.size(); ++p) gram[p] = course.grams[p * lanes + first + l];
      impute(columns.imputed(), width, gram.data());
      errors[l] = e_.kernels().residual(gram.data(), width, columns.solved().data(), k, work);
    }
  }

  // Of every bracket: the sum of its leaves' errors at every cut.
  std::vector<std::vector<double>> total_errors(const std::vector<std::vector<Course>>& courses) {
    std::vector<std::pair<int, int>> pairs;
    for (size_t b = 0; b < courses.size(); ++b)
      for (size_t i = 0; i < courses[b].size(); ++i) pairs.emplace_back(int(b), int(i));
    std::vector<std::vector<double>> errors(pairs.size()), totals(courses.size());
    const auto work = [&](int at) {
      const auto [b, i] = pairs[at];
      const double k = double(leaves_[i].columns.solved().size());
      return k * k * (k + 20) / 6 * double(courses[b][i].counts.size());
    };
    share(int(pairs.size()), work, [&](int at, Scratch& s) {
      const auto [b, i] = pairs[at];
      errors[at] = errors_of(leaves_[i], courses[b][i], s);
    });
    for (size_t at = 0; at < pairs.size(); ++at) {
      const auto [b, i] = pairs[at];
      totals[b].resize(courses[b][i].counts.size(), 0);
      for (size_t j = 0; j < totals[b].size(); ++j) totals[b][j] += errors[at][j];
    }
    return totals;
  }

  void look(const Bracket& bracket, const Cuts& cuts, const std::vector<Course>& courses,
            const std::vector<double>& totals, int branches, std::vector<Bracket>& next) {
    const std::vector<int> minima = local_minima(totals, branches);
    for (const int j : minima) take({cuts.ranks[j], totals[j]});
    if (bracket.last - bracket.first - 1 <= kGrid) return;
    for (const int j : minima) {
      Bracket inner = between(bracket, cuts.positions, courses, j);
      if (inner.last - inner.first < bracket.last - bracket.first && cuts.more[j]) next.push_back(std::move(inner));
    }
  }

  static std::vector<int> local_minima(const std::vector<double>& totals, int most) {
    std::vector<int> order(totals.size()), chosen;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return totals[a] < totals[b]; });
    for (const int j : order) {
      if (int(chosen.size()) == most || std::isinf(totals[j])) break;
      bool apart = true;
      for (const int other : chosen) apart = apart && std::abs(other - j) > 2;
      if (apart) chosen.push_back(j);
    }
    return chosen;
  }

  Bracket between(const Bracket& outer, const std::vector<int>& cuts, const std::vector<Course>& courses, int j) const {
    const int n = int(cuts.size()), lanes = (n + kLanes - 1) / kLanes * kLanes;
    Bracket inner;
    inner.first = j > 0 ? cuts[j - 1] : outer.first;
    inner.last = j + 1 < n ? cuts[j + 1] : outer.last;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const int from = leaves_[i].on_left ? j - 1 : j + 1;
      const bool known = from >= 0 && from < n;
      inner.grams.push_back(outer.grams[i]);
      inner.counts.push_back(known ? courses[i].counts[from] : outer.counts[i]);
      if (!known) continue;
      for (size_t p = 0; p < inner.grams.back().size(); ++p) inner.grams.back()[p] = courses[i].grams[p * lanes + from];
    }
    return inner;
  }

 protected:
  const Evaluator& e_;
  const GrowData& data_;
  Scratch& s_;
  SweepRequest request_{};
  std::vector<Leaf> leaves_;
  FoundCut best_;
};

class CoreSweep : public ThresholdSweep {
 public:
  CoreSweep(const Evaluator& evaluator, const CoreReader& reader, Scratch& scratch)
      : ThresholdSweep(evaluator, scratch), reader_(reader) {}

  // The best cut of a bracket whose rows are given in order.
  FoundCut finish(const SweepRequest& request, RowList rows, Bracket bracket) {
    request_ = request;
    rows_ = std::move(rows);
    bracket.last -= bracket.first, bracket.first = 0;
    is_part_ = true;
    share_out(request_.left, true);
    share_out(request_.right, false);
    refine({std::move(bracket)}, 1);
    return best_;
  }

 private:
  int open() override {
    collect();
    share_out(request_.left, true);
    share_out(request_.right, false);
    return int(rows_.size());
  }

  void collect() {
    rows_.clear();
    missing_.clear();
    const Box& box = *request_.box;
    const int attribute = request_.attribute;
    const Interval interval = box.interval(data_, attribute);
    const int by = narrowest(data_, box);
    const int64_t span = rows_of_interval(data_, interval);
    if (request_.rows ? 4 * int64_t(request_.rows->size()) < span
                      : by >= 0 && 8 * rows_of_interval(data_, box[by]) < span) {
      if (request_.rows)
        sorted_ = *request_.rows;
      else
        collect_rows(data_, box, sorted_);
      sort_by_rank(data_, attribute, sorted_, s_.spare);
      for (const int32_t row : sorted_) (data_.rank(row, attribute) < 0 ? missing_ : rows_).push_back(row);
      return;
    }
    int skip = -1;
    for (int i = 0; i < box.size(); ++i)
      if (box[i].attribute == attribute) skip = i;
    visit_by_interval(data_, box, interval, skip,
                      [&](int32_t row) { (data_.rank(row, attribute) < 0 ? missing_ : rows_).push_back(row); });
  }

  void share_out(int root, bool on_left) {
    const std::vector<int> index = add_leaves(root, on_left);
    std::vector<int32_t> positions(rows_.size());
    std::iota(positions.begin(), positions.end(), 0);
    s_.spare.resize(rows_.size());
    share_out(root, root, index, positions.data(), int64_t(positions.size()));
    if (request_.missing_left != on_left) return;
    for (const int32_t row : missing_) {
      Leaf& leaf = leaves_[index[route(data_, *request_.tree, root, row) - root]];
      reader_.sum_rows(&row, 1, leaf.columns, leaf.missing.data(), s_);
      ++leaf.n_missing;
    }
  }

  // Stable partition of positions down to the leaves.
  void share_out(int root, int v, const std::vector<int>& index, int32_t* positions, int64_t count) {
    const GrowTree& tree = *request_.tree;
    if (tree[v].is_leaf()) {
      Leaf& leaf = leaves_[index[v - root]];
      leaf.positions.assign(positions, positions + count);
      leaf.rows.resize(count);
      for (int64_t i = 0; i < count; ++i) leaf.rows[i] = rows_[positions[i]];
      return;
    }
    const Test& test = tree[v].test;
    const int32_t* ranks = data_.ranks_of(test.attribute);
    int64_t n_left = 0, n_right = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t position = positions[i];
      __builtin_prefetch(ranks + rows_[positions[std::min(i + kAhead, count - 1)]]);
      const bool left = test.left(ranks[rows_[position]]);
      positions[n_left] = position;
      s_.spare[n_right] = position;
      n_left += left;
      n_right += !left;
    }
    std::copy(s_.spare.begin(), s_.spare.begin() + n_right, positions + n_left);
    share_out(root, tree[v].left, index, positions, n_left);
    share_out(root, tree[v].right, index, positions + n_left, n_right);
  }

  // The rows as grow/cuts.h reads them.
  struct RankedRows {
    const CoreSweep& sweep;
    int32_t rank(int64_t position) const { return sweep.data_.rank(sweep.rows_[position], sweep.request_.attribute); }
    int64_t next_change(int64_t at, int64_t last) const {
      return silva::next_change([&](int64_t position) { return rank(position); }, at, last);
    }
  };

  std::vector<Cuts> cuts_between(const std::vector<Bracket>& level) override {
    std::vector<Cuts> cuts;
    for (const Bracket& bracket : level) cuts.push_back(cuts_of(RankedRows{*this}, bracket));
    return cuts;
  }

  std::vector<std::vector<Course>> run_along(const std::vector<Cuts>& cuts,
                                             const std::vector<Bracket>& level) override {
    std::vector<std::vector<Course>> courses(level.size());
    for (size_t b = 0; b < level.size(); ++b)
      for (size_t i = 0; i < leaves_.size() && !cuts[b].positions.empty(); ++i) {
        const bool mirrored = i == 1 && request_.left == request_.right && level[b].first == 0 && !is_part_;
        courses[b].push_back(mirrored ? the_others(courses[b][0], int(cuts[b].positions.size()))
                                      : run_leaf(leaves_[i], cuts[b].positions, level[b], int(i)));
      }
    return courses;
  }

  Course run_leaf(const Leaf& leaf, const std::vector<int>& cuts, const Bracket& bracket, int index) {
    const int n = int(cuts.size()), lanes = (n + kLanes - 1) / kLanes * kLanes;
    const size_t entries = leaf.columns.n_entries();
    Course course{std::vector<double>(entries * lanes, 0), std::vector<int64_t>(n)};
    std::vector<double> gram = bracket.grams[index];
    int64_t count = bracket.counts[index];
    const auto at = [&](int position) {
      return std::lower_bound(leaf.positions.begin(), leaf.positions.end(), position) - leaf.positions.begin();
    };
    for (int k = 0; k < n; ++k) {
      const int j = leaf.on_left ? k : n - 1 - k;
      const int64_t from = at(leaf.on_left ? (k ? cuts[j - 1] : bracket.first) : cuts[j]);
      const int64_t to = at(leaf.on_left ? cuts[j] : (k ? cuts[j + 1] : bracket.last));
      if (to > from) reader_.sum_rows(leaf.rows.data() + from, to - from, leaf.columns, gram.data(), s_);
      course.counts[j] = count += to - from;
      for (size_t p = 0; p < entries; ++p) course.grams[p * lanes + j] = gram[p];
    }
    return course;
  }

  // The course of the right leaf from that of the left one, where both are the two sides of one leaf: a coarse look
  // may subtract, what it finds is summed again.
  Course the_others(const Course& left, int n) {
    const int lanes = (n + kLanes - 1) / kLanes * kLanes;
    const int64_t n_left = int64_t(leaves_[0].rows.size()) - left.counts[n - 1] + leaves_[0].n_missing;
    const ModelColumns& columns = leaves_[0].columns;
    std::vector<double> rest(columns.n_entries(), 0);
    reader_.sum_rows(leaves_[0].rows.data() + leaves_[0].rows.size() - n_left, n_left, columns, rest.data(), s_);
    Course right{left.grams, left.counts};
    const int64_t total = int64_t(leaves_[0].rows.size()) + leaves_[0].n_missing + leaves_[1].n_missing;
    for (int j = 0; j < n; ++j) right.counts[j] = total - left.counts[j];
    for (size_t p = 0; p < rest.size(); ++p) {
      const double sum = left.grams[p * lanes + n - 1] + rest[p] + leaves_[1].missing[p];
      for (int j = 0; j < n; ++j) right.grams[p * lanes + j] = sum - left.grams[p * lanes + j];
    }
    return right;
  }

  const CoreReader& reader_;
  RowList rows_, missing_, sorted_;
  bool is_part_ = false;  // rows_ are those of one bracket
};

inline FoundCut CoreReader::best_cut(const Evaluator& evaluator, const SweepRequest& request, Scratch& s) const {
  return CoreSweep(evaluator, *this, s).run(request);
}

}  // namespace silva
