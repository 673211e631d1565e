// Builds the tables of evaluate/cpu/nodes/tree_lanes.h.
#pragma once
#include "evaluate/cpu/nodes/tables.h"

namespace glasswood {

class TreeLanePlan {
 public:
  void begin_tree(int32_t levels, int32_t first_leaf) {
    if (first_leaf_.size() % kLaneTrees == 0) begin_group();
    if (levels > kUpperLevels && first_lower_.back() < 0) begin_lower();
    first_leaf_.push_back(first_leaf);
    shift_.push_back(kMostLevels - levels);
  }

  // A split of the latest tree at a position of its heap.
  void put(int32_t at, int32_t column, int32_t threshold, bool default_right) {
    const int64_t tree = int64_t(first_leaf_.size()) - 1, place = tree % kLaneTrees;
    if (at < kUpperExits) {
      uint8_t* pair = &upper_[tree / 2 * kPairBytes + tree % 2 * kUpperExits + at];
      pair[0] = uint8_t(column), pair[kPairBytes / 2] = uint8_t(threshold);
      upper_default_[tree] |= uint32_t(default_right) << at;
      return;
    }
    int level = 0;
    while (at >> (level + 1) >= kUpperExits) ++level;
    const int32_t exit = (at >> level) - kUpperExits, own = (1 << level) + (at & ((1 << level) - 1));
    uint8_t* lower = &lower_[first_lower_.back() + place * kLowerTreeBytes + exit * kLowerBytes];
    lower[own] = uint8_t(column), lower[kLowerBytes / 2 + own] = uint8_t(threshold);
    lower[kLowerBytes / 2] |= uint8_t(default_right << own);
  }

  // Groups are read whole.
  void end() {
    const size_t n = (first_leaf_.size() + kLaneTrees - 1) / kLaneTrees * kLaneTrees;
    first_leaf_.resize(n), shift_.resize(n);
  }

  TreeLaneTables view() const {
    return {upper_.empty() ? nullptr : upper_.data(),
            upper_default_.data(),
            lower_.data(),
            first_lower_.data(),
            first_leaf_.data(),
            shift_.data()};
  }

 private:
  std::vector<uint8_t> upper_, lower_;
  std::vector<uint32_t> upper_default_;
  std::vector<int64_t> first_lower_;
  std::vector<int32_t> first_leaf_, shift_;

  void begin_group() {
    upper_.resize(upper_.size() + kLaneTrees / 2 * kPairBytes);
    upper_default_.resize(upper_default_.size() + kLaneTrees);
    first_lower_.push_back(-1);
  }
  void begin_lower() {
    first_lower_.back() = int64_t(lower_.size());
    lower_.resize(lower_.size() + kLaneTrees * kLowerTreeBytes);
  }
};

}  // namespace glasswood
