// The best split of a leaf over all features. Large leaves are searched on an even sample first, and the winners of
// it on all rows; where models are wide, scores rank the features before either.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "grow/search/operators.h"
#include "grow/search/split_scores.h"

namespace glasswood {

class SplitSearch {
 public:
  SplitSearch(const OperatorContext& context, const std::function<bool()>& stopped)
      : c_(context), e_(context.evaluator), stopped_(stopped) {}

  // The best split of the leaf with this box and model.
  FoundSplit best(const Box& box, const FeatureSet& model) {
    const Key key = box.key().plus(0x5911, model.hash());
    if (const FoundSplit* known = c_.layer.find_split(key)) return *known;
    std::vector<GrowSplit> candidates;
    for (int a = 0; a < data().n_features; ++a)
      for (int side = 0; side < (box.interval(data(), a).missing ? 2 : 1); ++side)
        candidates.push_back({a, 0, side == 1});
    const FoundSplit best = best_of(candidates, box, model);
    if (!stopped_()) c_.layer.add_split(key, best);
    return best;
  }

 private:
  static constexpr size_t kSplitSample = 4096, kSplitFinalists = 2;
  static constexpr int kWideSearch = 24;         // features of models from which on splits are ranked by scores first
  static constexpr size_t kScoredFinalists = 8;  // of that ranking
  static constexpr int kScoredTogether = 2;      // by one chunk of a fork

  const GrowData& data() const { return e_.data(); }
  bool is_wide() const { return data().n_linear() > kWideSearch; }

  FoundSplit best_of(std::vector<GrowSplit> candidates, const Box& box, const FeatureSet& model) {
    const auto first = [](const std::vector<FoundSplit>& found) { return found.empty() ? FoundSplit{} : found[0]; };
    // So few all come to the finals.
    if (candidates.size() <= kSplitFinalists) return first(ranked_splits(box, model, candidates, nullptr, false));
    RowList sample;
    const int64_t stride = e_.rows().sample(box, kSplitSample, sample);
    if (is_wide()) candidates = promising_splits(model, candidates, sample);
    std::vector<FoundSplit> found = ranked_splits(box, model, candidates, &sample, is_wide() && stride > 1);
    if (stride > 1) {
      candidates.clear();
      for (size_t i = 0; i < std::min<size_t>(found.size(), kSplitFinalists); ++i) candidates.push_back(found[i].split);
      found = ranked_splits(box, model, candidates, nullptr, false);
    }
    return first(found);
  }

  // Features tried in the models of a split that is only looked for: all, unless that is too many.
  FeatureSet search_model(const FeatureSet& model, int feature) const {
    FeatureSet wide = !is_wide() ? all_features(data()) : model;
    if (data().column[feature] >= 0) wide.set(feature, true);
    return wide;
  }

  FoundSplit best_threshold(const Box& box, const FeatureSet& model, int feature, bool missing_left,
                            const RowList* rows, bool coarse, Scratch& s) const {
    GrowTree stump;
    push_leaf(stump, model);
    const FoundThreshold found =
        e_.rows().best_threshold({&box, feature, missing_left, &stump, 0, 0, rows, coarse, true}, s);
    return {{found.threshold < 0 ? -1 : feature, found.threshold, missing_left}, found.error};
  }

  // Candidates in the order of their scores on the given rows, or all of the box.
  std::vector<FoundSplit> ranked_splits(const Box& box, const FeatureSet& model,
                                        const std::vector<GrowSplit>& candidates, const RowList* rows, bool coarse) {
    std::vector<FoundSplit> found(candidates.size());
    e_.tasks().fork(int(candidates.size()), c_.scratch, [&](int i, Scratch& s) {
      if (stopped_()) return;
      const GrowSplit& split = candidates[i];
      found[i] =
          best_threshold(box, search_model(model, split.feature), split.feature, split.missing_left, rows, coarse, s);
    });
    std::erase_if(found, [](const FoundSplit& one) { return one.split.feature < 0; });
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.score < b.score; });
    return found;
  }

  // The candidates that score best by the leaf's own model.
  std::vector<GrowSplit> promising_splits(const FeatureSet& model, const std::vector<GrowSplit>& candidates,
                                          const RowList& rows) {
    const SplitScores scores(e_, rows, model, c_.scratch);
    std::vector<std::pair<double, int>> ranking(candidates.size());
    const int n_chunks = (int(candidates.size()) + kScoredTogether - 1) / kScoredTogether;
    e_.tasks().fork(n_chunks, c_.scratch, [&](int chunk, Scratch&) {
      for (int i = chunk * kScoredTogether; i < std::min((chunk + 1) * kScoredTogether, int(candidates.size())); ++i)
        ranking[i] = {scores.best(candidates[i].feature, candidates[i].missing_left), i};
    });
    std::sort(ranking.begin(), ranking.end());
    std::vector<GrowSplit> promising;
    for (const auto& [score, i] : ranking)
      if (promising.size() < kScoredFinalists && !std::isinf(score)) promising.push_back(candidates[i]);
    return promising;
  }

  const OperatorContext& c_;
  const Evaluator& e_;
  const std::function<bool()>& stopped_;
};

}  // namespace glasswood
