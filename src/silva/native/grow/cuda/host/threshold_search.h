// Thresholds on rows that GPUs read.
#pragma once
#include <map>
#include <numeric>
#include <optional>

#include "grow/cpu/threshold_search.h"
#include "grow/cuda/host/rank_counts.h"
#include "grow/cuda/host/row_source.h"

namespace silva {

// Cuts of a list of rows that stays on the GPU; the sums between two cuts are one request each. Where models are large
// and one GPU holds the list, these sums stay there too, and errors come back.
class GpuSweep : public ThresholdSweep {
 public:
  GpuSweep(const Evaluator& evaluator, const GpuReader& reader, Scratch& scratch)
      : ThresholdSweep(evaluator, scratch), reader_(reader), list_(reader), sums_(reader.buffers(), 0) {}

 private:
  int open() override {
    const GrowTree& tree = *request_.tree;
    const Interval interval = request_.box->interval(data_, request_.attribute);
    add_leaves(request_.left, true);
    n_left_ = int(leaves_.size());
    add_leaves(request_.right, false);
    for (const auto& [root, nodes] : {std::pair{request_.left, &left_}, {request_.right, &right_}})
      GpuReader::add_nodes(tree, root, nullptr, *nodes);
    ListQuestion list = reader_.list_question(list_, reader_.source_of(interval, false), *request_.box,
                                              request_.attribute, request_.attribute);
    CutsAnswer first_cuts{};
    if (is_whole())
      list.cuts = &first_cuts;
    else
      RankCounts::count(list, interval.low, interval.high, reader_.settings_.n_cells);
    SumQuestion missing = question(request_.missing_left);
    GpuQuestions questions{{}, {&list}, {}, {}};
    if (interval.missing) {
      missing.source = reader_.parts().missing(request_.attribute);
      missing.intervals = list.intervals;
      questions.sums.push_back(&missing);
    }
    reader_.ask(questions);
    const int first = request_.missing_left ? 0 : n_left_;
    for (size_t k = 0; k < missing.answer.size(); ++k) {
      leaves_[first + k].n_missing = missing.answer[k].n_rows;
      leaves_[first + k].missing = std::move(missing.answer[k].gram);
    }
    const int64_t n_rows = std::accumulate(list.totals.begin(), list.totals.end(), int64_t(0));
    if (is_whole())
      first_cuts_ = first_cuts;
    else
      counts_.emplace(list);
    ranks_ = {{0, interval.low}, {int(n_rows), interval.high}};
    s_.rows_read += n_rows;
    keeps_sums_ = !interval.missing && keeps_sums();
    for (auto& of_place : has_sums_before_) of_place.assign(leaves_.size(), false);
    for (Leaf& leaf : leaves_)
      if (keeps_sums_) leaf.missing.clear();
    return int(n_rows);
  }

  // A list that one part holds is cut where it lies; of several parts, the ranks are counted and merged in thought.
  bool is_whole() const { return reader_.parts().are_copies(); }
  bool has_list(int part) const { return !is_whole() || part == home(); }

  SumQuestion question(bool on_left) const {
    SumQuestion question;
    question.nodes = on_left ? left_ : right_;
    for (int i = on_left ? 0 : n_left_; i < (on_left ? n_left_ : int(leaves_.size())); ++i)
      question.columns.push_back(&leaves_[i].columns);
    question.n_slots = int(question.columns.size());
    return question;
  }

  std::vector<Cuts> cuts_between(const std::vector<Bracket>& level) override {
    return is_whole() ? cuts_of_whole(level) : cuts_of_parts(level);
  }

  // The first ones came with the list, the others with the sums of the level before.
  std::vector<Cuts> cuts_of_whole(const std::vector<Bracket>& level) const {
    if (first_cuts_) return {to_cuts(*first_cuts_)};
    std::vector<Cuts> cuts;
    for (const Bracket& bracket : level)
      for (const CutsQuestion& known : next_cuts_)
        if (known.first == bracket.first && known.last == bracket.last) {
          cuts.push_back(to_cuts(known.answer));
          break;
        }
    return cuts;
  }

  // Asks, and in the same round for the cuts wherever the search may go on.
  void ask(GpuQuestions questions, const std::vector<Cuts>& cuts, const std::vector<Bracket>& level) {
    next_cuts_.clear();
    for (size_t b = 0; is_whole() && b < level.size(); ++b)
      for (int j = 0; j < int(cuts[b].positions.size()); ++j) {
        const auto [first, last] = inside(level[b], cuts[b], j);
        if (first < last && (keeps_sums_ || !reader_.is_handed_over(last - first)))
          next_cuts_.push_back({home(), list_.index(), first, last, {}});
      }
    for (CutsQuestion& question : next_cuts_) questions.cuts.push_back(&question);
    reader_.ask(questions);
    first_cuts_.reset();
  }

  static Cuts to_cuts(const CutsAnswer& a) {
    return {{a.cuts, a.cuts + a.n}, {a.ranks, a.ranks + a.n}, {a.more, a.more + a.n}};
  }

  // Looked for again after the cells that they lie in have been counted, mostly once.
  std::vector<Cuts> cuts_of_parts(const std::vector<Bracket>& level) {
    for (;;) {
      std::vector<Cuts> cuts;
      for (const Bracket& bracket : level) cuts.push_back(cuts_of(*counts_, bracket));
      if (counts_->wants()) {
        counts_->resolve([this](const GpuQuestions& questions) { reader_.ask(questions); });
        continue;
      }
      for (const Cuts& c : cuts)
        for (size_t j = 0; j < c.positions.size(); ++j) ranks_[c.positions[j]] = c.ranks[j];
      return cuts;
    }
  }

  // Where the rows before a cut, or before an end of a bracket, end in a part's list.
  int64_t position(int part, int edge) const {
    return !has_list(part) ? 0 : is_whole() ? edge : counts_->below(part, ranks_.at(edge));
  }

  // Brackets of so few rows that the cores settle them sooner than further rounds return.
  void hand_over(std::vector<Bracket>& level) override {
    if (keeps_sums_) return;
    std::vector<Bracket> large, small;
    for (Bracket& bracket : level)
      (reader_.is_handed_over(bracket.last - bracket.first) ? small : large).push_back(std::move(bracket));
    level = std::move(large);
    std::vector<GpuReader::RowRange> ranges;
    int64_t n_rows = 0;
    for (const Bracket& bracket : small) {
      n_rows += bracket.last - bracket.first;
      for (int p = 0; p < reader_.parts().size(); ++p)
        ranges.push_back({p, position(p, bracket.first), position(p, bracket.last)});
    }
    RowList all(n_rows);
    reader_.read_rows(ranges, list_.index(), false, all.data());
    const int32_t* rows = all.data();
    for (Bracket& bracket : small) {
      RowList own(rows, rows + (bracket.last - bracket.first));
      rows += own.size();
      merge_by_rank(own, bracket);
      take(CoreSweep(e_, reader_.cores_, s_).finish(request_, std::move(own), std::move(bracket)));
    }
  }

  // Rows that the parts have listed one behind the other.
  void merge_by_rank(RowList& rows, const Bracket& bracket) const {
    if (is_whole()) return;
    const int32_t* ranks = data_.ranks_of(request_.attribute);
    std::vector<uint64_t> keys(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) keys[i] = uint64_t(ranks[rows[i]]) << 32 | uint32_t(rows[i]);
    auto end = keys.begin();
    for (int p = 0; p < reader_.parts().size(); ++p) {
      const auto middle = end;
      end += position(p, bracket.last) - position(p, bracket.first);
      std::inplace_merge(keys.begin(), middle, end);
    }
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = int32_t(uint32_t(keys[i]));
  }

  // Sums between neighbouring cuts, from the first of `edges` on.
  std::vector<SumQuestion> questions_between(const std::vector<int>& edges, bool on_left) const {
    std::vector<SumQuestion> questions;
    for (size_t j = 0; j + 1 < edges.size(); ++j) {
      questions.push_back(question(on_left));
      questions.back().source.count = edges[j + 1] - edges[j];
      for (int p = 0; p < reader_.parts().size(); ++p) {
        const int64_t first = position(p, edges[j]), last = position(p, edges[j + 1]);
        questions.back().source.parts.push_back(
            {reader_.parts()[p].list_rows(list_.index()), 0, first, last - first, 1});
      }
    }
    return questions;
  }

  static std::vector<int> edges_of(const Cuts& cuts, const Bracket& bracket) {
    std::vector<int> edges = cuts.positions;
    edges.insert(edges.begin(), bracket.first);
    edges.push_back(bracket.last);
    return edges;
  }

  void sum_parts(const std::vector<Cuts>& cuts, const std::vector<Bracket>& level) override {
    left_parts_.assign(level.size(), {}), right_parts_.assign(level.size(), {});
    GpuQuestions questions;
    for (size_t b = 0; b < level.size(); ++b) {
      if (cuts[b].positions.empty()) continue;
      const std::vector<int> edges = edges_of(cuts[b], level[b]);
      left_parts_[b] = questions_between(edges, true);
      if (!is_same()) right_parts_[b] = questions_between(edges, false);
      for (std::vector<SumQuestion>* side : {&left_parts_[b], &right_parts_[b]})
        for (SumQuestion& question : *side) questions.sums.push_back(&question);
    }
    size_t n_entries = 0;
    for (const SumQuestion* question : questions.sums) n_entries += question->n_entries(data_.width);
    sums_.resize(n_entries);
    double* next = sums_.data();
    for (SumQuestion* question : questions.sums) question->sums = next, next += question->n_entries(data_.width);
    ask(std::move(questions), cuts, level);
  }
  const double* part_gram(int b, int i, int part) const override {
    const SumQuestion& question = part_of(b, i, part);
    const double* sums = question.sums;
    for (int slot = 0; slot < slot_of(i); ++slot) sums += question.columns[slot]->n_entries();
    return sums;
  }
  int64_t part_rows(int b, int i, int part) const override { return part_of(b, i, part).answer[slot_of(i)].n_rows; }

  const SumQuestion& part_of(int b, int i, int part) const {
    return (leaves_[i].on_left || is_same() ? left_parts_ : right_parts_)[b][part];
  }
  int slot_of(int i) const { return leaves_[i].on_left ? i : i - n_left_; }
  bool is_same() const { return request_.left == request_.right; }

  // Whether errors are worth a launch, and the sums of all leaves fit what the GPU has for those of the list.
  bool keeps_sums() const {
    const GpuPart& part = reader_.parts()[home()];
    double work = 0;
    for (int i = 0; i < int(leaves_.size()); ++i) {
      const ModelColumns& columns = leaves_[i].columns;
      if (!columns.imputed().empty() || int(columns.solved().size()) >= kMostSolved) return false;
      work += work_of_cut(i) * kGrid;
    }
    return is_whole() && work >= reader_.settings_.solve_work &&
           (parts_end() + kPlaces * step_of(0, int(leaves_.size()))) * int64_t(sizeof(double)) <= part.list_sums_bytes;
  }
  int home() const { return reader_.parts().home(list_.index()); }

  // Where sums stand: for each place the parts of the left side's leaves, one record of all of them behind the other,
  // then those of the right side; behind these for each place what lies before the parts, by leaf. Of a leaf its count
  // of rows, then its sums.
  int64_t step_of(int first_leaf, int last_leaf) const {
    int64_t n = 0;
    for (int i = first_leaf; i < last_leaf; ++i) n += 1 + int64_t(leaves_[i].columns.n_entries());
    return n;
  }
  int64_t step_of(bool on_left) const {
    return on_left ? step_of(0, n_left_) : is_same() ? 0 : step_of(n_left_, int(leaves_.size()));
  }
  int64_t parts_end() const { return kPlaces * (kGrid + 1) * (step_of(true) + step_of(false)); }
  double* kept() const { return reader_.parts()[home()].sums_of_list(list_.index()); }
  double* kept_parts(int place, bool on_left) const {
    return kept() + (kGrid + 1) * (place * (step_of(true) + step_of(false)) + (on_left ? 0 : step_of(true)));
  }
  double* kept_before(int place, int i) const {
    return kept() + parts_end() + place * step_of(0, int(leaves_.size())) + step_of(0, i);
  }
  // The first part of a leaf as seen from its side, and how far it is to the next.
  std::pair<double*, int64_t> parts_along(int place, int i, int n_cuts) const {
    const bool on_left = leaves_[i].on_left, by_left = on_left || is_same();
    const int64_t step = step_of(by_left);
    double* first = kept_parts(place, by_left) + step_of(on_left ? 0 : n_left_, i);
    return on_left ? std::pair{first, step} : std::pair{first + n_cuts * step, -step};
  }

  std::vector<std::vector<double>> total_errors(const std::vector<Cuts>& cuts,
                                                const std::vector<Bracket>& level) override {
    if (!keeps_sums_) return ThresholdSweep::total_errors(cuts, level);
    std::vector<SumQuestion> sums;
    std::vector<SolveQuestion> solves;
    for (size_t b = 0; b < level.size(); ++b) {
      const int n_cuts = int(cuts[b].positions.size());
      if (!n_cuts) continue;
      for (const bool on_left : {true, false}) {
        if (!on_left && is_same()) break;
        double* to = kept_parts(level[b].place, on_left);
        for (SumQuestion& question : questions_between(edges_of(cuts[b], level[b]), on_left)) {
          question.kept = std::exchange(to, to + step_of(on_left));
          sums.push_back(std::move(question));
        }
      }
      for (int i = 0; i < int(leaves_.size()); ++i) {
        const auto [parts, step] = parts_along(level[b].place, i, n_cuts);
        SolveQuestion& question = solves.emplace_back();
        question.part = home(), question.columns = &leaves_[i].columns;
        question.request.base = has_sums_before_[level[b].place][i] ? kept_before(level[b].place, i) : nullptr;
        question.request.parts = parts, question.request.step = step;
        question.request.n_cuts = n_cuts, question.request.width = leaves_[i].columns.width();
        question.request.least_rows = leaves_[i].least_rows;
      }
    }
    GpuQuestions questions;
    for (AdvanceQuestion& question : advances_) questions.advances.push_back(&question);
    for (SumQuestion& question : sums) questions.sums.push_back(&question);
    for (SolveQuestion& question : solves) questions.solves.push_back(&question);
    ask(std::move(questions), cuts, level);
    advances_.clear();
    std::vector<std::vector<double>> totals(level.size());
    auto solved = solves.begin();
    for (size_t b = 0; b < level.size(); ++b) {
      const int n_cuts = int(cuts[b].positions.size());
      totals[b].assign(n_cuts, 0);
      for (int i = 0; n_cuts && i < int(leaves_.size()); ++i, ++solved)
        for (int k = 0; k < n_cuts; ++k)
          totals[b][leaves_[i].on_left ? k : n_cuts - 1 - k] +=
              error_of(i, solved->answer[2 * k], solved->answer[2 * k + 1]);
    }
    return totals;
  }

  void pass(int b, const Bracket& outer, int n_cuts, int j, Bracket& inner) override {
    if (!keeps_sums_) return ThresholdSweep::pass(b, outer, n_cuts, j, inner);
    for (int i = 0; i < int(leaves_.size()); ++i) {
      const int n_parts = leaves_[i].on_left ? j : n_cuts - 1 - j;
      if (!n_parts) continue;
      const auto [parts, step] = parts_along(outer.place, i, n_cuts);
      AdvanceQuestion& question = advances_.emplace_back();
      question.part = home();
      char& is_known = has_sums_before_[inner.place][i];
      question.request = {
          kept_before(inner.place, i), parts, step, int32_t(1 + leaves_[i].columns.n_entries()), n_parts, !is_known, 0};
      is_known = true;
    }
  }

  const GpuReader& reader_;
  const GpuReader::List list_;
  bool keeps_sums_ = false;
  std::vector<char> has_sums_before_[kPlaces];
  std::vector<AdvanceQuestion> advances_;  // of the next round
  std::vector<RouteNode> left_, right_;
  std::vector<std::vector<SumQuestion>> left_parts_, right_parts_;  // by bracket
  Buffers::Lease<double> sums_;                                     // theirs
  int n_left_ = 0;
  std::optional<CutsAnswer> first_cuts_;
  std::vector<CutsQuestion> next_cuts_;  // of the ranges where the search may go on
  std::optional<RankCounts> counts_;
  std::map<int, int32_t> ranks_;  // of the rows at the cuts that were found
};

// Cuts of rows that the cores have sorted, mostly a sample; a GPU sums them and finds the errors where that is work.
class GridSweep : public CoreSweep {
 public:
  GridSweep(const Evaluator& evaluator, const GpuReader& reader, Scratch& scratch)
      : CoreSweep(evaluator, reader.cores_, scratch), reader_(reader) {}

 private:
  int open() override {
    const int n_rows = CoreSweep::open();
    if (!reader_.parts().are_copies() || !missing_.empty() || leaves_.size() != 2 || !is_mirrored(1)) return n_rows;
    const ModelColumns& columns = leaves_[0].columns;
    const double work = double(n_rows) * double(columns.n_entries()) + 2 * kGrid * work_of_cut(0);
    is_asked_ = columns.imputed().empty() && int(columns.solved().size()) < kMostSolved &&
                reader_.parts()[0].list_sums_bytes > 0 &&
                n_rows * reader_.multiplications() >= reader_.settings_.core_work &&
                work >= reader_.settings_.solve_work;
    return n_rows;
  }

  // The ends of a bracket are cuts like those between them.
  std::vector<std::vector<double>> total_errors(const std::vector<Cuts>& cuts,
                                                const std::vector<Bracket>& level) override {
    if (!is_asked_) return CoreSweep::total_errors(cuts, level);
    std::vector<GridQuestion> grids(level.size());
    GpuQuestions questions;
    for (size_t b = 0; b < level.size(); ++b) {
      std::vector<int32_t>& edges = grids[b].cuts;
      edges.assign(cuts[b].positions.begin(), cuts[b].positions.end());
      if (edges.empty()) continue;
      if (level[b].first > 0) edges.insert(edges.begin(), level[b].first);
      if (level[b].last < int(rows_.size())) edges.push_back(level[b].last);
      grids[b].rows = &rows_, grids[b].columns = &leaves_[0].columns, grids[b].least_rows = leaves_[0].least_rows;
      questions.grids.push_back(&grids[b]);
    }
    reader_.ask(questions);
    std::vector<std::vector<double>> totals(level.size());
    for (size_t b = 0; b < level.size(); ++b) {
      const int n = int(grids[b].cuts.size()), first = level[b].first > 0;
      totals[b].assign(cuts[b].positions.size(), 0);
      for (int j = 0; j < int(totals[b].size()); ++j)
        for (int i = 0; i < 2; ++i) {
          const double* found = grids[b].answers[i].data() + 2 * (i ? n - 1 - first - j : first + j);
          totals[b][j] += error_of(i, found[0], found[1]);
        }
      s_.rows_read += n ? int64_t(rows_.size()) : 0;
    }
    return totals;
  }
  void pass(int b, const Bracket& outer, int n_cuts, int j, Bracket& inner) override {
    if (!is_asked_) CoreSweep::pass(b, outer, n_cuts, j, inner);
  }

  const GpuReader& reader_;
  bool is_asked_ = false;
};

inline int64_t GpuReader::sample_by_rank(const RowsByPart& source, const Box& box, int64_t most, RowList& rows) const {
  const List list(*this);
  const Interval interval = box.interval(data_, source.ordered_by);
  ListQuestion all = list_question(list, source, box, -1, source.ordered_by);
  RankCounts::count(all, interval.missing ? -1 : interval.low, interval.high, settings_.n_cells);
  ask({{}, {&all}, {}, {}});
  RankCounts counts(all);
  const int64_t stride = counts.n_rows() / most + 1;
  std::vector<RankCounts::Place> places;
  const auto locate = [&] {
    places.clear();
    for (int64_t at = 0; at < counts.n_rows(); at += stride) places.push_back(counts.place(at));
  };
  for (locate(); counts.wants(); locate()) counts.resolve([&](const GpuQuestions& questions) { ask(questions); });
  std::vector<RowRange> ranges;
  std::vector<int64_t> starts(parts().size(), 0);
  for (int p = 0; p < parts().size(); ++p) {
    ranges.push_back({p, 0, all.totals[p]});
    if (p) starts[p] = starts[p - 1] + all.totals[p - 1];
  }
  RowList listed(counts.n_rows());
  read_rows(ranges, list.index(), false, listed.data());
  rows.resize(places.size());
  for (size_t i = 0; i < places.size(); ++i) rows[i] = listed[starts[places[i].part] + places[i].position];
  return stride;
}

inline FoundCut GpuReader::best_cut(const Evaluator& evaluator, const SweepRequest& request, Scratch& s) const {
  const int n_nodes = subtree_end(*request.tree, request.right) - request.left;
  const int64_t n_rows = rows_of_interval(data_, request.box->interval(data_, request.attribute));
  const int64_t by_box = source_of(*request.box, kGathered).count;
  if (request.rows) return GridSweep(evaluator, *this, s).run(request);
  if (is_handed_over(std::min(n_rows, by_box)) || n_nodes > kMostNodes) return cores_.best_cut(evaluator, request, s);
  return GpuSweep(evaluator, *this, s).run(request);
}

}  // namespace silva
