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
  }

  // False where no leaf that the row reaches has training rows.
  bool open(const int32_t* leaves) {
    parts_.clear();
    total_ = 0;
    double trees = 0;
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
    for (Part& part : parts_) part.factor *= total_ / trees;
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

  // The first rank up to which the weight is more than this, -1 where there is none. Leaves the parts' `low` at it.
  int64_t first_beyond(double wanted) {
    int64_t low = 0, high = int64_t(mixture_.targets.size());
    const int64_t end = high;
    double settled = 0;  // weight of the parts whose rows within the interval are known to be none
    open_.clear();
    for (Part& part : parts_) {
      part.low = 0, part.high = int64_t(part.rows.size());
      open_.push_back(&part);
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

  const Mixture& mixture_;
  bool weighted_;
  std::vector<Part> parts_;
  std::vector<Part*> open_;
  double total_ = 0;
};

}  // namespace silva
