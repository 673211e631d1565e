// What tasks ask the GPUs. Every question goes to all parts that hold rows of it.
#pragma once
#include <vector>

#include "grow/cuda/host/parts.h"
#include "grow/sums/row_source.h"

namespace silva {

// Sums over one source; the nodes are its own.
struct SumQuestion {
  RowsByPart source;
  std::vector<RouteInterval> intervals;
  std::vector<RouteNode> nodes;
  int n_slots = 0;
  std::vector<const ModelColumns*> columns;  // by slot: those of the answer; empty: all
  std::vector<LeafSums> answer;              // by slot; without sums where those go to `sums`
  double* sums = nullptr;                    // where to write those of all slots one behind the other
  double* kept = nullptr;                    // where they stay on the GPU instead, each behind its count
  bool has_sums = false;                     // of one part at least

  size_t n_entries(int all) const {
    size_t n = 0;
    for (int slot = 0; slot < n_slots; ++slot) n += packed_size(width(slot, all));
    return n;
  }
  // Columns in the answer for a slot, of so many.
  int width(int slot, int all) const { return columns.empty() ? all : columns[slot]->width(); }
};

// Rows of a source that lie in a box, in the source's order, in list `list` of each part.
struct ListQuestion {
  RowsByPart source;
  std::vector<RouteInterval> intervals;
  int list = 0;
  int attribute = -1;       // whose ranks are listed beside the rows
  bool over_ranks = false;  // the rows go to where the list's ranks stand
  int32_t low = 0;          // the ranks low .. low + span are counted in so many cells
  int64_t span = 0;
  int32_t n_cells = 0;
  CutsAnswer* cuts = nullptr;  // of the whole list, which one part holds
  int32_t most = 0;            // not a list but a sample: every stride-th row, stride = rows / most + 1
  RowList sample;
  std::vector<int64_t> totals;               // by part
  std::vector<std::vector<int32_t>> counts;  // by part and inner edge of cells: positions of lower ranks
};

// The same counts of a list that stands, between two known positions of each part.
struct CountQuestion {
  int list = 0;
  std::vector<std::pair<int32_t, int32_t>> positions;  // by part: known bounds of the answers
  int32_t low = 0;
  int64_t span = 0;
  int32_t n_cells = 0;
  std::vector<std::vector<int32_t>> counts;
};

// Cuts of a list that one part holds, all of it.
struct CutsQuestion {
  int part = 0, list = 0;
  int64_t first = 0, last = 0;
  CutsAnswer answer{};
};

// Of a list that one part holds, what a leaf's model leaves unexplained at cuts whose sums were kept there, in this
// round or before.
struct SolveQuestion {
  int part = 0;
  const ModelColumns* columns = nullptr;
  SolveRequest request{};
  std::vector<double> answer;  // by cut from the leaf's side: rows, error
};

// Errors of one model on both sides of cuts of some rows, which are sent to the GPU.
struct GridQuestion {
  int part = 0;  // who answers
  const RowList* rows = nullptr;
  std::vector<int32_t> cuts;  // positions, rising
  const ModelColumns* columns = nullptr;
  int least_rows = 0;
  std::vector<double> answers[2];  // of the left and the right side: rows, error; by cut from that side

  int n_parts() const { return int(cuts.size()) + 1; }
};

// Before anything else is answered.
struct AdvanceQuestion {
  int part = 0;
  AdvanceRequest request{};
};

struct ReadQuestion {
  int part;
  void* to;
  const void* from;
  size_t bytes;
};

struct GpuQuestions {
  std::vector<SumQuestion*> sums;
  std::vector<ListQuestion*> lists;
  std::vector<CountQuestion*> counts;
  std::vector<ReadQuestion*> reads;
  std::vector<CutsQuestion*> cuts = {};
  std::vector<AdvanceQuestion*> advances = {};
  std::vector<SolveQuestion*> solves = {};
  std::vector<GridQuestion*> grids = {};

  bool empty() const {
    return sums.empty() && lists.empty() && counts.empty() && reads.empty() && cuts.empty() && advances.empty() &&
           solves.empty() && grids.empty();
  }
  void add(const GpuQuestions& other) {
    sums.insert(sums.end(), other.sums.begin(), other.sums.end());
    lists.insert(lists.end(), other.lists.begin(), other.lists.end());
    counts.insert(counts.end(), other.counts.begin(), other.counts.end());
    reads.insert(reads.end(), other.reads.begin(), other.reads.end());
    cuts.insert(cuts.end(), other.cuts.begin(), other.cuts.end());
    advances.insert(advances.end(), other.advances.begin(), other.advances.end());
    solves.insert(solves.end(), other.solves.begin(), other.solves.end());
    grids.insert(grids.end(), other.grids.begin(), other.grids.end());
  }
};

}  // namespace silva
