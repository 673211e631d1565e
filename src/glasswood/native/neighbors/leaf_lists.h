// Training rows by leaf: the inverted index. Rows of a leaf rise, by number or, for quantiles, by the rank of their
// target.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/unset_vector.h"
#include "neighbors/keys.h"

namespace glasswood {

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
    const int32_t n_trees = mixture_.lists.n_trees();
    parts_.clear(), rows_.clear();
    total_ = 0, has_few_rows_ = true;
    double trees = 0;
    for (int32_t tree = 0; tree < n_trees; ++tree) __builtin_prefetch(&mixture_.lists.offsets[size_t(leaves[tree])]);
    for (int32_t tree = 0; tree < std::min(kAhead, n_trees); ++tree) fetch(leaves[tree]);
    for (int32_t tree = 0; tree < n_trees; ++tree) {
      if (tree + kAhead < n_trees) fetch(leaves[tree + kAhead]);
      const int32_t leaf = leaves[tree];
      const std::span<const int32_t> rows = mixture_.lists.of(leaf);
      const double mass = mixture_.mass_of(leaf, int64_t(rows.size())), share = mixture_.share[size_t(tree)];
      if (mass <= 0 || share <= 0) continue;
      parts_.push_back({rows, leaf, weighted_ ? share / mass : share, 0, int64_t(rows.size())});
      total_ += mass;
      trees += weighted_ ? share : share * mass;
      has_few_rows_ &= rows_.size() + rows.size() <= kFewRows * size_t(n_trees);
      if (has_few_rows_) copy(parts_.back());
    }
    // In units of rows: all together weigh as much as the rows of the leaves, as quantile-forest has it.
    for (Part& part : parts_) part.factor *= total_ / trees;
    if (has_few_rows_) put_into_buckets();
    return !parts_.empty();
  }

  // Between the ends of the ranks as NumPy's "linear" has it, with repeated rows as repeated numbers; or the smallest
  // target whose share of the total reaches q.
  double quantile(double q, bool linear) {
    constexpr double kRounding = 1e-9;
    const double wanted = linear ? q * (total_ - 1) + 1 : q * total_;
    const double limit = linear ? wanted + kRounding : std::max(wanted - kRounding, 0.0);
    const Place found = has_few_rows_ ? find_in_buckets(limit) : search(limit);
    if (found.above < 0) return mixture_.targets[size_t(found.below)];
    if (!linear || found.below < 0) return mixture_.targets[size_t(found.above)];
    const double low = mixture_.targets[size_t(found.below)], high = mixture_.targets[size_t(found.above)];
    return low == high ? low : low + std::clamp(wanted - found.weight, 0.0, 1.0) * (high - low);
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

  // Ranks of rows (-1: none): the first up to which the weight is more than a limit, the last before it, and the weight
  // up to that one.
  struct Place {
    int64_t above, below;
    double weight;
  };

  struct WeighedRow {
    int32_t rank, next;  // of the same bucket
    double weight;
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

  // Lists of leaves lie anywhere in memory: asks for one before it is read. Inline, since GCC leaves out calls of
  // functions that do nothing else.
  GLASSWOOD_INLINE void fetch(int32_t leaf) const {
    const LeafLists& lists = mixture_.lists;
    const size_t first = size_t(lists.offsets[size_t(leaf)]), end = size_t(lists.offsets[size_t(leaf) + 1]);
    if (first == end) return;
    __builtin_prefetch(&lists.rows[first]);
    if (mixture_.mass.empty()) return;
    __builtin_prefetch(&mixture_.mass[first]);
    __builtin_prefetch(&mixture_.mass[end - 1]);
  }

  // Few rows are cheaper to take one by one than to search for: copies a leaf's, with how often they count.
  void copy(const Part& part) {
    const double* mass =
        mixture_.mass.empty() ? nullptr : &mixture_.mass[size_t(mixture_.lists.offsets[size_t(part.leaf)])];
    const size_t n = rows_.size();
    rows_.resize(n + part.rows.size());
    double before = 0;
    for (size_t i = 0; i < part.rows.size(); ++i) {
      const double upto = mass ? mass[i] : before + 1.0;
      rows_[n + i] = {part.rows[i], -1, upto - before};
      before = upto;
    }
  }

  // Lists these rows by equal ranges of ranks, and adds up their weights.
  void put_into_buckets() {
    std::fill(std::begin(reached_), std::end(reached_), 0.0);
    std::fill(std::begin(first_), std::end(first_), -1);
    int32_t n = 0;
    for (const Part& part : parts_)
      for (size_t i = 0; i < part.rows.size(); ++i, ++n) {
        WeighedRow& row = rows_[size_t(n)];
        const int32_t bucket = row.rank >> shift_;
        row.weight *= part.factor;
        row.next = std::exchange(first_[bucket], n);
        reached_[bucket] += row.weight;
      }
    for (int bucket = 1; bucket < kBuckets; ++bucket) reached_[bucket] += reached_[bucket - 1];
  }

  Place find_in_buckets(double limit) {
    int bucket = int(std::upper_bound(std::begin(reached_), std::end(reached_), limit) - std::begin(reached_));
    for (; bucket < kBuckets; ++bucket) {  // one more only where rounding has it so
      sort_bucket(bucket);
      double weight = bucket ? reached_[bucket - 1] : 0.0;
      for (size_t at = 0, end = 0; at < sorted_.size(); at = end) {
        double upto = weight;
        for (; end < sorted_.size() && sorted_[end].first == sorted_[at].first; ++end) upto += sorted_[end].second;
        if (upto > limit) return {sorted_[at].first, at ? sorted_[at - 1].first : last_in_buckets(bucket - 1), weight};
        weight = upto;
      }
    }
    return {-1, last_in_buckets(kBuckets - 1), total_};
  }

  void sort_bucket(int bucket) {
    sorted_.clear();
    for (int32_t at = first_[bucket]; at >= 0; at = rows_[size_t(at)].next)
      sorted_.emplace_back(rows_[size_t(at)].rank, rows_[size_t(at)].weight);
    std::sort(sorted_.begin(), sorted_.end());
  }

  // The last rank in this bucket or those before it.
  int64_t last_in_buckets(int bucket) const {
    while (bucket >= 0 && first_[bucket] < 0) --bucket;
    int32_t last = -1;
    for (int32_t at = bucket < 0 ? -1 : first_[bucket]; at >= 0; at = rows_[size_t(at)].next)
      last = std::max(last, rows_[size_t(at)].rank);
    return last;
  }

  Place search(double limit) {
    const int64_t end = int64_t(mixture_.targets.size());
    int64_t low = 0, high = end;
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
      const bool beyond = weight > limit;
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
    Place found = {low == end ? -1 : low, -1, 0};
    for (const Part& part : parts_) {
      if (part.low > 0) found.below = std::max(found.below, int64_t(part.rows[size_t(part.low - 1)]));
      found.weight += part.factor * mixture_.mass_of(part.leaf, part.low);
    }
    return found;
  }

  static constexpr int kBuckets = 256;
  static constexpr int32_t kAhead = 8;    // trees whose lists are asked for
  static constexpr size_t kFewRows = 64;  // of a leaf, in the mean

  const Mixture& mixture_;
  bool weighted_, has_few_rows_ = false;
  int shift_ = 0;
  double reached_[kBuckets];  // weight up to the end of each bucket
  int32_t first_[kBuckets];   // row of each bucket, -1 where it has none
  UnsetVector<WeighedRow> rows_;
  std::vector<std::pair<int32_t, double>> sorted_;
  std::vector<Part> parts_;
  std::vector<Part*> open_;
  double total_ = 0;
};

}  // namespace glasswood
