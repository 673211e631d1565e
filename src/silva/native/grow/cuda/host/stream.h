// One stream of a GPU and its buffers: answers a round's questions for one part of the rows at a time.
#pragma once
#include <atomic>
#include <cstring>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/cuda/driver.h"
#include "common/threads/thread_pool.h"
#include "grow/cuda/host/requests.h"

namespace silva {

// Addresses of buffers and kernels: device memory, but for `packet_host` and `results_host`, pinned memory of the host
// that the GPU writes small answers to.
struct StreamHandles {
  uint64_t stream, packet, packet_host, results, results_host, parts, part_counts, grid_sums;
  uint64_t sum_rows, add_parts, count_rows, list_rows, count_ranks, find_cuts, advance_sums, solve_cuts;
  size_t packet_bytes, results_bytes, grid_sums_bytes, n_parts, n_counts;
  int gpu, n_processors, stride;  // columns of z on the GPU
};

class GpuStream {
 public:
  GpuStream(const StreamHandles& handles, const CudaDriver& driver, int width)
      : h_(handles), driver_(driver), width_(width) {
    check(driver_.stream_context(stream(), &context_));
  }

  bool is_busy() const { return part_ != nullptr; }
  void share_with(ThreadPool* pool) { pool_ = pool; }
  void enter() const { check(driver_.set_context(context_)); }

  // Launches as many of the questions to part `p` as the buffers hold, behind the copies that the part needs.
  void begin(const GpuPart& part, int p, const GpuQuestions& questions) {
    part_ = &part, p_ = p, questions_ = &questions;
    next_advance_ = next_list_ = next_count_ = next_cuts_ = next_sum_ = next_solve_ = next_grid_ = 0;
    enter();
    if (part.z_host) copy_part_in();
    for (const ReadQuestion* read : questions.reads)
      if (read->part == p)
        check(driver_.copy_out(read->to, reinterpret_cast<uint64_t>(read->from), read->bytes, stream()));
    launch_batch();
  }

  // Waits for what is under way, adds it to the answers and launches what is left.
  void go_on() {
    enter();
    check(driver_.synchronize(stream()));
    take_answers();
    if (next_advance_ < questions_->advances.size() || next_list_ < questions_->lists.size() ||
        next_count_ < questions_->counts.size() || next_cuts_ < questions_->cuts.size() ||
        next_sum_ < questions_->sums.size() || next_solve_ < questions_->solves.size() ||
        next_grid_ < questions_->grids.size())
      launch_batch();
    else
      part_ = nullptr;
  }

  // Waits for whatever is under way after another stream has failed.
  void abandon() {
    driver_.set_context(context_);
    driver_.synchronize(stream());
    part_ = nullptr;
  }

  static bool concerns(const GpuQuestions& questions, int p) {
    const auto has_rows = [p](const auto* question) { return question->source.parts[p].count > 0; };
    const auto is_here = [p](const auto* question) { return question->part == p; };
    return std::any_of(questions.cuts.begin(), questions.cuts.end(), is_here) ||
           std::any_of(questions.advances.begin(), questions.advances.end(), is_here) ||
           std::any_of(questions.solves.begin(), questions.solves.end(), is_here) ||
           std::any_of(questions.grids.begin(), questions.grids.end(), is_here) ||
           std::any_of(questions.sums.begin(), questions.sums.end(), has_rows) ||
           std::any_of(questions.lists.begin(), questions.lists.end(), has_rows) ||
           std::any_of(questions.counts.begin(), questions.counts.end(),
                       [p](const auto* count) { return count->positions[p].first < count->positions[p].second; }) ||
           std::any_of(questions.reads.begin(), questions.reads.end(), is_here);
  }

 private:
  void check(int code) const { driver_.check(code, h_.gpu); }
  void* stream() const { return reinterpret_cast<void*>(h_.stream); }
  GpuRows rows() const {
    return {reinterpret_cast<const void*>(part_->z), reinterpret_cast<const int32_t*>(part_->ranks), part_->n_rows,
            reinterpret_cast<const RankZone*>(part_->zones)};
  }
  int64_t count_of(const RowsByPart& source) const { return source.parts[p_].count; }

  // What this round's questions read of the part.
  void copy_part_in() {
    std::set<int> ranks, orders;
    bool sums = false;
    const auto add = [&](const RowsByPart& source, const std::vector<RouteInterval>& intervals) {
      if (source.ordered_by >= 0) orders.insert(source.ordered_by);
      for (const RouteInterval& interval : intervals) ranks.insert(interval.attribute);
    };
    for (const ListQuestion* list : questions_->lists) {
      if (!count_of(list->source)) continue;
      add(list->source, list->intervals);
      if (list->attribute >= 0) ranks.insert(list->attribute);
    }
    for (const SumQuestion* sum : questions_->sums) {
      if (!count_of(sum->source)) continue;
      add(sum->source, sum->intervals);
      for (const RouteNode& node : sum->nodes)
        if (node.attribute >= 0) ranks.insert(node.attribute);
      sums = true;
    }
    const int64_t bytes = part_->n_rows * sizeof(int32_t);
    for (const int a : ranks) copy_in(part_->ranks + a * bytes, part_->ranks_host + a * part_->ranks_host_step, bytes);
    for (const int a : orders) copy_in(part_->order + a * bytes, part_->order_host + a * bytes, bytes);
    if (sums) copy_in(part_->z, part_->z_host, part_->z_bytes);
  }

  void copy_in(uint64_t to, uint64_t from, size_t bytes) const {
    check(driver_.copy_in(to, reinterpret_cast<const void*>(from), bytes, stream()));
  }

  struct Batch {
    std::vector<AdvanceRequest> advances;
    std::vector<ListRequest> lists;
    std::vector<CountRequest> counts;
    std::vector<CutsRequest> cuts;
    std::vector<SumRequest> sums;
    std::vector<RouteInterval> intervals;
    std::vector<RouteNode> nodes;
    std::vector<int32_t> request_of_block;  // that sums
    std::vector<SolveRequest> solves;
    std::vector<SlotResult> slots;
    std::vector<int64_t> places;   // of slots among the results, -1 of those that stay on the GPU
    std::vector<int32_t> columns;  // of slots and matrices
    int32_t first_of_all = -1;     // columns of z, once somebody asks for them
    int64_t number = 0;
    std::vector<ListQuestion*> asked_lists;
    std::vector<std::pair<CutsAnswer*, int32_t>> asked_cuts;              // where to, and the first answer
    std::vector<std::pair<std::vector<int32_t>*, int32_t>> asked_counts;  // where to, and the first answer
    std::vector<std::pair<SumQuestion*, int32_t>> asked_sums;             // and the first slot
    std::vector<std::pair<std::vector<double>*, int32_t>> asked_solves;   // where to, and the first answer
    std::vector<int32_t> sent_rows;                                       // of grids
    int32_t list_blocks = 0, count_blocks = 0, sum_blocks = 0, solve_blocks = 0, n_answers = 0, n_solutions = 0;
    int32_t most_side = 0;               // of matrices
    int64_t n_parts = 0, n_results = 0;  // partial sums; numbers of all slots
    int64_t n_grid_sums = 0;
    size_t first_grid_sum = 0;   // of the requests
    size_t packet_bytes = 1024;  // of all columns, and what aligning the records may add
    size_t results_bytes = 4;    // an odd number of counts is followed by a gap
  };

  // Whether a question still goes into the batch; an empty batch has to take it.
  bool has_room(size_t packet, size_t results, bool more) {
    const bool fits =
        batch_.packet_bytes + packet <= h_.packet_bytes && batch_.results_bytes + results <= h_.results_bytes && more;
    const bool is_empty = batch_.advances.empty() && batch_.lists.empty() && batch_.counts.empty() &&
                          batch_.cuts.empty() && batch_.sums.empty() && batch_.solves.empty();
    if (!fits && is_empty) throw std::length_error("a request of the search outgrew the buffers on the GPU");
    if (fits) batch_.packet_bytes += packet, batch_.results_bytes += results;
    return fits;
  }

  static int32_t blocks_of(int64_t count, int64_t per_block) {
    return std::max<int32_t>(1, int32_t((count + per_block - 1) / per_block));
  }

  bool add_advance(const AdvanceQuestion& question) {
    if (question.part != p_) return true;
    if (!has_room(sizeof(AdvanceRequest), 0, true)) return false;
    batch_.advances.push_back(question.request);
    return true;
  }

  bool add_list(ListQuestion& question) {
    const RowPositions& source = question.source.parts[p_];
    if (source.count == 0) return true;
    const int32_t n_blocks = blocks_of(source.count, kListTile), n_inner = std::max(question.n_cells - 1, 0);
    const size_t packet =
        sizeof(ListRequest) + sizeof(CountRequest) + sizeof(CutsRequest) + records(question.intervals);
    const int32_t n_sampled = int32_t(std::min<int64_t>(question.most, source.count));
    const size_t results = sizeof(int32_t) * (1 + n_inner + n_sampled) + (question.cuts ? sizeof(CutsAnswer) : 0);
    if (!has_room(packet, results, size_t(batch_.list_blocks + n_blocks) <= h_.n_counts)) return false;
    ListRequest r{};
    r.source = source;
    int32_t* ranks = part_->list_ranks(question.list);
    r.rows = question.over_ranks ? ranks : part_->list_rows(question.list);
    r.ranks = ranks, r.attribute = question.attribute;
    r.first_interval = add_intervals(question.intervals), r.n_intervals = int32_t(question.intervals.size());
    r.first_block = batch_.list_blocks, r.n_blocks = n_blocks;
    r.most = question.most, r.first_answer = batch_.n_answers;
    batch_.list_blocks += n_blocks, batch_.n_answers += n_sampled;
    // The list's total stands there when the kernels that follow read it.
    const int32_t* total = totals() + batch_.lists.size();
    if (n_inner)
      add_count({ranks, total, 0, 0, question.span, question.low, question.n_cells, 0, 0}, question.counts[p_]);
    if (question.cuts) add_cuts({ranks, total, 0, 0, 0, 0}, *question.cuts);
    batch_.lists.push_back(r);
    batch_.asked_lists.push_back(&question);
    return true;
  }

  bool add_count(CountQuestion& question) {
    const auto [first, last] = question.positions[p_];
    if (first == last) return true;
    if (!has_room(sizeof(CountRequest), sizeof(int32_t) * question.n_cells, true)) return false;
    add_count(
        {part_->list_ranks(question.list), nullptr, first, last, question.span, question.low, question.n_cells, 0, 0},
        question.counts[p_]);
    return true;
  }

  bool add_cuts(CutsQuestion& question) {
    if (question.part != p_) return true;
    if (!has_room(sizeof(CutsRequest), sizeof(CutsAnswer), true)) return false;
    add_cuts({part_->list_ranks(question.list), nullptr, question.first, question.last, 0, 0}, question.answer);
    return true;
  }

  void add_cuts(CutsRequest r, CutsAnswer& answer) {
    r.first_answer = batch_.n_answers;
    batch_.n_answers += int32_t(sizeof(CutsAnswer) / sizeof(int32_t));
    batch_.cuts.push_back(r);
    batch_.asked_cuts.push_back({&answer, r.first_answer});
  }

  void add_count(CountRequest r, std::vector<int32_t>& answer) {
    r.first_answer = batch_.n_answers, r.first_block = batch_.count_blocks;
    batch_.n_answers += r.n_cells - 1, batch_.count_blocks += blocks_of(r.n_cells - 1, kBlockThreads);
    batch_.counts.push_back(r);
    batch_.asked_counts.push_back({&answer, r.first_answer});
  }

  bool add_sum(SumQuestion& question, int rows_per_block) {
    const RowPositions& source = question.source.parts[p_];
    if (source.count == 0) return true;
    SumRequest r{};
    r.source = source;
    r.n_blocks = blocks_of(source.count, rows_per_block), r.n_slots = question.n_slots;
    const int64_t n_parts = parts_of(r.n_blocks, r.n_slots);
    size_t packet = sizeof(SumRequest) + records(question.intervals) + records(question.nodes), results = 0;
    packet += r.n_blocks * sizeof(int32_t);
    for (int slot = 0; slot < r.n_slots; ++slot) {
      packet += sizeof(SlotResult) + question.width(slot, width_) * sizeof(int32_t);
      if (!question.kept) results += (1 + packed_size(question.width(slot, width_))) * sizeof(double);
    }
    if (!has_room(packet, results, size_t(batch_.n_parts + n_parts) <= h_.n_parts)) return false;
    r.first_part = batch_.n_parts, r.first_block = batch_.sum_blocks, r.first_slot = int32_t(batch_.slots.size());
    r.first_interval = add_intervals(question.intervals), r.n_intervals = int32_t(question.intervals.size());
    r.first_node = int32_t(batch_.nodes.size()), r.n_nodes = int32_t(question.nodes.size());
    batch_.nodes.insert(batch_.nodes.end(), question.nodes.begin(), question.nodes.end());
    batch_.n_parts += n_parts, batch_.sum_blocks += r.n_blocks;
    double* kept = question.kept;
    for (int slot = 0; slot < r.n_slots; ++slot) {
      const int width = question.width(slot, width_);
      const int64_t n_numbers = 1 + int64_t(packed_size(width));
      batch_.slots.push_back({kept, first_column(question, slot), width});
      batch_.places.push_back(kept ? -1 : batch_.n_results);
      if (kept)
        kept += n_numbers;
      else
        batch_.n_results += n_numbers;
    }
    batch_.request_of_block.resize(batch_.sum_blocks, int32_t(batch_.sums.size()));
    batch_.sums.push_back(r);
    batch_.asked_sums.push_back({&question, r.first_slot});
    return true;
  }

  // Behind all sums.
  bool add_solve(SolveQuestion& question) {
    if (question.part != p_) return true;
    const std::vector<int32_t>& columns = question.columns->solved();
    const size_t results = 2 * question.request.n_cuts * sizeof(double);
    if (!has_room(sizeof(SolveRequest) + records(columns), results, true)) return false;
    add_solve(question.request, place(columns), int32_t(columns.size()), question.answer);
    return true;
  }

  int32_t place(const std::vector<int32_t>& columns) {
    batch_.columns.insert(batch_.columns.end(), columns.begin(), columns.end());
    return int32_t(batch_.columns.size() - columns.size());
  }

  void add_solve(SolveRequest r, int32_t first_column, int32_t n_solved, std::vector<double>& answer) {
    r.first_column = first_column, r.n_solved = n_solved;
    r.first_answer = batch_.n_solutions, r.first_block = batch_.solve_blocks;
    batch_.n_solutions += 2 * r.n_cuts, batch_.solve_blocks += r.n_cuts;
    batch_.most_side = std::max(batch_.most_side, n_solved + 1);
    batch_.solves.push_back(r);
    answer.resize(2 * r.n_cuts);
    batch_.asked_solves.push_back({&answer, r.first_answer});
  }

  // A request between two cuts each, whose sums stand one behind the other, and one of errors a side.
  bool add_grid(GridQuestion& question, int rows_per_block) {
    if (question.part != p_) return true;
    const ModelColumns& columns = *question.columns;
    const int n_parts = question.n_parts(), n_cuts = n_parts - 1;
    const int64_t step = 1 + int64_t(columns.n_entries()), n_sums = n_parts * step;
    int64_t n_blocks = 0;
    for (int part = 0; part < n_parts; ++part) n_blocks += blocks_of(part_rows(question, part).second, rows_per_block);
    const size_t packet = n_parts * (sizeof(SumRequest) + sizeof(SlotResult)) + 2 * sizeof(SolveRequest) +
                          sizeof(RouteNode) + records(*question.rows) + n_blocks * sizeof(int32_t) +
                          records(columns.taken()) + records(columns.solved());
    const bool fits = size_t(batch_.n_grid_sums + n_sums) * sizeof(double) <= h_.grid_sums_bytes &&
                      size_t(batch_.n_parts + parts_of(n_blocks, 1)) <= h_.n_parts;
    if (!has_room(packet, 4 * n_cuts * sizeof(double), fits)) return false;
    double* sums = reinterpret_cast<double*>(h_.grid_sums) + batch_.n_grid_sums;
    batch_.n_grid_sums += n_sums;
    const int32_t sent = int32_t(batch_.sent_rows.size()), node = int32_t(batch_.nodes.size());
    batch_.sent_rows.insert(batch_.sent_rows.end(), question.rows->begin(), question.rows->end());
    batch_.nodes.push_back({-1, 0, 0, 0, 0});
    const int32_t column = columns.is_all() ? place_all() : place(columns.taken());
    for (int part = 0; part < n_parts; ++part) {
      const auto [first, count] = part_rows(question, part);
      SumRequest r{};
      r.source = {nullptr, 0, sent + first, count, 1};
      r.n_blocks = blocks_of(count, rows_per_block), r.n_slots = 1;
      r.first_part = batch_.n_parts, r.first_block = batch_.sum_blocks, r.first_slot = int32_t(batch_.slots.size());
      r.first_node = node, r.n_nodes = 1;
      batch_.n_parts += parts_of(r.n_blocks, 1), batch_.sum_blocks += r.n_blocks;
      batch_.slots.push_back({sums + part * step, column, columns.width()});
      batch_.places.push_back(-1);
      batch_.request_of_block.resize(batch_.sum_blocks, int32_t(batch_.sums.size()));
      batch_.sums.push_back(r);
    }
    SolveRequest solve{nullptr, sums, step, n_cuts, 0, columns.width(), 0, question.least_rows, 0, 0, 0};
    const int32_t solved = place(columns.solved()), n_solved = int32_t(columns.solved().size());
    add_solve(solve, solved, n_solved, question.answers[0]);
    solve.parts = sums + n_cuts * step, solve.step = -step;
    add_solve(solve, solved, n_solved, question.answers[1]);
    return true;
  }

  // Of a grid, where the rows between two cuts begin and how many they are.
  static std::pair<int64_t, int64_t> part_rows(const GridQuestion& question, int part) {
    const int64_t first = part ? question.cuts[part - 1] : 0;
    const int64_t last = part < int(question.cuts.size()) ? question.cuts[part] : int64_t(question.rows->size());
    return {first, last - first};
  }

  // Sums that blocks write of so many slots.
  int64_t parts_of(int64_t n_blocks, int n_slots) const { return n_blocks * (n_slots + sum_splits(h_.stride) - 1); }

  // Where the columns of a slot stand in the packet.
  int32_t first_column(const SumQuestion& question, int slot) {
    const ModelColumns* columns = question.columns.empty() ? nullptr : question.columns[slot];
    if (!columns || columns->is_all()) return place_all();
    return columns->place_in(batch_.number, [&] { return place(columns->taken()); });
  }

  int32_t place_all() {
    if (batch_.first_of_all < 0) {
      std::vector<int32_t> all(width_);
      std::iota(all.begin(), all.end(), 0);
      batch_.first_of_all = place(all);
    }
    return batch_.first_of_all;
  }

  template <class List>
  static size_t records(const List& of) {
    return of.size() * sizeof(typename List::value_type);
  }

  int32_t add_intervals(const std::vector<RouteInterval>& intervals) {
    const int32_t first = int32_t(batch_.intervals.size());
    batch_.intervals.insert(batch_.intervals.end(), intervals.begin(), intervals.end());
    return first;
  }

  // Blocks large enough to sum many rows of a leaf and for their partial sums to fit, small enough to keep all
  // processors busy.
  int rows_per_block() const {
    constexpr int kRowsPerColumn = 16;
    const std::vector<SumQuestion*>& sums = questions_->sums;
    int64_t total = 0;
    for (size_t i = next_sum_; i < sums.size(); ++i) total += count_of(sums[i]->source);
    const auto fits = [&](int size) {
      for (size_t i = next_sum_; i < sums.size(); ++i)
        if (size_t(parts_of(blocks_of(count_of(sums[i]->source), size), sums[i]->n_slots)) > h_.n_parts) return false;
      return true;
    };
    int size = most_rows(h_.stride);
    const int least = std::max(kBlockThreads, kRowsPerColumn * width_);
    const int64_t wanted = kBlocksOfProcessor * h_.n_processors;
    while (size > least && total / size < wanted && fits(size / 2)) size /= 2;
    return size;
  }

  void launch_batch() {
    static std::atomic<int64_t> n_batches = 0;
    batch_ = {};
    batch_.number = ++n_batches;
    const GpuQuestions& q = *questions_;
    const int per_block = rows_per_block();
    while (next_advance_ < q.advances.size() && add_advance(*q.advances[next_advance_])) ++next_advance_;
    while (next_list_ < q.lists.size() && add_list(*q.lists[next_list_])) ++next_list_;
    while (next_count_ < q.counts.size() && add_count(*q.counts[next_count_])) ++next_count_;
    while (next_cuts_ < q.cuts.size() && add_cuts(*q.cuts[next_cuts_])) ++next_cuts_;
    while (next_sum_ < q.sums.size() && add_sum(*q.sums[next_sum_], per_block)) ++next_sum_;
    while (next_sum_ == q.sums.size() && next_solve_ < q.solves.size() && add_solve(*q.solves[next_solve_]))
      ++next_solve_;
    batch_.first_grid_sum = batch_.sums.size();
    while (next_solve_ == q.solves.size() && next_grid_ < q.grids.size() && add_grid(*q.grids[next_grid_], per_block))
      ++next_grid_;
    const bool copied = batch_.n_results >= kCopied;
    for (size_t i = 0; i < batch_.slots.size(); ++i)
      if (batch_.places[i] >= 0)
        batch_.slots[i].to = (copied ? reinterpret_cast<double*>(h_.results) : results()) + batch_.places[i];
    packed_bytes_ = 0;
    const int32_t* sent_rows = pack(batch_.sent_rows);
    for (size_t i = batch_.first_grid_sum; i < batch_.sums.size(); ++i) batch_.sums[i].source.rows = sent_rows;
    const AdvanceRequest* advances = pack(batch_.advances);
    const ListRequest* lists = pack(batch_.lists);
    const CountRequest* counts = pack(batch_.counts);
    const CutsRequest* cuts = pack(batch_.cuts);
    const SumRequest* sums = pack(batch_.sums);
    const RouteInterval* intervals = pack(batch_.intervals);
    const RouteNode* nodes = pack(batch_.nodes);
    const int32_t* request_of_block = pack(batch_.request_of_block);
    const SolveRequest* solves = pack(batch_.solves);
    const SlotResult* slots = pack(batch_.slots);
    const int32_t* columns = pack(batch_.columns);
    if (packed_bytes_) copy_in(h_.packet, h_.packet_host, packed_bytes_);
    auto* part_counts = reinterpret_cast<int32_t*>(h_.part_counts);
    const int n_lists = int(batch_.lists.size()), n_counts = int(batch_.counts.size()),
              n_sums = int(batch_.sums.size());
    if (advances) launch(h_.advance_sums, unsigned(batch_.advances.size()) * kAdvanceBlocks, advances);
    if (n_lists) {
      launch(h_.count_rows, batch_.list_blocks, rows(), lists, n_lists, intervals, part_counts);
      launch(h_.list_rows, batch_.list_blocks, rows(), lists, n_lists, intervals, part_counts, totals());
    }
    if (n_counts) launch(h_.count_ranks, batch_.count_blocks, counts, n_counts, answers());
    if (cuts) launch(h_.find_cuts, unsigned(batch_.cuts.size()), cuts, answers());
    if (n_sums) launch_sums(sums, request_of_block, intervals, nodes, slots, columns, per_block);
    if (copied) check(driver_.copy_out(results(), h_.results, batch_.n_results * sizeof(double), stream()));
    if (!solves) return;
    const int n_tile_rows = (batch_.most_side + kSolveTile - 1) / kSolveTile;
    const unsigned threads = unsigned(n_tiles(n_tile_rows) + 31) / 32 * 32;
    check(driver_.launch_blocks(h_.solve_cuts, batch_.solve_blocks, threads, stream(), solves,
                                int(batch_.solves.size()), columns, solutions()));
  }

  void launch_sums(const SumRequest* sums, const int32_t* request_of_block, const RouteInterval* intervals,
                   const RouteNode* nodes, const SlotResult* slots, const int32_t* columns, int per_block) const {
    auto* part_counts = reinterpret_cast<int32_t*>(h_.part_counts);
    auto* parts = reinterpret_cast<double*>(h_.parts);
    const bool few = batch_.n_parts < kFewParts * int64_t(batch_.slots.size());
    const int entries = few ? kEntriesOfFew : kEntriesOfMany;
    check(driver_.launch_blocks(h_.sum_rows, batch_.sum_blocks, sum_threads(h_.stride), stream(), rows(), sums,
                                request_of_block, intervals, nodes, per_block, part_counts, parts));
    launch(h_.add_parts, unsigned(batch_.slots.size()) * entry_blocks(h_.stride, entries), sums,
           int(batch_.sums.size()), part_counts, parts, slots, columns, entries);
  }

  // Results on the host: totals of lists, counts of ranks and cuts, sums, errors.
  int32_t* totals() const { return reinterpret_cast<int32_t*>(h_.results_host); }
  int32_t* answers() const { return totals() + batch_.lists.size(); }
  double* results() const {
    return reinterpret_cast<double*>(h_.results_host) + (batch_.lists.size() + batch_.n_answers + 1) / 2;
  }

  double* solutions() const { return results() + batch_.n_results; }

  // Part of the packet that goes to the device, returned as its address there.
  template <class T>
  const T* pack(const std::vector<T>& of) {
    const size_t at = (packed_bytes_ + 15) / 16 * 16;
    if (of.empty()) return nullptr;
    std::memcpy(reinterpret_cast<char*>(h_.packet_host) + at, of.data(), records(of));
    packed_bytes_ = at + records(of);
    return reinterpret_cast<const T*>(h_.packet + at);
  }

  template <class... Arguments>
  void launch(uint64_t kernel, unsigned blocks, Arguments... arguments) const {
    check(driver_.launch_blocks(kernel, blocks, kBlockThreads, stream(), arguments...));
  }

  void take_answers() {
    for (size_t i = 0; i < batch_.asked_lists.size(); ++i)
      take_list(*batch_.asked_lists[i], batch_.lists[i], totals()[i]);
    for (const auto& [answer, first] : batch_.asked_counts)
      std::copy_n(answers() + first, answer->size(), answer->begin());
    for (const auto& [answer, first] : batch_.asked_cuts)
      *answer = *reinterpret_cast<const CutsAnswer*>(answers() + first);
    const auto take = [&](int i, int) { take_sums(*batch_.asked_sums[i].first, batch_.asked_sums[i].second); };
    for (const auto& [answer, first] : batch_.asked_solves)
      std::copy_n(solutions() + first, answer->size(), answer->begin());
    const int n = int(batch_.asked_sums.size());
    if (pool_ && batch_.n_results >= kSharedCopy) return pool_->run(n, take, int(1 + batch_.n_results / kSharedCopy));
    for (int i = 0; i < n; ++i) take(i, 0);
  }

  void take_list(ListQuestion& question, const ListRequest& request, int64_t total) const {
    question.totals[p_] = total;
    if (!question.most) return;
    const int64_t stride = total / question.most + 1;
    const int32_t* from = answers() + request.first_answer;
    question.sample.assign(from, from + (total + stride - 1) / stride);
  }

  // The first part's sums as they are, those of others added.
  void take_sums(SumQuestion& question, int first_slot) const {
    if (question.kept) return;
    double* next = question.sums;
    for (int slot = 0; slot < question.n_slots; ++slot) {
      const SlotResult& at = batch_.slots[first_slot + slot];
      const double *count = results() + batch_.places[first_slot + slot], *from = count + 1;
      LeafSums& sums = question.answer[slot];
      const size_t n_entries = packed_size(at.n_columns);
      sums.n_rows += int64_t(*count);
      if (!question.sums && !question.has_sums) {
        sums.gram.assign(from, from + n_entries);
        continue;
      }
      double* to = question.sums ? std::exchange(next, next + n_entries) : sums.gram.data();
      if (!question.has_sums)
        std::copy_n(from, n_entries, to);
      else
        for (size_t e = 0; e < n_entries; ++e) to[e] += from[e];
    }
    question.has_sums = true;
  }

  static constexpr int64_t kBlocksOfProcessor = 8;  // and more, so that all end at about the same time
  static constexpr int64_t kFewParts = 128;         // of a slot, which a thread adds up in turn
  static constexpr int64_t kCopied = 1 << 13;       // numbers that the GPU copies sooner than its blocks write them
  static constexpr int64_t kSharedCopy = 1 << 17;   // numbers that several threads take sooner than one

  StreamHandles h_;
  CudaDriver driver_;
  int width_;
  void* context_ = nullptr;
  const GpuPart* part_ = nullptr;  // what is under way
  int p_ = 0;
  const GpuQuestions* questions_ = nullptr;
  size_t next_advance_ = 0, next_list_ = 0, next_count_ = 0, next_cuts_ = 0, next_sum_ = 0, next_solve_ = 0,
         next_grid_ = 0;
  Batch batch_;
  size_t packed_bytes_ = 0;
  ThreadPool* pool_ = nullptr;
};

}  // namespace silva
