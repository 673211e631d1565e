// The rows of a search in parts that one GPU reads each. Either every GPU has a copy of all rows, and the work is
// shared out (a part is a copy then), or the parts are contiguous rows. Such a part either stays in the GPU's memory or
// passes through it once a round (grow/cuda/host/stream.h); the search knows the parts but not which of the two they
// do.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "grow/cuda/shared/records.h"
#include "grow/data/dataset.h"

namespace glasswood {

// Addresses of one part. Rows are numbered within it.
struct GpuPart {
  int64_t first, n_rows;
  int stream;                               // that reads it
  uint64_t z, ranks, order;                 // on the GPU
  uint64_t zones;                           // of the ranks, on the GPU
  uint64_t z_host, ranks_host, order_host;  // where they come from every round; 0 if they stay on the GPU
  int64_t ranks_host_step;                  // bytes between the ranks of two features there
  int64_t z_bytes;
  uint64_t lists;           // the first list of its rows on the GPU
  int64_t list_bytes;       // from one list to the next: room for 8 bytes a row
  uint64_t list_sums;       // room for sums between the candidates of the first list
  int64_t list_sums_bytes;  // 0 of a part that has not all rows

  const int32_t* order_of(int feature) const { return reinterpret_cast<const int32_t*>(order) + feature * n_rows; }
  int32_t* list_rows(int list) const { return reinterpret_cast<int32_t*>(lists + list * list_bytes); }
  int32_t* list_ranks(int list) const { return list_rows(list) + n_rows; }
  double* sums_of_list(int list) const { return reinterpret_cast<double*>(list_sums + list * list_sums_bytes); }
};

// Where the rows of a request stand, by part. Any copy can tell: `parts` is empty until one is chosen.
struct RowsByPart {
  std::vector<RowPositions> parts;
  int64_t count = 0;
  int ordered_by = -1;        // feature whose order they are taken from
  int64_t head = 0, gap = 0;  // in copies, of all `count` positions
};

class GpuParts {
 public:
  GpuParts(const GrowData& data, std::vector<GpuPart> parts) : data_(data), parts_(std::move(parts)) {
    if (!are_copies()) count_blocks();
  }

  // Whether each part holds all rows, as the only one does.
  bool are_copies() const { return parts_[0].n_rows == data_.n_rows; }
  // The copy whose GPU keeps a list.
  int home(int list) const { return list % size(); }

  int size() const { return int(parts_.size()); }
  const GpuPart& operator[](int p) const { return parts_[p]; }

  RowsByPart all_rows() const {
    return in_parts({{}, data_.n_rows}, [&](int p) { return RowPositions{nullptr, 0, 0, parts_[p].n_rows, 1}; });
  }
  // Those with ranks low .. high - 1 by rank, behind those without a value if they are asked for.
  RowsByPart in_order(int feature, int32_t low, int32_t high, bool with_missing) const {
    const int32_t* starts = data_.starts[feature];
    return in_order(feature, with_missing ? starts[0] : 0, {starts[low], starts[high]});
  }
  RowsByPart missing(int feature) const { return in_order(feature, 0, {0, data_.n_missing(feature)}); }

  // Has the GPU that keeps a list answer for rows of it, where the parts do not say who does.
  void bring_home(RowsByPart& rows, int list) const {
    if (rows.parts.empty()) assign(rows, home(list));
  }
  // Has one copy answer for all of the rows.
  void assign(RowsByPart& rows, int copy) const {
    rows.parts.assign(size(), {});
    rows.parts[copy] = positions_in(copy, rows, 0, rows.count);
  }
  // Has each copy answer for a share of all rows, in whole zones.
  void divide(RowsByPart& rows, const std::vector<double>& shares) const {
    double upto = 0;
    int64_t first = 0;
    for (int p = 0; p < size(); ++p) {
      upto += shares[p];
      const int64_t last = p + 1 < size() ? std::min(int64_t(double(rows.count) * upto), rows.count) : rows.count;
      const int64_t end = p + 1 < size() ? last / kZone * kZone : last;
      rows.parts.push_back(positions_in(p, rows, std::exchange(first, end), end));
    }
  }

 private:
  RowPositions positions_in(int copy, const RowsByPart& rows, int64_t first, int64_t last) const {
    if (rows.ordered_by < 0) return {nullptr, 0, first, last - first, 1};
    return {parts_[copy].order_of(rows.ordered_by) + first, std::max<int64_t>(rows.head - first, 0), rows.gap,
            last - first, 1};
  }

  template <class PositionsIn>
  RowsByPart in_parts(RowsByPart rows, const PositionsIn& positions_in) const {
    for (int p = 0; !are_copies() && p < size(); ++p) rows.parts.push_back(positions_in(p));
    return rows;
  }
  // The first `head` rows of a feature's order, then those of a range.
  RowsByPart in_order(int feature, int64_t head, std::pair<int64_t, int64_t> range) const {
    const auto [first, last] = range;
    return in_parts({{}, head + last - first, feature, head, first - head}, [&, first = first, last = last](int p) {
      const int64_t own_head = below(p, feature, head), own_first = below(p, feature, first);
      const int64_t count = own_head + below(p, feature, last) - own_first;
      return RowPositions{parts_[p].order_of(feature), own_head, own_first - own_head, count, 1};
    });
  }

  static constexpr int64_t kBlock = 1024;  // of an order, at whose ends the rows of each part are counted

  int64_t count_in(int p, const int32_t* rows, int64_t count) const {
    const uint32_t first = uint32_t(parts_[p].first), n_rows = uint32_t(parts_[p].n_rows);
    int32_t found = 0;
    for (int64_t i = 0; i < count; ++i) found += uint32_t(rows[i]) - first < n_rows;
    return found;
  }

  void count_blocks() {
    const int64_t n_blocks = data_.n_rows / kBlock + 1;
    blocks_.resize(size_t(data_.n_features) * n_blocks * size());
    int32_t* counts = blocks_.data();
    for (int a = 0; a < data_.n_features; ++a)
      for (int64_t b = 0; b < n_blocks; ++b, counts += size())
        for (int p = 0; p < size() && b; ++p)
          counts[p] =
              counts[p - size()] + int32_t(count_in(p, data_.order + a * data_.n_rows + (b - 1) * kBlock, kBlock));
  }

  // Rows of a part among the first ones of a feature's order.
  int64_t below(int p, int feature, int64_t position) const {
    if (position == 0) return 0;
    if (position == data_.n_rows) return parts_[p].n_rows;
    const int64_t block = position / kBlock, n_blocks = data_.n_rows / kBlock + 1;
    const int32_t* rows = data_.order + feature * data_.n_rows + block * kBlock;
    return blocks_[(feature * n_blocks + block) * size() + p] + count_in(p, rows, position - block * kBlock);
  }

  const GrowData& data_;
  std::vector<GpuPart> parts_;
  std::vector<int32_t> blocks_;  // by feature, block of its order and part: rows of the part before the block
};

}  // namespace glasswood
