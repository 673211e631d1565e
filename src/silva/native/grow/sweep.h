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
  bool coarse = false;            // one look at the grid tells enough
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
  // Finds the rows and fills leaves_, those of the left side first; returns the number of rows that have a value.
  virtual int open() = 0;
  // Of every bracket.
  virtual std::vector<Cuts> cuts_between(const std::vector<Bracket>& level) = 0;
  // Sums, for every bracket and leaf, of its rows between neighbouring cuts and the bracket's ends: part j lies before
  // cut j, the last one behind all cuts.
  virtual void sum_parts(const std::vector<Cuts>& cuts, const std::vector<Bracket>& level) = 0;
  virtual const double* part_gram(int bracket, int leaf, int part) const = 0;
  virtual int64_t part_rows(int bracket, int leaf, int part) const = 0;
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
      sum_parts(cuts, level);
      const std::vector<std::vector<double>> totals = total_errors(cuts, level);
      std::vector<Bracket> next;
      for (size_t b = 0; b < level.size(); ++b) look(int(b), level[b], cuts[b], totals[b], branches, next);
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

  // Errors of leaf i at every cut, infinite where it has too few rows.
  std::vector<double> errors_of(int b, const Bracket& bracket, int n_cuts, int i, Scratch& s) const {
    const Leaf& leaf = leaves_[i];
    const size_t entries = leaf.columns.n_entries();
    s.lanes.resize((entries + 1) * kLanes);
    double* buffer = s.lanes.data() + (64 - reinterpret_cast<uintptr_t>(s.lanes.data()) % 64) % 64 / sizeof(double);
    std::vector<double> errors(n_cuts, std::numeric_limits<double>::infinity());
    const std::vector<double> nothing(entries, 0);
    Lanes lanes{bracket.grams[i]};
    int64_t count = bracket.counts[i], last_count = -1;
    int last = -1;
    std::vector<int> solved_at(n_cuts, -1);  // the cut with the same rows
    for (int k = 0; k < n_cuts; ++k) {
      const auto [cut, part] = cut_along(i, k, n_cuts);
      const int64_t n_more = part_rows(b, i, part);
      const double* more = n_more > 0 ? part_gram(b, i, part) : nothing.data();
      count += n_more;
      if (count < leaf.least_rows) {
        for (size_t p = 0; p < entries; ++p) lanes.before[p] += more[p];
      } else if (count == last_count) {
        solved_at[cut] = last;
      } else {
        last = cut, last_count = count;
        lanes.more[lanes.n] = more, lanes.cuts[lanes.n] = cut, lanes.counts[lanes.n] = count;
        if (++lanes.n == kLanes) solve(leaf, lanes, buffer, s, errors);
      }
    }
    solve(leaf, lanes, buffer, s, errors);
    for (int cut = 0; cut < n_cuts; ++cut)
      if (solved_at[cut] >= 0) errors[cut] = errors[solved_at[cut]];
    return errors;
  }

  void solve(const Leaf& leaf, Lanes& lanes, double* buffer, Scratch& s, std::vector<double>& errors) const {
    if (!lanes.n) return;
    double solved[kLanes];
    const double k = double(leaf.columns.solved().size());
    lanes.write(buffer);
    solve(leaf, buffer, lanes.n, s, solved);
    for (int l = 0; l < lanes.n; ++l) {
      const double count = double(lanes.counts[l]);
      errors[lanes.cuts[l]] = solved[l] * (request_.adjusted ? (count + k) / (count - k) : 1);
    }
    lanes.n = 0;
  }

  void solve(const Leaf& leaf, const double* lanes, int n, Scratch& s, double* errors) const {
    const ModelColumns& columns = leaf.columns;
    const int k = int(columns.solved().size()), width = columns.width();
    s.work.resize(work_size(k) * kLanes + kLanes);
    double* work = s.work.data() + (64 - reinterpret_cast<uintptr_t>(s.work.data()) % 64) % 64 / sizeof(double);
    if (columns.imputed().empty()) {
      e_.kernels().residuals(lanes, kLanes, width, columns.solved().data(), k, work, errors);
      return;
    }
    std::vector<double> gram(columns.n_entries());
    for (int l = 0; l < n; ++l) {
      for (size_t p = 0; p < gram.size(); ++p) gram[p] = lanes[p * kLanes + l];
      impute(columns.imputed(), width, gram.data());
      errors[l] = e_.kernels().residual(gram.data(), width, columns.solved().data(), k, work);
    }
  }

  // Of every bracket: the sum of its leaves' errors at every cut.
  std::vector<std::vector<double>> total_errors(const std::vector<Cuts>& cuts, const std::vector<Bracket>& level) {
    const int n = int(leaves_.size());
    std::vector<std::vector<double>> errors(level.size() * n), totals(level.size());
    const auto n_cuts = [&](int at) { return int(cuts[at / n].positions.size()); };
    const auto work = [&](int at) {
      const double k = double(leaves_[at % n].columns.solved().size());
      return (k * k * (k + 20) / 6 + 50) * n_cuts(at);
    };
    share(int(errors.size()), work,
          [&](int at, Scratch& s) { errors[at] = errors_of(at / n, level[at / n], n_cuts(at), at % n, s); });
    for (int at = 0; at < int(errors.size()); ++at) {
      totals[at / n].resize(n_cuts(at), 0);
      for (int j = 0; j < n_cuts(at); ++j) totals[at / n][j] += errors[at][j];
    }
    return totals;
  }

  void look(int b, const Bracket& bracket, const Cuts& cuts, const std::vector<double>& totals, int branches,
            std::vector<Bracket>& next) {
    const std::vector<int> minima = local_minima(totals, branches);
    for (const int j : minima) take({cuts.ranks[j], totals[j]});
    if (bracket.last - bracket.first - 1 <= kGrid || request_.coarse) return;
    for (const int j : minima) {
      Bracket inner = between(b, bracket, cuts.positions, j);
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

  // What lies between the neighbours of cut j.
  Bracket between(int b, const Bracket& outer, const std::vector<int>& cuts, int j) {
    const int n = int(cuts.size());
    Bracket inner = outer;
    inner.first = j > 0 ? cuts[j - 1] : outer.first;
    inner.last = j + 1 < n ? cuts[j + 1] : outer.last;
    const auto work = [&](int i) { return double(leaves_[i].columns.n_entries()) * n; };
    share(int(leaves_.size()), work, [&](int i, Scratch&) {
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

  void sum_parts(const std::vector<Cuts>& cuts, const std::vector<Bracket>& level) override {
    parts_.assign(level.size() * leaves_.size(), {});
    size_t n_sums = 0;
    for (size_t at = 0; at < parts_.size(); ++at) {
      parts_[at].first = n_sums;
      if (is_mirrored(int(at % leaves_.size()))) continue;
      n_sums += leaves_[at % leaves_.size()].columns.n_entries() * (cuts[at / leaves_.size()].positions.size() + 1);
    }
    if (s_.part_sums.size() < n_sums) s_.part_sums = std::vector<double>(n_sums);
    for (int b = 0; b < int(level.size()); ++b)
      for (int i = 0; i < int(leaves_.size()); ++i)
        if (!cuts[b].positions.empty() && !is_mirrored(i)) sum_parts(leaves_[i], cuts[b], level[b], parts_of(b, i));
  }
  const double* part_gram(int b, int i, int part) const override {
    const int from = is_mirrored(i) ? 0 : i;
    return s_.part_sums.data() + parts_of(b, from).first + size_t(part) * leaves_[from].columns.n_entries();
  }
  int64_t part_rows(int b, int i, int part) const override { return parts_of(b, is_mirrored(i) ? 0 : i).counts[part]; }

  // Whether a leaf holds the rows of leaf 0: the two sides of one leaf that is to be split.
  bool is_mirrored(int i) const { return i == 1 && request_.left == request_.right; }

  // Where its sums stand in s_.part_sums; those of a part without rows are never read.
  struct Parts {
    size_t first = 0;
    std::vector<int64_t> counts;
  };
  Parts& parts_of(int b, int i) { return parts_[b * leaves_.size() + i]; }
  const Parts& parts_of(int b, int i) const { return parts_[b * leaves_.size() + i]; }

  void sum_parts(const Leaf& leaf, const Cuts& cuts, const Bracket& bracket, Parts& parts) {
    const int n = int(cuts.positions.size());
    const size_t entries = leaf.columns.n_entries();
    parts.counts.assign(n + 1, 0);
    const auto at = [&](int position) {
      return std::lower_bound(leaf.positions.begin(), leaf.positions.end(), position) - leaf.positions.begin();
    };
    const bool both = request_.left == request_.right;
    for (int j = 0; j <= n; ++j) {
      if (!both && j == (leaf.on_left ? n : 0)) continue;  // asked for by nobody
      const int64_t from = at(j ? cuts.positions[j - 1] : bracket.first);
      const int64_t to = at(j < n ? cuts.positions[j] : bracket.last);
      parts.counts[j] = to - from;
      if (to <= from) continue;
      double* gram = s_.part_sums.data() + parts.first + j * entries;
      std::fill(gram, gram + entries, 0.0);
      reader_.sum_rows(leaf.rows.data() + from, to - from, leaf.columns, gram, s_);
    }
  }

  const CoreReader& reader_;
  RowList rows_, missing_, sorted_;
  std::vector<Parts> parts_;  // by bracket and leaf
};

inline FoundCut CoreReader::best_cut(const Evaluator& evaluator, const SweepRequest& request, Scratch& s) const {
  return CoreSweep(evaluator, *this, s).run(request);
}

}  // namespace silva
