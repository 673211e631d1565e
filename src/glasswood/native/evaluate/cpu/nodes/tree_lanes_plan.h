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
    put_lower(&lower_[first_lower_.back() + place * kLowerTreeBytes + exit * kLowerBytes], own, column, threshold,
              default_right);
  }

  // A tree of any depth, of at most 256 leaves: its upper levels come first, then its blocks.
  void begin_linked_tree(int32_t first_leaf) {
    begin_tree(0, first_leaf);
    exits_.resize(upper_default_.size() * kUpperExits), goes_on_.resize(upper_default_.size());
    first_block_.push_back(int32_t(lower_.size() / kLinkBytes));
    block_ = nullptr;
  }
  void begin_block() {
    lower_.resize(lower_.size() + kLinkBytes);
    block_ = lower_.data() + lower_.size() - kLinkBytes;
  }
  void put_in_block(int32_t at, int32_t column, int32_t threshold, bool default_right) {
    put_lower(block_, at, column, threshold, default_right);
  }
  // Where an exit of the latest block, or of the upper levels, leads.
  void put_exit(int32_t exit, int32_t number, bool goes_on) {
    const int64_t tree = int64_t(first_leaf_.size()) - 1;
    if (block_)
      block_[kLowerBytes + exit] = uint8_t(number), block_[0] |= uint8_t(goes_on << exit);
    else
      exits_[tree * kUpperExits + exit] = uint8_t(number), goes_on_[tree] |= uint32_t(goes_on) << exit;
  }

  // Groups are read whole, and exits as words.
  void end() {
    const size_t n = (first_leaf_.size() + kLaneTrees - 1) / kLaneTrees * kLaneTrees;
    first_leaf_.resize(n), shift_.resize(n);
    block_ = nullptr;
    if (first_block_.empty()) return;
    first_block_.resize(n), exits_.resize(exits_.size() + sizeof(int32_t));
    lower_.resize(lower_.size() + kLinkBytes);
  }

  TreeLaneTables view() const {
    return {upper_.empty() ? nullptr : upper_.data(),
            upper_default_.data(),
            lower_.data(),
            first_lower_.data(),
            first_leaf_.data(),
            shift_.data(),
            exits_.empty() ? nullptr : exits_.data(),
            goes_on_.data(),
            first_block_.data()};
  }

 private:
  std::vector<uint8_t> upper_, lower_, exits_;
  std::vector<uint32_t> upper_default_, goes_on_;
  std::vector<int64_t> first_lower_;
  std::vector<int32_t> first_leaf_, shift_, first_block_;
  uint8_t* block_ = nullptr;  // the latest, while a linked tree is at work

  static void put_lower(uint8_t* lower, int32_t at, int32_t column, int32_t threshold, bool default_right) {
    lower[at] = uint8_t(column), lower[kLowerBytes / 2 + at] = uint8_t(threshold);
    lower[kLowerBytes / 2] |= uint8_t(default_right << at);
  }

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
