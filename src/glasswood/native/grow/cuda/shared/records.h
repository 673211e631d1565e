// What a GPU is asked: sums of rows by leaf, lists of rows, candidates and counts of a list's ranks. Plain records, and
// the routing of a row by them, shared by the kernels and the code that launches them.
#pragma once
#include "grow/search/candidates.h"

namespace glasswood {

constexpr int kMostSlots = 128;  // leaves of one request
constexpr int kMostNodes = 2 * kMostSlots + 1;
constexpr int kListTile = 2048;  // rows that a block lists
constexpr int kZone = 2048;      // rows of a zone
constexpr int kMostRows = 8192;  // rows that a block sums at most
constexpr int kBlockThreads = 256;
constexpr int kMostIntervals = 24;  // of a box
constexpr int kSolveTile = 4;       // of a matrix that is eliminated
constexpr int kMostSolved = 124;    // its columns
constexpr int kMostSolvers = 512;   // threads: one a tile above the diagonal
constexpr int kSummedBins = 8;      // between candidates up to which sums are kept

// Rows at positions 0 .. count - 1, every step-th of a list, or the rows themselves. The first `head` positions are the
// list's first, the others stand `gap` further on.
struct RowPositions {
  const int32_t* rows;
  int64_t head, gap, count, step;
};

struct RouteInterval {
  int32_t feature, low, high, missing;
};

// A split, or, with a negative feature, a leaf whose slot is `threshold`, -1 if nobody asks for it. Children count from
// the root of the request.
struct RouteNode {
  int32_t feature, threshold, missing_left, left, right;
};

struct SumRecord {
  RowPositions source;
  int64_t first_partial;  // of n_blocks * n_slots partial sums
  int32_t first_interval, n_intervals, first_node, n_nodes;
  int32_t first_slot, n_slots;
  int32_t first_block, n_blocks;
};

// Where the sums of a slot are written: the count, then the packed matrix of some columns of z.
struct SlotResult {
  double* to;
  int32_t first_column, n_columns;
};

// A leaf's error at every candidate, seen from its side: `base` holds what lies before the first bin, or is null,
// bin k what lies between candidates k - 1 and k. Bins are results of a slot, `step` numbers apart. `sums` holds the
// base and the first kSummedBins bins, twice as many, and so on, one behind the other. Answers: count of rows and
// error, of which the latter is left out where there are fewer rows than `least_rows`.
struct SolveRecord {
  const double *base, *bins, *sums;
  int64_t step;
  int32_t n_candidates, n_solved, width, first_column;
  int32_t least_rows, first_answer, first_block, padding;
};

// Adds bins to the base, which may be null: `sums` are what `n_bins` give, twice as many, and so on, one behind the
// other. The first may stand where the base does.
struct AdvanceRecord {
  const double *base, *bins;
  double* sums;
  int64_t step;
  int32_t n_entries, n_bins, n_sums, padding;
};

// With `most`, only every stride-th row, stride = rows / most + 1, among the answers.
struct ListRecord {
  RowPositions source;
  int32_t *rows, *ranks;  // the list; ranks of `feature`
  int32_t first_interval, n_intervals, feature;
  int32_t first_block, n_blocks;
  int32_t most, first_answer;
  int32_t padding;
};

// How many of a list's positions below `last` hold ranks below each inner edge of `n_cells` cells; they are known to be
// at least `first`.
struct CountRecord {
  const int32_t* ranks;
  const int32_t* total;  // where `last` will stand, if it is not known yet
  int64_t first, last;
  int64_t span;
  int32_t low, n_cells;
  int32_t first_answer, first_block;
};

// Candidates of the positions first .. last of a list.
struct CandidatesRecord {
  const int32_t* ranks;
  const int32_t* total;  // where `last` will stand, if it is not known yet
  int64_t first, last;
  int32_t first_answer, padding;
};

struct CandidatesAnswer {
  int32_t n, candidates[kGrid], ranks[kGrid], more[kGrid];
};

// The ranks low .. low + span in cells as even as whole numbers can be.
GLASSWOOD_INLINE int32_t cell_edge(int32_t low, int64_t span, int32_t n_cells, int32_t edge) {
  return int32_t(low + span * edge / n_cells);
}

// Least and greatest rank of kZone rows one behind the other, the least one -1 if a value is missing.
struct RankZone {
  int32_t least, greatest;
};

struct GpuRows {
  const void* z;         // (n_rows, stride), in the type that the rows are stored in
  const int32_t* ranks;  // (n_features, n_rows)
  int64_t n_rows;
  const RankZone* zones;  // (n_features, zones)

  GLASSWOOD_INLINE RankZone zone(int64_t zone, int feature) const {
    return zones[feature * ((n_rows + kZone - 1) / kZone) + zone];
  }
  GLASSWOOD_INLINE int32_t rank(int64_t row, int feature) const { return ranks[feature * n_rows + row]; }
};

GLASSWOOD_INLINE int64_t row_at(const RowPositions& source, int64_t position) {
  const int64_t at = position < source.head ? position : position * source.step + source.gap;
  return source.rows ? source.rows[at] : at;
}

GLASSWOOD_INLINE bool is_inside(const GpuRows& rows, const RouteInterval* intervals, int n_intervals, int64_t row) {
  for (int i = 0; i < n_intervals; ++i) {
    const int32_t rank = rows.rank(row, intervals[i].feature);
    if (rank < 0 ? !intervals[i].missing : rank < intervals[i].low || rank >= intervals[i].high) return false;
  }
  return true;
}

// What the ranks of a zone tell of all its rows: whether none or each of them lies in the intervals, and the last node
// that all of them reach.
struct ZonePlace {
  bool outside, inside;
  int node;
};

GLASSWOOD_INLINE ZonePlace place_zone(const GpuRows& rows, int64_t zone, const RouteInterval* intervals,
                                      int n_intervals) {
  ZonePlace place{false, true, 0};
  for (int i = 0; i < n_intervals; ++i) {
    const RouteInterval interval = intervals[i];
    const RankZone ranks = rows.zone(zone, interval.feature);
    const bool apart = ranks.greatest < interval.low || ranks.least >= interval.high;
    place.outside = place.outside || (apart && !(ranks.least < 0 && interval.missing));
    place.inside = place.inside && ranks.least >= interval.low && ranks.greatest < interval.high;
  }
  return place;
}

GLASSWOOD_INLINE int node_of_zone(const GpuRows& rows, int64_t zone, const RouteNode* nodes) {
  int v = 0;
  while (nodes[v].feature >= 0) {
    const RankZone ranks = rows.zone(zone, nodes[v].feature);
    if (ranks.least >= 0 && ranks.greatest < nodes[v].threshold)
      v = nodes[v].left;
    else if (ranks.least >= nodes[v].threshold)
      v = nodes[v].right;
    else
      break;
  }
  return v;
}

// Whether positions are rows, so that zones tell of them.
GLASSWOOD_INLINE bool is_scan(const RowPositions& source) { return !source.rows; }

// Slot of the leaf that a row reaches.
GLASSWOOD_INLINE int slot_of(const GpuRows& rows, const RouteNode* nodes, int64_t row) {
  int v = 0;
  while (nodes[v].feature >= 0) {
    const int32_t rank = rows.rank(row, nodes[v].feature);
    v = (rank < 0 ? nodes[v].missing_left != 0 : rank < nodes[v].threshold) ? nodes[v].left : nodes[v].right;
  }
  return nodes[v].threshold;
}

// Ranks of those of several rows that are wanted, all under way at once.
template <int N>
GLASSWOOD_INLINE void load_ranks(const GpuRows& rows, const int32_t (&row)[N], const bool (&wanted)[N], int feature,
                                 int32_t (&rank)[N]) {
  GLASSWOOD_UNROLL
  for (int k = 0; k < N; ++k) rank[k] = wanted[k] ? rows.rank(row[k], feature) : 0;
}

// Slots of several rows at once below a node, -1 outside of the intervals. Memory answers late: where rows lie one
// behind the other, the ranks of the next interval and of the node's test are under way before those of one interval
// are known; rows that lie apart are asked for only what is still open.
template <int N>
GLASSWOOD_INLINE void find_slots(const GpuRows& rows, const RouteInterval* intervals, int n_intervals,
                                 const RouteNode* nodes, int node, bool scans, const int32_t (&row)[N],
                                 bool (&inside)[N], int (&slot)[N]) {
  const int root = nodes[node].feature;
  int32_t now[N] = {}, next[N] = {};
  if (n_intervals || root >= 0) load_ranks(rows, row, inside, n_intervals ? intervals[0].feature : root, next);
  for (int i = 0; i < n_intervals; ++i) {
    GLASSWOOD_UNROLL
    for (int k = 0; k < N; ++k) now[k] = next[k];
    const int feature = i + 1 < n_intervals ? intervals[i + 1].feature : root;
    if (scans && feature >= 0) load_ranks(rows, row, inside, feature, next);
    const RouteInterval interval = intervals[i];
    GLASSWOOD_UNROLL
    for (int k = 0; k < N; ++k)
      inside[k] = inside[k] && (now[k] < 0 ? interval.missing != 0 : now[k] >= interval.low && now[k] < interval.high);
    if (!scans && feature >= 0) load_ranks(rows, row, inside, feature, next);
  }
  int v[N];
  GLASSWOOD_UNROLL
  for (int k = 0; k < N; ++k) v[k] = node;
  for (bool goes_on = root >= 0; goes_on;) {
    goes_on = false;
    GLASSWOOD_UNROLL
    for (int k = 0; k < N; ++k) {
      const RouteNode& at = nodes[v[k]];
      if (!inside[k] || at.feature < 0) continue;
      v[k] = (next[k] < 0 ? at.missing_left != 0 : next[k] < at.threshold) ? at.left : at.right;
    }
    GLASSWOOD_UNROLL
    for (int k = 0; k < N; ++k) {
      const int feature = nodes[v[k]].feature;
      if (!inside[k] || feature < 0) continue;
      next[k] = rows.rank(row[k], feature);
      goes_on = true;
    }
  }
  GLASSWOOD_UNROLL
  for (int k = 0; k < N; ++k) slot[k] = inside[k] ? nodes[v[k]].threshold : -1;
}

// The record that a block, or a slot, belongs to: firsts rise.
template <class Record>
GLASSWOOD_INLINE int record_of(const Record* records, int n_records, int32_t Record::* first, int32_t at) {
  int low = 0, high = n_records;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (records[middle].*first <= at ? low : high) = middle;
  }
  return low;
}

// Tiles above the diagonal, by rows: those of sums have 8 x 8 entries, those that are solved 4 x 4.
GLASSWOOD_INLINE constexpr int tile_row(int tile, int n_blocks) {
  int row = 0;
  while (tile >= n_blocks - row) tile -= n_blocks - row++;
  return row;
}
GLASSWOOD_INLINE constexpr int tile_column(int tile, int n_blocks) {
  int row = 0;
  while (tile >= n_blocks - row) tile -= n_blocks - row++;
  return row + tile;
}
GLASSWOOD_INLINE constexpr int n_tiles(int n_blocks) { return n_blocks * (n_blocks + 1) / 2; }

// Pairs of a tile and the one below it that cover the tiles above the diagonal.
GLASSWOOD_INLINE constexpr int n_tile_pairs(int n_blocks) { return (n_blocks + 1) / 2 * (n_blocks / 2 + 1); }

// By columns of z on the GPU: threads of a block that sums rows, and the strands of its rows that are summed each by
// itself (grow/cuda/kernels/sum_narrow.cuh, grow/cuda/kernels/sum_wide.cuh): a warp has registers for this many pairs
// of tiles, and room for loads beside few.
GLASSWOOD_INLINE constexpr int sum_threads(int stride) { return stride <= 4 ? 256 : 128; }
GLASSWOOD_INLINE constexpr int sum_strands(int stride) {
  constexpr int kFewPairs = 11, kMostPairs = 21;
  const int n_pairs = n_tile_pairs((stride + 7) / 8);
  return stride <= 4 ? 1 : n_pairs <= kFewPairs ? 4 : n_pairs <= 2 * kMostPairs ? 2 : 1;
}
GLASSWOOD_INLINE constexpr int most_rows(int stride) { return stride <= 4 ? 2 * kMostRows : kMostRows; }

// A partial sum's count of rows, and whose they are: those of one slot and strand can stand where another's would.
GLASSWOOD_INLINE int tagged(int slot, int count) { return slot << 16 | count; }
GLASSWOOD_INLINE int count_of_slot(int tag, int slot) { return tag >> 16 == slot ? tag & 0xffff : 0; }

// Entries of a slot's sums that a block adds up where there are few or many partial sums of it, and the blocks of a
// slot.
constexpr int kEntriesOfFew = kBlockThreads, kEntriesOfMany = 32;
GLASSWOOD_INLINE constexpr int entry_blocks(int stride, int entries) {
  return (stride * (stride + 1) / 2 + entries - 1) / entries;
}

// Where the entry of two columns, a <= b, stands among the tiles.
GLASSWOOD_INLINE int tile_entry(int a, int b, int n_blocks) {
  const int row = a / 8;
  const int tile = row * n_blocks - row * (row - 1) / 2 + b / 8 - row;
  return tile * 64 + a % 8 * 8 + b % 8;
}

}  // namespace glasswood
