// The best threshold of a test, its subtrees kept: Gram matrices of the leaves on both sides run along the sorted
// rows, first on a coarse grid of cuts, then between the neighbours of the best one, down to single rows.
#pragma once
#include <limits>
#include <vector>

#include "grow/cuda/shared/cuts.h"
#include "grow/data/limits.h"
#include "grow/sums/row_reader.h"

namespace silva {

// The search for the best cut; where rows and sums come from is left to CpuThresholdSearch and GpuThresholdSearch.
class ThresholdSearch {
 public:
  ThresholdSearch(const GrowData& data, const GrowLimits& limits, TaskRunner& tasks, Scratch& scratch)
      : data_(data), limits_(limits), tasks_(tasks), s_(scratch) {}
  virtual ~ThresholdSearch() = default;

  FoundCut run(const ThresholdRequest& request) {
    request_ = request;
    Bracket all;
    all.last = open();
    for (const Leaf& leaf : leaves_) all.grams.push_back(leaf.missing), all.counts.push_back(leaf.n_missing);
    refine({all}, kPlaces);
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
    int place = 0;  // 0 or 1: no other of its level has it
  };
  struct Cuts {
    std::vector<int> positions;
    std::vector<int32_t> ranks;
    std::vector<char> more;  // whether ranks change between a cut's neighbours elsewhere than at the cut
  };
  static constexpr int kPlaces = 2;  // brackets of a level at most
  // Finds the rows and fills leaves_, those of the left side first; returns the number of rows that have a value.
  virtual int open() = 0;
  // Of every bracket.
  virtual std::vector<Cuts> cuts_between(const std::vector<Bracket>& level) = 0;
  // Sums, for every bracket and leaf, of its rows between neighbouring cuts and the bracket's ends: part j lies before
  // cut j, the last one behind all cuts.
  virtual void sum_parts(const std::vector<Cuts>& cuts, const std::vector<Bracket>& level) = 0;
  virtual const double* part_gram(int bracket, int leaf, int part) const = 0;
  virtual int64_t part_rows(int bracket, int leaf, int part) const = 0;
  // Of every bracket: the sum of its leaves' errors at every cut, infinite where a leaf has too few rows.
  virtual std::vector<std::vector<double>> total_errors(const std::vector<Cuts>& cuts,
                                                        const std::vector<Bracket>& level) {
    sum_parts(cuts, level);
    return solve_all(cuts, level);
  }
  // Adds to the bracket between the neighbours of cut j what lies between them and the ends of the outer one, `b`.
  virtual void pass(int b, const Bracket&, int n_cuts, int j, Bracket& inner) { add_parts(b, n_cuts, j, inner); }
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
      const std::vector<std::vector<double>> totals = total_errors(cuts, level);
      std::vector<Bracket> next;
      for (size_t b = 0; b < level.size(); ++b) look(int(b), level[b], cuts[b], totals[b], branches, next);
      level = std::move(next);
      branches = 1;
    }
  }

  // Of a leaf at a cut: infinite if it has too few rows there.
  double error_of(int leaf, double count, double error) const {
    return count < leaves_[leaf].least_rows ? std::numeric_limits<double>::infinity() : adjusted(leaf, count, error);
  }

  double adjusted(int leaf, double count, double error) const {
    const double k = double(leaves_[leaf].columns.solved().size());
    return error * (request_.adjusted ? (count + k) / (count - k) : 1);
  }

  template <class List>
  static Cuts cuts_of(const List& list, const Bracket& bracket) {
    const int64_t first = bracket.first, last = bracket.last;
    const auto moved_on = [&](int j) { return list.next_change(grid_target(first, last, j), last); };
    int32_t positions[kGrid];
    const int n = find_cuts(list, first, last, moved_on, positions);
    Cuts cuts{{positions, positions + n}, {}, {}};
    for (int j = 0; j < n; ++j) {
      cuts.ranks.push_back(list.rank(positions[j]));
      cuts.more.push_back(has_more_cuts(list, first, last, positions, n, j));
    }
    return cuts;
  }

  double work_of_cut(int leaf) const {
    const double k = double(leaves_[leaf].columns.solved().size());
    return k * k * (k + 20) / 6 + 50;
  }

  // Where the search goes on if cut j is the best; an empty range if nowhere.
  std::pair<int, int> inside(const Bracket& bracket, const Cuts& cuts, int j) const {
    const int first = j > 0 ? cuts.positions[j - 1] : bracket.first;
    const int last = j + 1 < int(cuts.positions.size()) ? cuts.positions[j + 1] : bracket.last;
    const int span = bracket.last - bracket.first;
    return span - 1 > kGrid && !request_.coarse && last - first < span && cuts.more[j] ? std::pair{first, last}
                                                                                       : std::pair{0, 0};
  }

  std::vector<int> add_leaves(int root, bool on_left) {
    const GrowTree& tree = *request_.tree;
    std::vector<int> index(subtree_end(tree, root) - root, -1);
    for (int v = root; v < root + int(index.size()); ++v) {
      if (!tree[v].is_leaf()) continue;
      index[v - root] = int(leaves_.size());
      Leaf& leaf = leaves_.emplace_back();
      leaf.on_left = on_left;
      leaf.least_rows = limits_.least_rows(tree[v].model);
      leaf.columns = ModelColumns(data_, tree[v].model);
      leaf.missing.assign(leaf.columns.n_entries(), 0);
      nothing_.resize(std::max(nothing_.size(), leaf.missing.size()), 0);
    }
    return index;
  }

 private:
  // The k-th cut from the side of leaf i, and the part before it as seen from there.
  std::pair<int, int> cut_along(int i, int k, int n_cuts) const {
    const int cut = leaves_[i].on_left ? k : n_cuts - 1 - k;
    return {cut, leaves_[i].on_left ? cut : cut + 1};
  }

  // Sums of a leaf at up to kLanes cuts side by side: those before the first, and what each cut adds.
  struct Lanes {
    std::vector<double> before;
    const double* more[kLanes];
    int cuts[kLanes], n = 0;
    int64_t counts[kLanes];

    // Moves on behind the last cut.
    void write(double* lanes) {
      for (size_t p = 0; p < before.size(); ++p) {
        double sum = before[p];
        for (int l = 0; l < n; ++l) lanes[p * kLanes + l] = sum += more[l][p];
        before[p] = sum;
      }
    }
  };

  // The cuts at which a leaf has enough rows and others than at the cut before, seen from its side.
  struct Course {
    int n = 0;
    int solved[kGrid];      // counted from the leaf's side
    int64_t counts[kGrid];  // of rows, by solved cut
    int same[kGrid];        // by cut: the one with the same rows, -1 if there is none
  };
  // Some cuts of a course.
  struct Stretch {
    int at, first, last;
  };

  Course course_of(int b, const Bracket& bracket, int n_cuts, int i) const {
    Course course;
    std::fill_n(course.same, n_cuts, -1);
    int64_t count = bracket.counts[i], last_count = -1;
    int last = -1;
    for (int k = 0; k < n_cuts; ++k) {
      const auto [cut, part] = cut_along(i, k, n_cuts);
      count += part_rows(b, i, part);
      if (count < leaves_[i].least_rows) continue;
      if (count == last_count) {
        course.same[cut] = last;
        continue;
      }
      last = cut, last_count = count;
      course.solved[course.n] = k, course.counts[course.n++] = count;
    }
    return course;
  }

  // Errors of leaf i at the cuts `first` .. `last` - 1 of its course.
  void solve(int b, const Bracket& bracket, int i, const Course& course, int first, int last,
             std::vector<double>& errors) const {
    const Leaf& leaf = leaves_[i];
    const size_t entries = leaf.columns.n_entries();
    const size_t work = work_size(int(leaf.columns.solved().size()));
    Buffers::Room buffer(tasks_.buffers(), (entries + work) * kLanes);
    Lanes lanes{bracket.grams[i]};
    for (int k = 0, at = 0; at < last; ++k) {
      const auto [cut, part] = cut_along(i, k, int(errors.size()));
      const bool is_solved = course.solved[at] == k;
      at += is_solved;
      const bool has_rows = part_rows(b, i, part) > 0;
      const double* more = has_rows ? part_gram(b, i, part) : nothing_.data();
      if (!is_solved || at <= first) {
        for (size_t p = 0; has_rows && p < entries; ++p) lanes.before[p] += more[p];
      } else {
        lanes.more[lanes.n] = more, lanes.cuts[lanes.n] = cut, lanes.counts[lanes.n] = course.counts[at - 1];
        if (++lanes.n == kLanes) solve(i, lanes, buffer.data(), errors);
      }
    }
    solve(i, lanes, buffer.data(), errors);
  }

  void solve(int i, Lanes& lanes, double* buffer, std::vector<double>& errors) const {
    if (!lanes.n) return;
    double solved[kLanes];
    lanes.write(buffer);
    solve(leaves_[i], buffer, lanes.n, solved);
    for (int l = 0; l < lanes.n; ++l) errors[lanes.cuts[l]] = adjusted(i, double(lanes.counts[l]), solved[l]);
    lanes.n = 0;
  }

  // Behind the lanes there is room to work in.
  void solve(const Leaf& leaf, double* lanes, int n, double* errors) const {
    const ModelColumns& columns = leaf.columns;
    const int k = int(columns.solved().size()), width = columns.width();
    double* work = lanes + columns.n_entries() * kLanes;
    if (columns.imputed().empty()) {
      kernels_.residuals(lanes, kLanes, width, columns.solved().data(), k, work, errors);
      return;
    }
    std::vector<double> gram(columns.n_entries());
    for (int l = 0; l < n; ++l) {
      for (size_t p = 0; p < gram.size(); ++p) gram[p] = lanes[p * kLanes + l];
      impute(columns.imputed(), width, gram.data());
      errors[l] = kernels_.residual(gram.data(), width, columns.solved().data(), k, work);
    }
  }

  std::vector<std::vector<double>> solve_all(const std::vector<Cuts>& cuts, const std::vector<Bracket>& level) {
    const int n = int(leaves_.size());
    std::vector<std::vector<double>> errors(level.size() * n), totals(level.size());
    std::vector<Course> courses;
    std::vector<Stretch> stretches;
    courses.reserve(errors.size()), stretches.reserve(errors.size());
    for (int at = 0; at < int(errors.size()); ++at) {
      const int n_cuts = int(cuts[at / n].positions.size());
      errors[at].assign(n_cuts, std::numeric_limits<double>::infinity());
      courses.push_back(course_of(at / n, level[at / n], n_cuts, at % n));
      add_stretches(at, courses[at].n, stretches);
    }
    const auto work = [&](int j) {
      return work_of_cut(stretches[j].at % n) * (stretches[j].last - stretches[j].first);
    };
    tasks_.fork_by_work(int(stretches.size()), s_, work, [&](int j, Scratch&) {
      const auto [at, first, last] = stretches[j];
      solve(at / n, level[at / n], at % n, courses[at], first, last, errors[at]);
    });
    for (int at = 0; at < int(errors.size()); ++at) {
      const int n_cuts = int(errors[at].size());
      totals[at / n].resize(n_cuts, 0);
      for (int j = 0; j < n_cuts; ++j)
        totals[at / n][j] += errors[at][courses[at].same[j] < 0 ? j : courses[at].same[j]];
    }
    return totals;
  }

  // Whole lanes of cuts that are worth a subtask; all where subtasks run in turn, since each adds up anew what
  // lies before its first cut.
  void add_stretches(int at, int n_solved, std::vector<Stretch>& stretches) const {
    const double work = work_of_cut(at % int(leaves_.size())) * kLanes;
    const int together = kLanes * tasks_.items_of_subtask(n_solved, work);
    for (int first = 0; first < n_solved; first += together)
      stretches.push_back({at, first, std::min(first + together, n_solved)});
  }

  void look(int b, const Bracket& bracket, const Cuts& cuts, const std::vector<double>& totals, int branches,
            std::vector<Bracket>& next) {
    for (const int j : local_minima(totals, branches)) {
      take({cuts.ranks[j], totals[j]});
      const auto [first, last] = inside(bracket, cuts, j);
      if (first == last) continue;
      Bracket inner = bracket;
      inner.first = first, inner.last = last;
      if (branches > 1) inner.place = int(next.size());
      pass(b, bracket, int(cuts.positions.size()), j, inner);
      next.push_back(std::move(inner));
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

  void add_parts(int b, int n, int j, Bracket& inner) {
    const auto work = [&](int i) { return double(leaves_[i].columns.n_entries()) * n; };
    tasks_.fork_by_work(int(leaves_.size()), s_, work, [&](int i, Scratch&) {
      const int from = leaves_[i].on_left ? j - 1 : j + 1;
      if (from < 0 || from >= n) return;
      for (int k = 0; k == 0 || cut_along(i, k - 1, n).first != from; ++k) {
        const int part = cut_along(i, k, n).second;
        if (part_rows(b, i, part) == 0) continue;
        const double* more = part_gram(b, i, part);
        for (size_t p = 0; p < inner.grams[i].size(); ++p) inner.grams[i][p] += more[p];
        inner.counts[i] += part_rows(b, i, part);
      }
    });
  }

 protected:
  const GrowData& data_;
  const GrowLimits& limits_;
  TaskRunner& tasks_;
  const GrowKernels& kernels_ = grow_kernels();
  Scratch& s_;
  ThresholdRequest request_{};
  std::vector<Leaf> leaves_;
  FoundCut best_;

 private:
  std::vector<double> nothing_;  // the sums of no rows
};

}  // namespace silva
