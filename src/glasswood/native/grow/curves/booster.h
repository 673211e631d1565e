// Curves and surfaces by cyclic boosting over histograms: each term in turn adds a small step to what all others leave.
// Every fold has curves of its own, which the rows of the fold do not see and whose loss says when to stop.
#pragma once
#include <limits>

#include "grow/curves/losses.h"
#include "grow/curves/steps.h"

namespace glasswood {

struct CurveTask {
  LossRows rows;
  std::vector<CurveTerm> terms;
  int64_t n_values;      // bins of all terms
  const double* weight;  // [row]
  const int32_t* fold;   // [row]
  StepSettings steps;
  int32_t random_rounds, max_rounds, patience;
  uint64_t seed;      // of random cuts
  double least_gain;  // of a step, in the best gain of the round before: others are left out
  double tolerance;   // part of the loss that counts as a gain
};

// What becomes of one fold.
struct CurveResult {
  double* values;          // [output][bin of all terms]
  double* margins;         // [output][row]: where it begins and, then, where it ends
  double *before, *after;  // [row]: losses of its rows, weighted
  int32_t n_rounds;
};

class CurveBooster {
 public:
  CurveBooster(const CurveTask& task, int32_t fold, CurveResult& result)
      : task_(task), result_(result), random_{task.seed + uint64_t(fold)} {
    const int64_t n = task.rows.n_rows;
    weight_.resize(n);
    for (int64_t i = 0; i < n; ++i) {
      weight_[i] = task.fold[i] == fold ? 0 : task.weight[i];
      if (task.fold[i] == fold) left_out_.push_back(i);
    }
    const int64_t n_outputs = task.rows.n_outputs;
    gradient_.resize(n * n_outputs), curvature_.resize(n * n_outputs);
    margins_.assign(result.margins, result.margins + n * n_outputs);
    values_.assign(task.n_values * n_outputs, 0.0), sums_.resize(task.n_values * n_outputs);
    change_.assign(kMostBins, 0.0), gradients_.resize(kMostBins);
    best_gains_.assign(n_outputs, 0.0);
    waits_.assign(task.terms.size() * n_outputs, Wait{});
    count();
  }

  static constexpr int64_t kMostBins = 1 << 16;

  // Steps with cuts at random come first: their sum is smooth where best cuts follow the noise of few rows. `ended` is
  // asked in each round.
  template <class Ended>
  void run(const Ended& ended) {
    write_losses(margins_.data(), result_.before);
    best_ = left_out_loss(), kept_ = values_;
    result_.n_rounds = 0;
    is_random_ = true;
    go_rounds(task_.random_rounds, ended);
    values_ = kept_;
    margins_.assign(result_.margins, result_.margins + margins_.size());
    add_to(margins_.data());
    is_random_ = false;
    best_gains_.assign(best_gains_.size(), 0.0);
    go_rounds(task_.max_rounds, ended);
    std::copy(kept_.begin(), kept_.end(), result_.values);
    values_ = kept_;
    add_to(result_.margins);
    write_losses(result_.margins, result_.after);
  }

 private:
  static constexpr int32_t kRefreshed = 4;   // rounds for which sums of curvatures serve
  static constexpr double kCertain = 1e-3;   // mean log-loss at which classes are told apart
  static constexpr double kLucky = 0.3;      // of the least gain: what random cuts must have of a lucky one's
  static constexpr int32_t kLongest = 7;     // rounds that a term whose steps gain little is left out
  static constexpr double kSteady = 300;     // rounds after which the rate rises with the square of their number
  static constexpr double kLongestStep = 4;  // largest rate, in that of the first rounds

  struct Wait {
    int32_t last = 0, left = 0;
  };

  void count() {
    for (const CurveTerm& term : task_.terms)
      for (int64_t i = 0; i < task_.rows.n_rows; ++i) sums_[term.begin + term.bins[i]].count += weight_[i] > 0;
    for (int32_t k = 1; k < task_.rows.n_outputs; ++k)
      std::copy(sums_.begin(), sums_.begin() + task_.n_values, sums_.begin() + k * task_.n_values);
  }

  double left_out_loss() const {
    double total = 0;
    for (const int64_t row : left_out_) total += task_.weight[row] * task_.rows.loss_of(margins_.data(), row);
    return total;
  }

  double left_out_weight() const {
    double total = 0;
    for (const int64_t row : left_out_) total += task_.weight[row];
    return total;
  }

  void write_losses(const double* margins, double* losses) const {
    for (const int64_t row : left_out_) losses[row] = task_.weight[row] * task_.rows.loss_of(margins, row);
  }

  // Until the rows left out gain no more.
  template <class Ended>
  void go_rounds(int32_t most, const Ended& ended) {
    const double least = has_classes() ? kCertain * left_out_weight() : -std::numeric_limits<double>::infinity();
    for (int32_t round = 0, last = 0; round < most && round < last + task_.patience && best_ >= least; ++round) {
      if (ended()) break;
      go_round(round);
      const double loss = left_out_loss();
      if (loss < best_ - task_.tolerance * std::abs(best_))
        best_ = loss, kept_ = values_, last = round + 1, ++result_.n_rounds;
    }
  }

  void go_round(int32_t round) {
    task_.rows.slopes(margins_.data(), weight_.data(), gradient_.data(), curvature_.data());
    for (int32_t k = 0; k < task_.rows.n_outputs; ++k) {
      if (round % kRefreshed == 0 && (round == 0 || !is_constant())) add_curvatures(k);
      StepFinder steps(steps_of(round), mean_curvature(k));
      const CurveTerm* before = nullptr;
      double best = 0;
      for (size_t t = 0; t < task_.terms.size(); ++t) {
        const CurveTerm& term = task_.terms[t];
        Wait& wait = waits_[k * task_.terms.size() + t];
        if (wait.left > 0) {
          --wait.left;
          continue;
        }
        BinSums* sums = sums_.data() + k * task_.n_values + term.begin;
        std::fill(gradients_.begin(), gradients_.begin() + term.n_bins(), 0.0);
        pass(before, &term, k);
        for (int32_t b = 0; b < term.n_bins(); ++b) sums[b].gradient = gradients_[b];
        const double gain = steps.find(term, sums, change_.data(), is_random_ ? &random_ : nullptr);
        best = std::max(best, gain);
        const bool found = gain > 0 && gain >= (is_random_ ? kLucky : 1) * task_.least_gain * best_gains_[k];
        if (!is_random_) wait.last = found ? 0 : std::min(2 * wait.last + 1, kLongest), wait.left = wait.last;
        before = found ? &term : nullptr;
        double* values = values_.data() + k * task_.n_values + term.begin;
        for (int32_t b = 0; found && b < term.n_bins(); ++b) values[b] += change_[b];
      }
      pass(before, nullptr, k);
      if (best > 0) best_gains_[k] = best;
    }
  }

  // Late steps are longer: targets that are nearly exact gain for thousands of rounds.
  StepSettings steps_of(int32_t round) const {
    StepSettings steps = task_.steps;
    const double late = round / kSteady;
    steps.rate *= std::clamp(late * late, 1.0, kLongestStep);
    return steps;
  }

  bool has_classes() const { return task_.rows.loss == CurveLoss::kLogistic || task_.rows.loss == CurveLoss::kSoftmax; }

  bool is_constant() const {
    const LossRows& rows = task_.rows;
    return rows.loss == CurveLoss::kSquared || rows.loss == CurveLoss::kHuber ||
           (rows.loss == CurveLoss::kPower && rows.level == 2);
  }

  void add_curvatures(int32_t k) {
    const double* curvature = curvature_.data() + k * task_.rows.n_rows;
    BinSums* all = sums_.data() + k * task_.n_values;
    for (int64_t b = 0; b < task_.n_values; ++b) all[b].curvature = 0;
    for (const CurveTerm& term : task_.terms)
      for (int64_t i = 0; i < task_.rows.n_rows; ++i) all[term.begin + term.bins[i]].curvature += curvature[i];
  }

  double mean_curvature(int32_t k) const {
    BinSums all;
    const CurveTerm& term = task_.terms.front();
    for (int32_t b = 0; b < term.n_bins(); ++b) all += sums_[k * task_.n_values + term.begin + b];
    return all.curvature / std::max(all.count, 1.0);
  }

  // Adds the change of the term before to margins, and to gradients to first order; and sums gradients by bins of the
  // next term. One pass over the rows for both.
  void pass(const CurveTerm* before, const CurveTerm* next, int32_t k) {
    const int64_t n = task_.rows.n_rows;
    double *gradient = gradient_.data() + k * n, *margins = margins_.data() + k * n, *sums = gradients_.data();
    const double *curvature = curvature_.data() + k * n, *change = change_.data();
    if (before && next) {
      const uint16_t *old = before->bins, *bins = next->bins;
      for (int64_t i = 0; i < n; ++i) {
        const double d = change[old[i]];
        margins[i] += d;
        gradient[i] -= curvature[i] * d;
        sums[bins[i]] += gradient[i];
      }
    } else if (next) {
      const uint16_t* bins = next->bins;
      for (int64_t i = 0; i < n; ++i) sums[bins[i]] += gradient[i];
    } else if (before) {
      const uint16_t* old = before->bins;
      for (int64_t i = 0; i < n; ++i) margins[i] += change[old[i]];
    }
  }

  // Adds the values of all terms to margins.
  void add_to(double* margins) const {
    const int64_t n = task_.rows.n_rows;
    for (int32_t k = 0; k < task_.rows.n_outputs; ++k)
      for (const CurveTerm& term : task_.terms) {
        const double* own = values_.data() + k * task_.n_values + term.begin;
        for (int64_t i = 0; i < n; ++i) margins[k * n + i] += own[term.bins[i]];
      }
  }

  const CurveTask& task_;
  CurveResult& result_;
  Random random_;
  bool is_random_ = false;
  double best_ = 0;  // loss of the rows left out, with the values kept
  std::vector<double> weight_, gradient_, curvature_, margins_, values_, kept_, change_, gradients_;
  std::vector<BinSums> sums_;
  std::vector<int64_t> left_out_;
  std::vector<Wait> waits_;
  std::vector<double> best_gains_;  // [output], of the round before
};

}  // namespace glasswood
