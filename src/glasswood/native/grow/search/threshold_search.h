// The best threshold of a split, its subtrees kept: Gram matrices of the leaves on both sides run along the sorted
// rows, first on a coarse grid of candidates, then between the neighbours of the best one, down to single rows.
#pragma once
#include <limits>
#include <vector>

#include "grow/data/limits.h"
#include "grow/search/candidates.h"
#include "grow/sums/row_source.h"

namespace glasswood {

// The search for the best candidate; where rows and sums come from is left to CpuThresholdSearch and
// GpuThresholdSearch.
class ThresholdSearch {
 public:
  // Candidates strictly between two positions. Leaves on the left hold the rows before `first`, those on the right the
  // rows from `last` on.
  struct Range {
    int first = 0, last = 0;
    std::vector<std::vector<double>> grams;
    std::vector<int64_t> counts;
    int place = 0;  // 0 or 1: no other of its level has it
  };
  struct Candidates {
    std::vector<int> positions;
    std::vector<int32_t> ranks;
    std::vector<char> more;  // whether ranks change between a candidate's neighbours elsewhere than at the candidate
  };

  ThresholdSearch(const GrowData& data, const GrowLimits& limits, TaskRunner& tasks, Scratch& scratch)
      : data_(data), limits_(limits), tasks_(tasks), s_(scratch) {}
  virtual ~ThresholdSearch() = default;

  FoundThreshold run(const ThresholdRequest& request) {
    request_ = request;
    Range all;
    all.last = open();
    for (const Leaf& leaf : leaves_) all.grams.push_back(leaf.missing), all.counts.push_back(leaf.n_missing);
    refine({all}, kPlaces);
    return best_;
  }

  template <class List>
  static Candidates candidates_of(const List& list, const Range& range) {
    const int64_t first = range.first, last = range.last;
    const auto moved_on = [&](int j) { return list.next_change(grid_target(first, last, j), last); };
    int32_t positions[kGrid];
    const int n = find_candidates(list, first, last, moved_on, positions);
    Candidates candidates{{positions, positions + n}, {}, {}};
    for (int j = 0; j < n; ++j) {
      candidates.ranks.push_back(list.rank(positions[j]));
      candidates.more.push_back(has_more_candidates(list, first, last, positions, n, j));
    }
    return candidates;
  }

 protected:
  struct Leaf {
    bool on_left;
    int least_rows;
    ModelColumns columns;                  // of all sums of the leaf
    std::vector<int32_t> positions, rows;  // of the rows that reach it when the split sends them to its side
    std::vector<double> missing;           // sums of those without a value
    int64_t n_missing = 0;
  };
  static constexpr int kPlaces = 2;  // ranges of a level at most
  // Finds the rows and fills leaves_, those of the left side first; returns the number of rows that have a value.
  virtual int open() = 0;
  // The candidates of every range.
  virtual std::vector<Candidates> candidates_between(const std::vector<Range>& level) = 0;
  // Sums, for every range and leaf, of its rows between neighbouring candidates and the range's ends: bin j lies
  // before candidate j, the last one behind all candidates.
  virtual void sum_bins(const std::vector<Candidates>& candidates, const std::vector<Range>& level) = 0;
  virtual const double* bin_gram(int range, int leaf, int bin) const = 0;
  virtual int64_t bin_rows(int range, int leaf, int bin) const = 0;
  // For every range, the sum of its leaves' errors at every candidate, infinite where a leaf has too few rows.
  virtual std::vector<std::vector<double>> total_errors(const std::vector<Candidates>& candidates,
                                                        const std::vector<Range>& level) {
    sum_bins(candidates, level);
    return solve_all(candidates, level);
  }
  // Adds to the range between the neighbours of candidate j what lies between them and the ends of the outer one, `b`.
  virtual void pass(int b, const Range&, int n_candidates, int j, Range& inner) { add_bins(b, n_candidates, j, inner); }
  // May settle some of the ranges elsewhere and remove them.
  virtual void hand_over(std::vector<Range>&) {}

  // Takes the lower one of equal candidates, in whatever order they are found.
  void take(const FoundThreshold& found) {
    if (found.error < best_.error || (found.error == best_.error && found.threshold < best_.threshold)) best_ = found;
  }

  // Looks at all ranges of a level at once, then between the neighbours of the best candidates of each.
  void refine(std::vector<Range> level, int branches) {
    for (hand_over(level); !level.empty(); hand_over(level)) {
      const std::vector<Candidates> candidates = candidates_between(level);
      const std::vector<std::vector<double>> totals = total_errors(candidates, level);
      std::vector<Range> next;
      for (size_t b = 0; b < level.size(); ++b) look(int(b), level[b], candidates[b], totals[b], branches, next);
      level = std::move(next);
      branches = 1;
    }
  }

  // The error of a leaf at a candidate: infinite if the leaf has too few rows there.
  double error_of(int leaf, double count, double error) const {
    return count < leaves_[leaf].least_rows ? std::numeric_limits<double>::infinity() : adjusted(leaf, count, error);
  }

  double adjusted(int leaf, double count, double error) const {
    const double k = double(leaves_[leaf].columns.solved().size());
    return error * (request_.adjusted ? (count + k) / (count - k) : 1);
  }

  double work_of_candidate(int leaf) const {
    const double k = double(leaves_[leaf].columns.solved().size());
    return k * k * (k + 20) / 6 + 50;
  }

  // Where the search goes on if candidate j is the best; an empty range if nowhere.
  std::pair<int, int> inside(const Range& range, const Candidates& candidates, int j) const {
    const int first = j > 0 ? candidates.positions[j - 1] : range.first;
    const int last = j + 1 < int(candidates.positions.size()) ? candidates.positions[j + 1] : range.last;
    const int span = range.last - range.first;
    return span - 1 > kGrid && !request_.coarse && last - first < span && candidates.more[j] ? std::pair{first, last}
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
  // The k-th candidate from the side of leaf i, and the bin before it as seen from there.
  std::pair<int, int> candidate_along(int i, int k, int n_candidates) const {
    const int candidate = leaves_[i].on_left ? k : n_candidates - 1 - k;
    return {candidate, leaves_[i].on_left ? candidate : candidate + 1};
  }

  // Sums of a leaf at up to kLanes candidates side by side: those before the first, and what each candidate adds.
  struct Lanes {
    std::vector<double> before;
    const double* more[kLanes];
    int candidates[kLanes], n = 0;
    int64_t counts[kLanes];

    // Moves on behind the last candidate.
    void write(double* lanes) {
      for (size_t p = 0; p < before.size(); ++p) {
        double sum = before[p];
        for (int l = 0; l < n; ++l) lanes[p * kLanes + l] = sum += more[l][p];
        before[p] = sum;
      }
    }
  };

  // The candidates at which a leaf has enough rows and others than at the candidate before, seen from its side.
  struct Solvable {
    int n = 0;
    int solved[kGrid];      // counted from the leaf's side
    int64_t counts[kGrid];  // of rows, by solved candidate
    int same[kGrid];        // by candidate: the one with the same rows, -1 if there is none
  };
  // Some of the solvable candidates of a leaf, which is numbered over all ranges.
  struct SolveTask {
    int at, first, last;
  };

  Solvable solvable_of(int b, const Range& range, int n_candidates, int i) const {
    Solvable solvable;
    std::fill_n(solvable.same, n_candidates, -1);
    int64_t count = range.counts[i], last_count = -1;
    int last = -1;
    for (int k = 0; k < n_candidates; ++k) {
      const auto [candidate, bin] = candidate_along(i, k, n_candidates);
      count += bin_rows(b, i, bin);
      if (count < leaves_[i].least_rows) continue;
      if (count == last_count) {
        solvable.same[candidate] = last;
        continue;
      }
      last = candidate, last_count = count;
      solvable.solved[solvable.n] = k, solvable.counts[solvable.n++] = count;
    }
    return solvable;
  }

  // Errors of leaf i at the solvable candidates `first` .. `last` - 1.
  void solve(int b, const Range& range, int i, const Solvable& solvable, int first, int last,
             std::vector<double>& errors) const {
    const Leaf& leaf = leaves_[i];
    const size_t entries = leaf.columns.n_entries();
    const size_t work = work_size(int(leaf.columns.solved().size()));
    Buffers::SmallArray buffer(tasks_.buffers(), (entries + work) * kLanes);
    Lanes lanes{range.grams[i]};
    for (int k = 0, at = 0; at < last; ++k) {
      const auto [candidate, bin] = candidate_along(i, k, int(errors.size()));
      const bool is_solved = solvable.solved[at] == k;
      at += is_solved;
      const bool has_rows = bin_rows(b, i, bin) > 0;
      const double* more = has_rows ? bin_gram(b, i, bin) : nothing_.data();
      if (!is_solved || at <= first) {
        for (size_t p = 0; has_rows && p < entries; ++p) lanes.before[p] += more[p];
      } else {
        lanes.more[lanes.n] = more, lanes.candidates[lanes.n] = candidate,
        lanes.counts[lanes.n] = solvable.counts[at - 1];
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
    for (int l = 0; l < lanes.n; ++l) errors[lanes.candidates[l]] = adjusted(i, double(lanes.counts[l]), solved[l]);
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

  std::vector<std::vector<double>> solve_all(const std::vector<Candidates>& candidates,
                                             const std::vector<Range>& level) {
    const int n = int(leaves_.size());
    std::vector<std::vector<double>> errors(level.size() * n), totals(level.size());
    std::vector<Solvable> solvables;
    std::vector<SolveTask> tasks;
    solvables.reserve(errors.size()), tasks.reserve(errors.size());
    for (int at = 0; at < int(errors.size()); ++at) {
      const int n_candidates = int(candidates[at / n].positions.size());
      errors[at].assign(n_candidates, std::numeric_limits<double>::infinity());
      solvables.push_back(solvable_of(at / n, level[at / n], n_candidates, at % n));
      add_solve_tasks(at, solvables[at].n, tasks);
    }
    const auto work = [&](int j) { return work_of_candidate(tasks[j].at % n) * (tasks[j].last - tasks[j].first); };
    tasks_.fork_by_work(int(tasks.size()), s_, work, [&](int j, Scratch&) {
      const auto [at, first, last] = tasks[j];
      solve(at / n, level[at / n], at % n, solvables[at], first, last, errors[at]);
    });
    for (int at = 0; at < int(errors.size()); ++at) {
      const int n_candidates = int(errors[at].size());
      totals[at / n].resize(n_candidates, 0);
      for (int j = 0; j < n_candidates; ++j)
        totals[at / n][j] += errors[at][solvables[at].same[j] < 0 ? j : solvables[at].same[j]];
    }
    return totals;
  }

  // Whole lanes of candidates that are worth a subtask; all where subtasks run in turn, since each adds up anew what
  // lies before its first candidate.
  void add_solve_tasks(int at, int n_solved, std::vector<SolveTask>& tasks) const {
    const double work = work_of_candidate(at % int(leaves_.size())) * kLanes;
    const int together = kLanes * tasks_.items_of_subtask(n_solved, work);
    for (int first = 0; first < n_solved; first += together)
      tasks.push_back({at, first, std::min(first + together, n_solved)});
  }

  void look(int b, const Range& range, const Candidates& candidates, const std::vector<double>& totals, int branches,
            std::vector<Range>& next) {
    for (const int j : local_minima(totals, branches)) {
      take({candidates.ranks[j], totals[j]});
      const auto [first, last] = inside(range, candidates, j);
      if (first == last) continue;
      Range inner = range;
      inner.first = first, inner.last = last;
      if (branches > 1) inner.place = int(next.size());
      pass(b, range, int(candidates.positions.size()), j, inner);
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

  void add_bins(int b, int n, int j, Range& inner) {
    const auto work = [&](int i) { return double(leaves_[i].columns.n_entries()) * n; };
    tasks_.fork_by_work(int(leaves_.size()), s_, work, [&](int i, Scratch&) {
      const int from = leaves_[i].on_left ? j - 1 : j + 1;
      if (from < 0 || from >= n) return;
      for (int k = 0; k == 0 || candidate_along(i, k - 1, n).first != from; ++k) {
        const int bin = candidate_along(i, k, n).second;
        if (bin_rows(b, i, bin) == 0) continue;
        const double* more = bin_gram(b, i, bin);
        for (size_t p = 0; p < inner.grams[i].size(); ++p) inner.grams[i][p] += more[p];
        inner.counts[i] += bin_rows(b, i, bin);
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
  FoundThreshold best_;

 private:
  std::vector<double> nothing_;  // the sums of no rows
};

}  // namespace glasswood
