// States of a number's intervals between a tree's thresholds. Below a node, two neighbouring intervals differ if a
// split tests the threshold between them, so that bits of thresholds say all, and those of two children are put
// together by "or".
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace glasswood {

// Neighbouring intervals, from first to before end.
struct IntervalRange {
  int32_t first = 0, end = 0;

  bool is_empty() const { return first >= end; }
  bool has(int32_t interval) const { return first <= interval && interval < end; }
  IntervalRange below(int32_t bound) const { return {first, std::min(end, bound)}; }
  IntervalRange from(int32_t bound) const { return {std::max(first, bound), end}; }
  IntervalRange shared(const IntervalRange& other) const { return below(other.end).from(other.first); }
};

// What a path lets pass of a number.
struct PassedNumbers {
  IntervalRange intervals;
  bool missing = true;

  // Beyond an edge: intervals before `n_left` go left.
  PassedNumbers beyond(int side, int32_t n_left, bool missing_left) const {
    return {side ? intervals.from(n_left) : intervals.below(n_left), missing && missing_left == (side == 0)};
  }
};

// Bits of n intervals: states begin at those that are set.
inline int32_t words_of_bounds(int32_t n) { return (n + 63) / 64; }

inline int32_t count_bounds(const uint64_t* bounds, int32_t n_words) {
  int32_t result = 0;
  for (int32_t w = 0; w < n_words; ++w) result += std::popcount(bounds[w]);
  return result;
}

// Bounds up to an interval.
inline int32_t count_bounds_to(const uint64_t* bounds, int32_t interval) {
  const int32_t last = interval / 64;
  return count_bounds(bounds, last) + std::popcount(bounds[last] << (63 - interval % 64));
}

template <class Visit>
void each_bound(const uint64_t* bounds, int32_t n_words, const Visit& visit) {
  for (int32_t w = 0; w < n_words; ++w)
    for (uint64_t rest = bounds[w]; rest; rest &= rest - 1) visit(64 * w + std::countr_zero(rest));
}

// The codes of a column at which an interval of a tree begins, as bits: the first, and all thresholds of the tree.
class IntervalStarts {
 public:
  explicit IntervalStarts(int32_t n_codes) : n_codes_(n_codes), bits_(n_codes / 64 + 1, 0), n_before_(bits_.size()) {
    bits_[0] = 1;
  }

  void add(int32_t code) {
    if (code < n_codes_) bits_[code / 64] |= uint64_t(1) << code % 64;
  }

  // All of them, rising, after the last was added.
  std::vector<int32_t> take() {
    int32_t n = 0;
    for (size_t w = 0; w < bits_.size(); ++w) {
      n_before_[w] = n;
      if (bits_[w]) n += std::popcount(bits_[w]);
    }
    std::vector<int32_t> result(n);
    int32_t* to = result.data();
    each_bound(bits_.data(), int32_t(bits_.size()), [&](int32_t code) { *to++ = code; });
    return result;
  }

  // How many are below a code.
  int32_t n_below(int32_t code) const {
    const uint64_t below = bits_[code / 64] & ((uint64_t(1) << code % 64) - 1);
    return n_before_[code / 64] + std::popcount(below);
  }

 private:
  int32_t n_codes_;
  std::vector<uint64_t> bits_;
  std::vector<int32_t> n_before_;  // [word]
};

}  // namespace glasswood
