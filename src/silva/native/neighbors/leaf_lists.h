// Training rows by leaf: the inverted index. Rows of a leaf rise, by number or, for quantiles, by the rank of their
// target.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "neighbors/keys.h"

namespace silva {

struct LeafLists {
  std::span<const int64_t> offsets;     // [leaf + 1]
  std::span<const int32_t> rows;        // [offsets.back()]
  std::span<const int32_t> first_leaf;  // [tree + 1]

  int32_t n_trees() const { return int32_t(first_leaf.size()) - 1; }
  int64_t size(int32_t leaf) const { return offsets[leaf + 1] - offsets[leaf]; }
  std::span<const int32_t> of(int32_t leaf) const { return rows.subspan(size_t(offsets[leaf]), size_t(size(leaf))); }
};

// Shares of one query row after the other, by the lists of the leaves that it reaches.
class SharedRows {
 public:
  SharedRows(const LeafLists& lists, std::span<const uint16_t> weight, int64_t n_rows)
      : lists_(lists), weight_(weight), share_(size_t(n_rows)), touched_(size_t(n_rows) + 1) {}

  // Calls found(row, share) for each training row with a share, in no order. `own`: a row to leave out, or -1.
  template <class Found>
  void find(const int32_t* leaves, int64_t own, const Found& found) {
    size_t n = 0;
    for (int32_t tree = 0; tree < lists_.n_trees(); ++tree) {
      const uint16_t weight = weight_[size_t(tree)];
      if (weight == 0) continue;
      for (const int32_t row : lists_.of(leaves[tree])) {
        touched_[n] = row;
        n += share_[size_t(row)] == 0;
        share_[size_t(row)] = uint16_t(share_[size_t(row)] + weight);
      }
    }
    for (size_t i = 0; i < n; ++i) {
      const int32_t row = touched_[i];
      if (row != own) found(row, share_[size_t(row)]);
      share_[size_t(row)] = 0;
    }
  }

 private:
  const LeafLists& lists_;
  std::span<const uint16_t> weight_;
  std::vector<uint16_t> share_;
  std::vector<int32_t> touched_;
};

// Trees' weights in the mixture of their leaves' distributions, and how often rows count.
struct Mixture {
  LeafLists lists;                  // by rank of the target
  std::span<const double> mass;     // [rows]: of a leaf's rows up to and with this one; empty: each counts once
  std::span<const double> share;    // [tree]
  std::span<const double> targets;  // rising

  double mass_of(int32_t leaf, int64_t n) const {
    if (n == 0) return 0;
    return mass.empty() ? double(n) : mass[size_t(lists.offsets[leaf] + n - 1)];
  }
};

// The distribution of the targets for one query row after the other.
class Distribution {
 public:
  // weighted: leaves weigh as their trees do, else as their rows.
  Distribution(const Mixture& mixture, bool weighted) : mixture_(mixture), weighted_(weighted) {
    parts_.reserve(mixture.share.size());
    while (int64_t(mixture.targets.size()) >> shift_ >= kBuckets) ++shift_;
  }

  // False where no leaf that the row reaches has training rows.
  bool open(const int32_t* leaves) {
    parts_.clear();
    total_ = 0;
    double trees = 0;
    fetch(leaves);
    for (size_t tree = 0; tree < mixture_.share.size(); ++tree) {
      const int32_t leaf = leaves[tree];
      const std::span<const int32_t> rows = mixture_.lists.of(leaf);
      const double mass = mixture_.mass_of(leaf, int64_t(rows.size())), share = mixture_.share[tree];
      if (mass <= 0 || share <= 0) continue;
      parts_.push_back({rows, leaf, weighted_ ? share / mass : share, 0, int64_t(rows.size())});
      total_ += mass;
      trees += weighted_ ? share : share * mass;
    }
    // In units of rows: all together weigh as much as the rows of the leaves, as quantile-forest has it.
    size_t n_rows = 0;
    for (Part& part : parts_) part.factor *= total_ / trees, n_rows += part.rows.size();
    is_bucketed_ = n_rows <= kFewRows * parts_.size();
    if (is_bucketed_) fill_buckets();
    return !parts_.empty();
  }

  // Between the ends of the ranks as NumPy's "linear" has it, with repeated rows as repeated numbers; or the smallest
  // target whose share of the total reaches q.
  double quantile(double q, bool linear) {
    constexpr double kRounding = 1e-9;
    const double wanted = linear ? q * (total_ - 1) + 1 : q * total_;
    // Row `above` is the first whose cumulated weight is beyond what is wanted (linear) or reaches it.
    const int64_t above = first_beyond(linear ? wanted + kRounding : std::max(wanted - kRounding, 0.0));
    if (!linear) return mixture_.targets[size_t(above < 0 ? last() : above)];
    const auto [below, weight] = last_before();
    if (above < 0) return mixture_.targets[size_t(below)];
    if (below < 0) return mixture_.targets[size_t(above)];
    const double low = mixture_.targets[size_t(below)], high = mixture_.targets[size_t(above)];
    return low == high ? low : low + std::clamp(wanted - weight, 0.0, 1.0) * (high - low);
  }

  // Share of the weight of targets with a rank below this one.
  double below(int64_t rank) const {
    double weight = 0;
    for (const Part& part : parts_)
      weight += part.factor * mixture_.mass_of(part.leaf, count_below(part.rows, 0, int64_t(part.rows.size()), rank));
    return std::min(weight / total_, 1.0);
  }

 private:
  struct Part {
    std::span<const int32_t> rows;
    int32_t leaf;
    double factor;
    int64_t low, high;  // rows below the ends of the interval of ranks that is searched
    int64_t middle = 0;
  };

  static int64_t count_below(std::span<const int32_t> rows, int64_t low, int64_t high, int64_t rank) {
    constexpr int64_t kFew = 32;
    if (high - low <= kFew) {  // without a branch that depends on them
      int32_t n = 0;
      for (int64_t at = low; at < high; ++at) n += rows[size_t(at)] < int32_t(rank);
      return low + n;
    }
    return std::lower_bound(rows.begin() + low, rows.begin() + high, rank) - rows.begin();
  }

  // The lists of a row's leaves lie anywhere in memory: asks for all of them before the first is read.
  void fetch(const int32_t* leaves) const {
    const LeafLists& lists = mixture_.lists;
    for (size_t tree = 0; tree < mixture_.share.size(); ++tree) __builtin_prefetch(&lists.offsets[leaves[tree]]);
    for (size_t tree = 0; tree < mixture_.share.size(); ++tree) {
      const size_t first = size_t(lists.offsets[leaves[tree]]), end = size_t(lists.offsets[leaves[tree] + 1]);
      if (first == end) continue;
      __builtin_prefetch(&lists.rows[first]);
      if (mixture_.mass.empty()) continue;
      __builtin_prefetch(&mixture_.mass[first]);
      __builtin_prefetch(&mixture_.mass[end - 1]);
    }
  }

  // Weights up to the ends of equal ranges of ranks: few rows are cheaper to add up than to search for.
  void fill_buckets() {
    std::fill(std::begin(reached_), std::end(reached_), 0.0);
    for (const Part& part : parts_) {
      const double* mass = mixture_.mass.empty() ? nullptr : &mixture_.mass[size_t(mixture_.lists.offsets[part.leaf])];
      for (size_t i = 0; i < part.rows.size(); ++i)
        reached_[part.rows[i] >> shift_] += part.factor * (mass ? mass[i] - (i ? mass[i - 1] : 0.0) : 1.0);
    }
    for (int bucket = 1; bucket < kBuckets; ++bucket) reached_[bucket] += reached_[bucket - 1];
  }

  // The first rank up to which the weight is more than this, -1 where there is none. Leaves the parts' `low` at it.
  int64_t first_beyond(double wanted) {
    const int64_t end = int64_t(mixture_.targets.size());
    int64_t low = 0, high = end;
    if (is_bucketed_) {
      const int64_t bucket = std::upper_bound(std::begin(reached_), std::end(reached_), wanted) - std::begin(reached_);
      low = std::min(bucket << shift_, end), high = std::min((bucket + 1) << shift_, end);
    }
    double settled = 0;  // weight of the parts whose rows within the interval are known to be none
    open_.clear();
    for (Part& part : parts_) {
      const int64_t size = int64_t(part.rows.size());
      part.low = low == 0 ? 0 : count_below(part.rows, 0, size, low);
      part.high = high == end ? size : count_below(part.rows, part.low, size, high);
      if (part.low < part.high)
        open_.push_back(&part);
      else
        settled += part.factor * mixture_.mass_of(part.leaf, part.low);
    }
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      double weight = settled;
      for (Part* part : open_) {
        part->middle = count_below(part->rows, part->low, part->high, middle + 1);
        weight += part->factor * mixture_.mass_of(part->leaf, part->middle);
      }
      const bool beyond = weight > wanted;
      (beyond ? high : low) = beyond ? middle : middle + 1;
      size_t n_open = 0;
      for (Part* part : open_) {
        (beyond ? part->high : part->low) = part->middle;
        if (part->low < part->high)
          open_[n_open++] = part;
        else
          settled += part->factor * mixture_.mass_of(part->leaf, part->low);
      }
      open_.resize(n_open);
    }
    return low == end ? -1 : low;
  }

  // The last row before the one that was found, and the weight up to it.
  std::pair<int64_t, double> last_before() const {
    int64_t row = -1;
    double weight = 0;
    for (const Part& part : parts_) {
      if (part.low > 0) row = std::max(row, int64_t(part.rows[size_t(part.low - 1)]));
      weight += part.factor * mixture_.mass_of(part.leaf, part.low);
    }
    return {row, weight};
  }

  int64_t last() const {
    int64_t row = -1;
    for (const Part& part : parts_) row = std::max(row, int64_t(part.rows.back()));
    return row;
  }

  static constexpr int kBuckets = 256;
  static constexpr size_t kFewRows = 64;  // of a leaf, in the mean

  const Mixture& mixture_;
  bool weighted_, is_bucketed_ = false;
  int shift_ = 0;
  double reached_[kBuckets];
  std::vector<Part> parts_;
  std::vector<Part*> open_;
  double total_ = 0;
};

}  // namespace silva
