// The paths of a forest, duplicate features merged, packed into bins of one warp: GPUTreeShap's preprocessing
// (Mitchell, Frank, Holmes 2022, sections 3.1 to 3.3). explain/cuda/explain_leaves.cu takes paths too, unpacked. Host
// code.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "explain/cuda/leaf_format.h"
#include "explain/cuda/tape.h"
#include "explain/leaves.h"

namespace glasswood {

constexpr int WARP = 32;

// Elements of all paths, path after path. The first element of a path is the root: no test, z = 1, entry = -1.
struct Paths {
  std::vector<int64_t> offsets{0}, leaf;  // [path]
  std::vector<double> z, value;
  std::vector<int32_t> feature, output;
  std::vector<PathTest> test;
  std::vector<int32_t> extra_begin, extra_count;  // further tests of the element, on other columns of its feature
  std::vector<PathTest> extra;
};

namespace detail {

struct PathElement {
  int32_t feature;
  double z = 1;
  std::vector<PathTest> tests;
};

inline void narrow(PathElement& element, int32_t column, int32_t rank, bool left) {
  constexpr uint32_t unbounded = std::numeric_limits<int32_t>::max();  // codes below `lower` wrap to more
  auto test = std::find_if(element.tests.begin(), element.tests.end(), [&](auto& t) { return t.column == column; });
  if (test == element.tests.end()) test = element.tests.insert(test, PathTest{column, 0, unbounded});
  const uint64_t upper = test->width == unbounded ? uint64_t(unbounded) : uint64_t(test->lower) + test->width;
  const int32_t lower = left ? test->lower : std::max(test->lower, rank);
  const uint64_t bound = left ? std::min<uint64_t>(upper, uint64_t(rank)) : upper;
  test->lower = lower;
  test->width = bound <= uint64_t(lower) ? 0 : bound == unbounded ? unbounded : uint32_t(bound - uint64_t(lower));
}

}  // namespace detail

class PathExtractor {
 public:
  explicit PathExtractor(const TapeForest& forest)
      : forest_(forest), leaves_(forest, forest.is_linear()), place_(forest.n_features, -1) {}

  Paths extract() {
    for (int64_t tree = 0; tree < forest_.n_trees(); ++tree) {
      first_ = forest_.tree_offsets[tree];
      leaf_ = {};
      leaf_.resize(forest_.tree_offsets[tree + 1] - first_);
      int64_t leaf = forest_.first_leaf(tree);
      for (size_t node = 0; node < leaf_.size(); ++node)
        if (!forest_.left[first_ + node]) leaf_[node] = leaf++;
      for (int64_t component = 0; component < forest_.width; ++component) {
        component_ = component;
        output_ = forest_.width == 1 ? forest_.tree_output[tree] : int32_t(component);
        if (leaf_.size() > 1 || forest_.is_linear()) walk(0);
      }
    }
    return std::move(paths_);
  }

 private:
  void walk(int32_t node) {
    const int32_t left = forest_.left[first_ + node];
    if (!left) return emit(node);
    const int32_t feature = forest_.feature[first_ + node];
    for (int side = 0; side < 2; ++side) {
      const int32_t at = place_[feature];
      const bool is_new = at < 0;
      detail::PathElement before;
      if (is_new) {
        place_[feature] = int32_t(elements_.size());
        elements_.push_back({feature, 1, {}});
      } else {
        before = elements_[at];
      }
      detail::PathElement& element = elements_[place_[feature]];
      element.z *= cover_ratio(forest_, first_ + node, first_ + left + side);
      detail::narrow(element, forest_.column[first_ + node], forest_.rank[first_ + node], side == 0);
      walk(left + side);
      if (is_new) {
        elements_.pop_back();
        place_[feature] = -1;
      } else {
        elements_[at] = std::move(before);
      }
    }
  }

  void emit(int32_t node) {
    const double value = leaves_.values[leaf_[node] * forest_.width + component_];
    put({-1, 1, {}}, value);
    for (const detail::PathElement& element : elements_) put(element, value);
    paths_.offsets.push_back(int64_t(paths_.z.size()));
    paths_.leaf.push_back(leaf_[node]);
  }

  void put(const detail::PathElement& element, double value) {
    paths_.z.push_back(element.z);
    paths_.value.push_back(value);
    paths_.feature.push_back(element.feature);
    paths_.output.push_back(output_);
    const bool tested = !element.tests.empty();
    paths_.test.push_back(tested ? element.tests[0] : PathTest{0, 0, 0});
    paths_.extra_begin.push_back(int32_t(paths_.extra.size()));
    paths_.extra_count.push_back(tested ? int32_t(element.tests.size()) - 1 : 0);
    if (tested) paths_.extra.insert(paths_.extra.end(), element.tests.begin() + 1, element.tests.end());
  }

  const TapeForest& forest_;
  const WeightedLeaves leaves_;
  Paths paths_;
  std::vector<int32_t> place_;
  std::vector<detail::PathElement> elements_;
  std::vector<int64_t> leaf_;
  int64_t first_ = 0, component_ = 0;
  int32_t output_ = 0;
};

enum class Heuristic { none, next_fit, first_fit_decreasing, best_fit_decreasing };

namespace detail {

// Items of one size at a time, largest first. All of a size are alike, so a bin takes as many as fit before the next
// bin is looked at: O(sizes * bins) for both orders of bins, without a tree.
class DecreasingPacker {
 public:
  explicit DecreasingPacker(std::span<const int32_t> sizes) : bin_(sizes.size()) {
    for (size_t item = 0; item < sizes.size(); ++item) by_size_[sizes[item]].push_back(int64_t(item));
  }

  std::vector<int32_t> first_fit() {
    for (int size = WARP; size > 0; --size) {
      begin(size);
      for (size_t bin = 0; bin < room_.size() && has_items(); ++bin) fill(int32_t(bin));
      open_new();
    }
    return std::move(bin_);
  }

  std::vector<int32_t> best_fit() {
    for (int size = WARP; size > 0; --size) {
      begin(size);
      if (!has_items()) continue;
      std::array<std::vector<int32_t>, WARP + 1> by_room;
      for (size_t bin = 0; bin < room_.size(); ++bin) by_room[room_[bin]].push_back(int32_t(bin));
      for (int room = size; room <= WARP && has_items(); ++room)
        for (size_t at = 0; at < by_room[room].size() && has_items(); ++at) fill(by_room[room][at]);
      open_new();
    }
    return std::move(bin_);
  }

 private:
  void begin(int size) {
    size_ = size;
    next_ = 0;
  }
  bool has_items() const { return next_ < by_size_[size_].size(); }
  void fill(int32_t bin) {
    for (; room_[bin] >= size_ && has_items(); room_[bin] -= size_) bin_[by_size_[size_][next_++]] = bin;
  }
  void open_new() {
    while (has_items()) {
      room_.push_back(WARP);
      fill(int32_t(room_.size()) - 1);
    }
  }

  std::array<std::vector<int64_t>, WARP + 1> by_size_;
  std::vector<int32_t> bin_, room_;
  int size_ = 0;
  size_t next_ = 0;
};

}  // namespace detail

// The bin of each item; sizes from 1 to 32, bins of 32.
inline std::vector<int32_t> pack(std::span<const int32_t> sizes, Heuristic heuristic) {
  for (const int32_t size : sizes)
    if (size < 1 || size > WARP) throw std::invalid_argument("sizes must lie between 1 and 32");
  if (heuristic == Heuristic::first_fit_decreasing) return detail::DecreasingPacker(sizes).first_fit();
  if (heuristic == Heuristic::best_fit_decreasing) return detail::DecreasingPacker(sizes).best_fit();
  std::vector<int32_t> bin(sizes.size());
  int32_t open = -1, room = 0;
  for (size_t item = 0; item < sizes.size(); ++item) {
    if (heuristic == Heuristic::none || sizes[item] > room) {
      ++open;
      room = WARP;
    }
    room -= sizes[item];
    bin[item] = open;
  }
  return bin;
}

}  // namespace glasswood
