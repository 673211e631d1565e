// The set of rows that reach a node, as intervals of ranks.
#pragma once
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "grow/data/dataset.h"
#include "grow/data/tree.h"

namespace glasswood {

constexpr int kMaxDepth = 18;
constexpr int64_t kAhead = 16;  // rows whose ranks are fetched before they are needed

struct Key {
  uint64_t a = 0, b = 0;
  bool operator==(const Key&) const = default;
  Key plus(uint64_t x, uint64_t y) const { return {a + mix64(x ^ mix64(y)), b + mix64(y + 0x632be59bd9b4e019ull * x)}; }
  Key minus(uint64_t x, uint64_t y) const {
    return {a - mix64(x ^ mix64(y)), b - mix64(y + 0x632be59bd9b4e019ull * x)};
  }
};

struct KeyHash {
  size_t operator()(const Key& key) const { return key.a; }
};

struct Interval {
  int32_t feature, low, high;  // ranks low <= rank < high
  bool missing;                // whether missing values belong to it

  uint64_t hash() const { return uint64_t(uint32_t(low)) << 33 ^ uint64_t(uint32_t(high)) << 1 ^ uint64_t(missing); }
  bool holds(int32_t rank) const { return rank < 0 ? missing : low <= rank && rank < high; }
};

// A conjunction of intervals. Its key is a sum of hashes, so that equal boxes have equal keys however they came
// about.
class Box {
 public:
  const Key& key() const { return key_; }
  int size() const { return size_; }
  const Interval& operator[](int i) const { return intervals_[i]; }

  Interval interval(const GrowData& data, int feature) const {
    for (int i = 0; i < size_; ++i)
      if (intervals_[i].feature == feature) return intervals_[i];
    return {feature, 0, data.n_distinct[feature], data.n_missing(feature) > 0};
  }

  Box narrowed(const GrowData& data, const GrowSplit& split, bool left) const {
    Interval interval = this->interval(data, split.feature);
    (left ? interval.high : interval.low) =
        left ? std::min(interval.high, split.threshold) : std::max(interval.low, split.threshold);
    if (interval.high < interval.low) interval.high = interval.low;
    interval.missing = interval.missing && split.missing_left == left;
    return with(interval);
  }

  Box with(const Interval& interval) const {
    Box result = *this;
    for (int i = 0; i < size_; ++i) {
      if (intervals_[i].feature != interval.feature) continue;
      result.key_ = key_.minus(interval.feature, intervals_[i].hash()).plus(interval.feature, interval.hash());
      result.intervals_[i] = interval;
      return result;
    }
    result.key_ = key_.plus(interval.feature, interval.hash());
    result.intervals_[result.size_++] = interval;
    return result;
  }

 private:
  std::array<Interval, kMaxDepth + 1> intervals_;
  int size_ = 0;
  Key key_;
};

// Boxes of the subtree of `top`, whose own box stands in boxes[top].
inline void narrow_below(const GrowData& data, const GrowTree& tree, int top, std::vector<Box>& boxes) {
  const int end = subtree_end(tree, top);
  boxes.resize(tree.nodes.size());
  for (int v = top; v < end; ++v) {
    const GrowNode& node = tree[v];
    if (node.is_leaf()) continue;
    boxes[node.left] = boxes[v].narrowed(data, node.split, true);
    boxes[node.right] = boxes[v].narrowed(data, node.split, false);
  }
}

inline void all_boxes(const GrowData& data, const GrowTree& tree, std::vector<Box>& boxes) {
  boxes.resize(tree.nodes.size());
  boxes[0] = Box();
  narrow_below(data, tree, 0, boxes);
}

inline int64_t rows_of_interval(const GrowData& data, const Interval& interval) {
  return data.n_between(interval.feature, interval.low, interval.high) +
         (interval.missing ? data.n_missing(interval.feature) : 0);
}

inline bool holds(const GrowData& data, const Box& box, int skip, int32_t row) {
  for (int i = 0; i < box.size(); ++i)
    if (i != skip && !box[i].holds(data.rank(row, box[i].feature))) return false;
  return true;
}

// Calls visit(row) for the rows of the box in the order of feature ranks of its interval `by`, missing ones first.
template <class Visit>
void visit_by_interval(const GrowData& data, const Box& box, const Interval& by, int skip, Visit visit) {
  const int32_t* order = data.order + by.feature * data.n_rows;
  const int32_t* starts = data.starts[by.feature];
  const auto scan = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (int k = 0; k < box.size(); ++k)
        __builtin_prefetch(data.ranks_of(box[k].feature) + order[std::min(i + kAhead, last - 1)]);
      if (holds(data, box, skip, order[i])) visit(order[i]);
    }
  };
  if (by.missing) scan(0, starts[0]);
  scan(starts[by.low], starts[by.high]);
}

inline int narrowest(const GrowData& data, const Box& box) {
  int best = -1;
  int64_t fewest = data.n_rows;
  for (int i = 0; i < box.size(); ++i) {
    const int64_t count = rows_of_interval(data, box[i]);
    if (count < fewest) fewest = count, best = i;
  }
  return best;
}

// Whether the rows of a box are found along the order of its interval `by`, rather than by a test of all rows.
inline bool is_visited(const GrowData& data, const Box& box, int by) {
  constexpr int64_t kScanned = 16;  // rows that the filter tests while a visit by the interval's order meets one
  return by >= 0 && rows_of_interval(data, box[by]) * kScanned < data.n_rows;
}

// The rows of a box in an order that the box alone decides: sums over them have the same bits on any thread.
inline void collect_rows(const GrowData& data, const Box& box, RowList& rows) {
  rows.clear();
  const int by = narrowest(data, box);
  if (is_visited(data, box, by)) {
    visit_by_interval(data, box, box[by], by, [&](int32_t row) { rows.push_back(row); });
    return;
  }
  std::array<RankInterval, kMaxDepth + 1> intervals;
  for (int i = 0; i < box.size(); ++i)
    intervals[i] = {data.ranks_of(box[i].feature), box[i].low, uint32_t(box[i].high - box[i].low), box[i].missing};
  rows.resize(data.n_rows + kFilterLanes);
  rows.resize(grow_kernels().filter(intervals.data(), box.size(), data.n_rows, rows.data()));
}

// Stable partition of rows by a split; returns how many go left.
inline int64_t partition_rows(const GrowData& data, const GrowSplit& split, int32_t* rows, int64_t count,
                              RowList& spare) {
  spare.resize(std::max(spare.size(), size_t(count) + kFilterLanes));
  const RankInterval left = {data.ranks_of(split.feature), 0, uint32_t(split.threshold), split.missing_left};
  return grow_kernels().partition(left, rows, count, spare.data());
}

// Sorts by a key between 0 and `most`, equal keys in their given order: radix sort by 11 bits at a time.
template <class KeyOf, class Item>
void sort_by_digits(KeyOf key, int32_t most, Item* items, Item* spare, size_t count) {
  constexpr int kBits = 11, kBuckets = 1 << kBits;
  for (int shift = 0; shift == 0 || (shift < 31 && (most >> shift) > 0); shift += kBits) {
    std::array<int32_t, kBuckets> next{};
    const auto bucket = [&](Item item) { return key(item) >> shift & (kBuckets - 1); };
    for (size_t i = 0; i < count; ++i) ++next[bucket(items[i])];
    int32_t start = 0;
    for (int32_t& n : next) start += std::exchange(n, start);
    for (size_t i = 0; i < count; ++i) spare[next[bucket(items[i])]++] = items[i];
    std::copy(spare, spare + count, items);
  }
}

// The same of numbers; few of them take their keys along, which may lie anywhere in memory.
template <class KeyOf>
void sort_by_key(KeyOf key, int32_t most, int32_t* items, int32_t* spare, size_t count) {
  constexpr size_t kCarried = 1 << 14;
  if (count > kCarried) return sort_by_digits(key, most, items, spare, count);
  std::vector<uint64_t> keyed(count), other(count);
  for (size_t i = 0; i < count; ++i) keyed[i] = uint64_t(key(items[i])) << 32 | uint32_t(items[i]);
  sort_by_digits([](uint64_t pair) { return int32_t(pair >> 32); }, most, keyed.data(), other.data(), count);
  for (size_t i = 0; i < count; ++i) items[i] = int32_t(uint32_t(keyed[i]));
}

// Sorts rows by rank, missing ones first, equal ranks in their given order.
inline void sort_by_rank(const GrowData& data, int feature, RowList& rows, RowList& spare) {
  const int32_t* ranks = data.ranks_of(feature);
  spare.resize(std::max(spare.size(), rows.size()));
  sort_by_key([ranks](int32_t row) { return ranks[row] + 1; }, data.n_distinct[feature], rows.data(), spare.data(),
              rows.size());
}

inline int route(const GrowData& data, const GrowTree& tree, int v, int32_t row) {
  while (!tree[v].is_leaf())
    v = tree[v].split.left(data.rank(row, tree[v].split.feature)) ? tree[v].left : tree[v].right;
  return v;
}

}  // namespace glasswood
