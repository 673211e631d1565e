// An order of the classes of a feature's categories in which neighbours go the same way at most splits: a state of a
// subtree is then few runs of codes, and its key few steps.
#pragma once
#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "common/classes.h"

namespace glasswood {

// Each kind of split has a bit a class; `last` is the class that comes last. If there are many
// splits, only some are asked.
class ClassOrder {
 public:
  ClassOrder(const std::vector<const uint32_t*>& splits, int32_t n_classes, int32_t last)
      : order_(n_classes), step_(splits.size() / kMostSplits + 1), n_words_((splits.size() / step_ + 64) / 64) {
    sides_.assign(n_classes * n_words_, 0);
    std::iota(order_.begin(), order_.end(), 0);
    std::swap(order_[0], order_[last]);
    for (size_t i = 0; i * step_ < splits.size(); ++i)
      for (int32_t c = 0; c < n_classes; ++c)
        sides_[c * n_words_ + i / 64] |= uint64_t(class_goes_right(splits[i * step_], c)) << i % 64;
    if (n_classes <= kMostChained)
      chain();
    else
      sort();
    std::reverse(order_.begin(), order_.end());
  }

  std::vector<int32_t> take() { return std::move(order_); }

 private:
  static constexpr int32_t kMostChained = 512;
  static constexpr size_t kMostSplits = 1024;
  std::vector<int32_t> order_;
  size_t step_, n_words_;
  std::vector<uint64_t> sides_;  // [class][split / 64]

  int32_t n_apart(int32_t a, int32_t b) const {
    int32_t n = 0;
    for (size_t i = 0; i < n_words_; ++i) n += std::popcount(sides_[a * n_words_ + i] ^ sides_[b * n_words_ + i]);
    return n;
  }

  // Behind each class comes the one that fewest splits tell from it.
  void chain() {
    for (auto at = order_.begin(); at + 1 < order_.end(); ++at)
      std::iter_swap(at + 1, std::min_element(at + 1, order_.end(),
                                              [&](int32_t a, int32_t b) { return n_apart(*at, a) < n_apart(*at, b); }));
  }

  void sort() {
    std::vector<int32_t> n_right(order_.size(), 0);
    for (size_t i = 0; i < sides_.size(); ++i) n_right[i / n_words_] += std::popcount(sides_[i]);
    std::stable_sort(order_.begin() + 1, order_.end(), [&](int32_t a, int32_t b) { return n_right[a] < n_right[b]; });
  }
};

}  // namespace glasswood
