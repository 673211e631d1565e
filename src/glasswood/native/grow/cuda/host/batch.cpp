#include "grow/cuda/host/batch.h"

#include <numeric>
#include <stdexcept>
#include <utility>

namespace glasswood {

constexpr int64_t kFewPartials = 128;       // of a slot, which a thread adds up in turn
constexpr int64_t kCopied = 1 << 13;        // numbers that the GPU copies sooner than its blocks write them
constexpr int64_t kCopiedByMany = 1 << 17;  // numbers that several threads take sooner than one

template <class List>
static size_t bytes_of(const List& list) {
  return list.size() * sizeof(typename List::value_type);
}

bool Batch::has_room(size_t packet, size_t results, bool more) {
  const bool fits = packet_bytes_ + packet <= h_.packet.n_bytes && results_bytes_ + results <= h_.results_bytes && more;
  const bool is_empty =
      advances_.empty() && lists_.empty() && counts_.empty() && candidates_.empty() && sums_.empty() && solves_.empty();
  if (!fits && is_empty) throw std::length_error("a request of the search outgrew the buffers on the GPU");
  if (fits) packet_bytes_ += packet, results_bytes_ += results;
  return fits;
}

// Entries of the sums that an AdvanceRecord writes for `n_candidates` candidates.
static int64_t n_summed_entries(int n_candidates, int width) {
  return n_candidates / kSummedBins * (1 + int64_t(packed_size(width)));
}

double* Batch::take_grid_sums(int64_t n) {
  return address<double>(h_.grid_sums) + std::exchange(n_grid_sums_, n_grid_sums_ + n);
}

bool Batch::add(const AdvanceRequest& request) {
  if (!has_room(sizeof(AdvanceRecord), 0, true)) return false;
  advances_.push_back(request.record);
  return true;
}

bool Batch::add(ListRequest& request) {
  const RowPositions& source = request.source.parts[p_];
  const int32_t n_blocks = blocks_of(source.count, kListTile), n_inner = std::max(request.n_cells - 1, 0);
  const size_t packet =
      sizeof(ListRecord) + sizeof(CountRecord) + sizeof(CandidatesRecord) + bytes_of(request.intervals);
  const int32_t n_sampled = int32_t(std::min<int64_t>(request.most, source.count));
  const size_t results =
      sizeof(int32_t) * (1 + n_inner + n_sampled) + (request.candidates ? sizeof(CandidatesAnswer) : 0);
  if (!has_room(packet, results, size_t(list_blocks_ + n_blocks) <= h_.n_counts)) return false;
  ListRecord r{};
  r.source = source;
  int32_t* ranks = part_.list_ranks(request.list);
  r.rows = request.over_ranks ? ranks : part_.list_rows(request.list);
  r.ranks = ranks, r.feature = request.feature;
  r.first_interval = add_intervals(request.intervals), r.n_intervals = int32_t(request.intervals.size());
  r.first_block = list_blocks_, r.n_blocks = n_blocks;
  r.most = request.most, r.first_answer = n_answers_;
  list_blocks_ += n_blocks, n_answers_ += n_sampled;
  // The list's total stands there when the kernels that follow read it.
  const int32_t* total = totals() + lists_.size();
  if (n_inner) add({ranks, total, 0, 0, request.span, request.low, request.n_cells, 0, 0}, request.counts[p_]);
  if (request.candidates) add({ranks, total, 0, 0, 0, 0}, *request.candidates);
  lists_.push_back(r);
  asked_lists_.push_back(&request);
  return true;
}

bool Batch::add(CountRequest& request) {
  const auto [first, last] = request.positions[p_];
  if (!has_room(sizeof(CountRecord), sizeof(int32_t) * request.n_cells, true)) return false;
  add({part_.list_ranks(request.list), nullptr, first, last, request.span, request.low, request.n_cells, 0, 0},
      request.counts[p_]);
  return true;
}

bool Batch::add(CandidatesRequest& request) {
  if (!has_room(sizeof(CandidatesRecord), sizeof(CandidatesAnswer), true)) return false;
  add({part_.list_ranks(request.list), nullptr, request.first, request.last, 0, 0}, request.answer);
  return true;
}

void Batch::add(CandidatesRecord record, CandidatesAnswer& answer) {
  record.first_answer = n_answers_;
  n_answers_ += int32_t(sizeof(CandidatesAnswer) / sizeof(int32_t));
  candidates_.push_back(record);
  asked_candidates_.push_back({&answer, record.first_answer});
}

void Batch::add(CountRecord record, std::vector<int32_t>& answer) {
  record.first_answer = n_answers_, record.first_block = count_blocks_;
  n_answers_ += record.n_cells - 1, count_blocks_ += blocks_of(record.n_cells - 1, kBlockThreads);
  counts_.push_back(record);
  asked_counts_.push_back({&answer, record.first_answer});
}

// What the buffers hold next of the sums of `count` rows.
SumRecord Batch::begin_sum(int64_t count, int n_slots) {
  SumRecord r{};
  r.n_blocks = blocks_of(count, rows_per_block_), r.n_slots = n_slots;
  r.first_partial = n_partials_, r.first_block = sum_blocks_, r.first_slot = int32_t(slots_.size());
  return r;
}

void Batch::end_sum(const SumRecord& record) {
  n_partials_ += partials_of(record.n_blocks, record.n_slots, h_.stride), sum_blocks_ += record.n_blocks;
  record_of_block_.resize(sum_blocks_, int32_t(sums_.size()));
  sums_.push_back(record);
}

void Batch::add_slot(double* to, int32_t first_column, int width) {
  slots_.push_back({to, first_column, width});
  places_.push_back(to ? -1 : n_results_);
  if (!to) n_results_ += 1 + int64_t(packed_size(width));
}

bool Batch::add(SumRequest& request) {
  const RowPositions& source = request.source.parts[p_];
  SumRecord r = begin_sum(source.count, request.n_slots);
  size_t packet = sizeof(SumRecord) + bytes_of(request.intervals) + bytes_of(request.nodes), results = 0;
  packet += r.n_blocks * sizeof(int32_t);
  for (int slot = 0; slot < r.n_slots; ++slot) {
    packet += sizeof(SlotResult) + request.width(slot, width_) * sizeof(int32_t);
    if (!request.kept) results += (1 + packed_size(request.width(slot, width_))) * sizeof(double);
  }
  const int64_t n_partials = n_partials_ + partials_of(r.n_blocks, r.n_slots, h_.stride);
  if (!has_room(packet, results, size_t(n_partials) <= h_.n_partials)) return false;
  r.source = source;
  r.first_interval = add_intervals(request.intervals), r.n_intervals = int32_t(request.intervals.size());
  r.first_node = int32_t(nodes_.size()), r.n_nodes = int32_t(request.nodes.size());
  nodes_.insert(nodes_.end(), request.nodes.begin(), request.nodes.end());
  double* kept = request.kept;
  for (int slot = 0; slot < r.n_slots; ++slot) {
    const int width = request.width(slot, width_);
    add_slot(kept, first_column(request, slot), width);
    if (kept) kept += 1 + packed_size(width);
  }
  end_sum(r);
  asked_sums_.push_back({&request, r.first_slot});
  return true;
}

bool Batch::add(SolveRequest& request) {
  const std::vector<int32_t>& columns = request.columns->solved();
  const size_t results = 2 * request.record.n_candidates * sizeof(double);
  const int64_t n_sums = n_grid_sums_ + n_summed_entries(request.record.n_candidates, request.record.width);
  const size_t packet = sizeof(SolveRecord) + sizeof(AdvanceRecord) + bytes_of(columns);
  if (!has_room(packet, results, size_t(n_sums) * sizeof(double) <= h_.grid_sums_bytes)) return false;
  add(request.record, place(columns), int32_t(columns.size()), request.answer);
  return true;
}

void Batch::add(SolveRecord record, int32_t first_column, int32_t n_solved, std::vector<double>& answer) {
  record.first_column = first_column, record.n_solved = n_solved;
  record.first_answer = n_solutions_, record.first_block = solve_blocks_;
  n_solutions_ += 2 * record.n_candidates, solve_blocks_ += record.n_candidates;
  most_side_ = std::max(most_side_, n_solved + 1);
  if (const int n_sums = record.n_candidates / kSummedBins) {
    double* sums = take_grid_sums(n_summed_entries(record.n_candidates, record.width));
    const int32_t n_entries = 1 + int32_t(packed_size(record.width));
    summed_.push_back({record.base, record.bins, sums, record.step, n_entries, kSummedBins, n_sums, 0});
    record.sums = sums;
  }
  solves_.push_back(record);
  answer.resize(2 * record.n_candidates);
  asked_solves_.push_back({&answer, record.first_answer});
}

// A record of the sums between two candidates each, which stand one behind the other, and one of errors a side.
bool Batch::add(GridRequest& request) {
  const ModelColumns& columns = *request.columns;
  const int n_bins = int(request.candidates.size()) + 1, n_candidates = n_bins - 1;
  const int64_t step = 1 + int64_t(columns.n_entries());
  const int64_t n_sums = n_bins * step + 2 * n_summed_entries(n_candidates, columns.width());
  std::vector<int32_t> edges = {0};
  edges.insert(edges.end(), request.candidates.begin(), request.candidates.end());
  edges.push_back(int32_t(request.rows->size()));
  int64_t n_blocks = 0;
  for (int k = 0; k < n_bins; ++k) n_blocks += blocks_of(edges[k + 1] - edges[k], rows_per_block_);
  const size_t packet = n_bins * (sizeof(SumRecord) + sizeof(SlotResult)) + 2 * sizeof(SolveRecord) +
                        2 * sizeof(AdvanceRecord) + sizeof(RouteNode) + bytes_of(*request.rows) +
                        n_blocks * sizeof(int32_t) + bytes_of(columns.taken()) + bytes_of(columns.solved());
  const bool fits = size_t(n_grid_sums_ + n_sums) * sizeof(double) <= h_.grid_sums_bytes &&
                    size_t(n_partials_ + partials_of(n_blocks, 1, h_.stride)) <= h_.n_partials;
  if (!has_room(packet, 4 * n_candidates * sizeof(double), fits)) return false;
  double* sums = take_grid_sums(n_bins * step);
  const int32_t sent = int32_t(sent_rows_.size()), node = int32_t(nodes_.size());
  sent_rows_.insert(sent_rows_.end(), request.rows->begin(), request.rows->end());
  nodes_.push_back({-1, 0, 0, 0, 0});
  const int32_t column = columns.is_all() ? place_all() : place(columns.taken());
  for (int k = 0; k < n_bins; ++k) {
    const int64_t count = edges[k + 1] - edges[k];
    SumRecord r = begin_sum(count, 1);
    r.source = {nullptr, 0, sent + edges[k], count, 1};
    r.first_node = node, r.n_nodes = 1;
    add_slot(sums + k * step, column, columns.width());
    grid_sums_.push_back(sums_.size());
    end_sum(r);
  }
  SolveRecord solve{nullptr, sums, nullptr, step, n_candidates, 0, columns.width(), 0, request.least_rows, 0, 0, 0};
  const int32_t solved = place(columns.solved()), n_solved = int32_t(columns.solved().size());
  add(solve, solved, n_solved, request.answers[0]);
  solve.bins = sums + n_candidates * step, solve.step = -step;
  add(solve, solved, n_solved, request.answers[1]);
  return true;
}

bool Batch::add(const ReadRequest& request) {
  reads_.push_back(&request);
  return true;
}

int32_t Batch::place(const std::vector<int32_t>& columns) {
  columns_.insert(columns_.end(), columns.begin(), columns.end());
  return int32_t(columns_.size() - columns.size());
}

int32_t Batch::place_all() {
  if (first_of_all_ < 0) {
    std::vector<int32_t> all(width_);
    std::iota(all.begin(), all.end(), 0);
    first_of_all_ = place(all);
  }
  return first_of_all_;
}

int32_t Batch::first_column(const SumRequest& request, int slot) {
  if (!request.columns) return place_all();
  if (placed_ != request.columns) {
    placed_ = request.columns;
    first_columns_.clear();
    for (const ModelColumns* columns : *placed_)
      first_columns_.push_back(columns->is_all() ? place_all() : place(columns->taken()));
  }
  return first_columns_[slot];
}

int32_t Batch::add_intervals(const std::vector<RouteInterval>& intervals) {
  intervals_.insert(intervals_.end(), intervals.begin(), intervals.end());
  return int32_t(intervals_.size() - intervals.size());
}

void Batch::launch(const CudaStream& stream, Packet& packet) {
  const bool is_copied = n_results_ >= kCopied;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (places_[i] >= 0) slots_[i].to = (is_copied ? address<double>(h_.results) : results()) + places_[i];
  packet.clear();
  const int32_t* sent_rows = packet.add(sent_rows_);
  for (const size_t i : grid_sums_) sums_[i].source.rows = sent_rows;
  const AdvanceRecord* advances = packet.add(advances_);
  const ListRecord* lists = packet.add(lists_);
  const CountRecord* counts = packet.add(counts_);
  const CandidatesRecord* candidates = packet.add(candidates_);
  const SumRecord* sums = packet.add(sums_);
  const RouteInterval* intervals = packet.add(intervals_);
  const RouteNode* nodes = packet.add(nodes_);
  const int32_t* record_of_block = packet.add(record_of_block_);
  const AdvanceRecord* summed = packet.add(summed_);
  const SolveRecord* solves = packet.add(solves_);
  const SlotResult* slots = packet.add(slots_);
  const int32_t* columns = packet.add(columns_);
  packet.send(stream);
  auto* tile_counts = address<int32_t>(h_.partial_counts);
  const int n_lists = int(lists_.size());
  launch_advances(stream, advances, advances_);
  if (lists) {
    stream.launch(h_.count_rows, list_blocks_, kBlockThreads, rows(), lists, n_lists, intervals, tile_counts);
    stream.launch(h_.list_rows, list_blocks_, kBlockThreads, rows(), lists, n_lists, intervals, tile_counts, totals());
  }
  if (counts) stream.launch(h_.count_ranks, count_blocks_, kBlockThreads, counts, int(counts_.size()), answers());
  if (candidates) stream.launch(h_.find_candidates, unsigned(candidates_.size()), kBlockThreads, candidates, answers());
  if (sums) launch_sums(stream, sums, record_of_block, intervals, nodes, slots, columns);
  if (is_copied) stream.copy_out(results(), address<void>(h_.results), n_results_ * sizeof(double));
  for (const ReadRequest* read : reads_) stream.copy_out(read->to, read->from, read->bytes);
  if (!solves) return;
  launch_advances(stream, summed, summed_);
  const int n_tile_rows = (most_side_ + kSolveTile - 1) / kSolveTile;
  const unsigned threads = unsigned(n_tiles(n_tile_rows) + 31) / 32 * 32;
  stream.launch(h_.solve_candidates, solve_blocks_, threads, solves, int(solves_.size()), columns, solutions());
}

void Batch::launch_advances(const CudaStream& stream, const AdvanceRecord* records,
                            const std::vector<AdvanceRecord>& all) const {
  if (all.empty()) return;
  int32_t most = 0;
  for (const AdvanceRecord& record : all) most = std::max(most, record.n_entries);
  const int blocks = blocks_of(most, kBlockThreads);
  stream.launch(h_.advance_sums, unsigned(all.size()) * blocks, kBlockThreads, records, blocks);
}

void Batch::launch_sums(const CudaStream& stream, const SumRecord* sums, const int32_t* record_of_block,
                        const RouteInterval* intervals, const RouteNode* nodes, const SlotResult* slots,
                        const int32_t* columns) const {
  auto* counts = address<int32_t>(h_.partial_counts);
  auto* partials = address<double>(h_.partials);
  const bool few = n_partials_ < kFewPartials * int64_t(slots_.size());
  const int entries = few ? kEntriesOfFew : kEntriesOfMany;
  stream.launch(h_.sum_rows, sum_blocks_, sum_threads(h_.stride), rows(), sums, record_of_block, intervals, nodes,
                rows_per_block_, counts, partials);
  stream.launch(h_.add_partials, unsigned(slots_.size()) * entry_blocks(h_.stride, entries), kBlockThreads, sums,
                int(sums_.size()), counts, partials, slots, columns, entries);
}

void Batch::take_answers(ThreadPool* pool) const {
  for (size_t i = 0; i < asked_lists_.size(); ++i) take(*asked_lists_[i], lists_[i], totals()[i]);
  for (const auto& [answer, first] : asked_counts_) std::copy_n(answers() + first, answer->size(), answer->begin());
  for (const auto& [answer, first] : asked_candidates_)
    *answer = *reinterpret_cast<const CandidatesAnswer*>(answers() + first);
  for (const auto& [answer, first] : asked_solves_) std::copy_n(solutions() + first, answer->size(), answer->begin());
  const auto take_sums = [&](int i, int) { take(*asked_sums_[i].first, asked_sums_[i].second); };
  const int n = int(asked_sums_.size());
  if (pool && n_results_ >= kCopiedByMany) return pool->run(n, take_sums, int(1 + n_results_ / kCopiedByMany));
  for (int i = 0; i < n; ++i) take_sums(i, 0);
}

void Batch::take(ListRequest& request, const ListRecord& record, int64_t total) const {
  request.totals[p_] = total;
  if (!request.most) return;
  const int64_t stride = total / request.most + 1;
  const int32_t* from = answers() + record.first_answer;
  request.sample.assign(from, from + (total + stride - 1) / stride);
}

// The first part's sums as they are, those of others added.
void Batch::take(SumRequest& request, int first_slot) const {
  if (request.kept) return;
  double* next = request.sums;
  for (int slot = 0; slot < request.n_slots; ++slot) {
    const SlotResult& at = slots_[first_slot + slot];
    const double *count = results() + places_[first_slot + slot], *from = count + 1;
    LeafSums& sums = request.answer[slot];
    const size_t n_entries = packed_size(at.n_columns);
    sums.n_rows += int64_t(*count);
    if (!request.sums && !request.has_sums) {
      sums.gram.assign(from, from + n_entries);
      continue;
    }
    double* to = request.sums ? std::exchange(next, next + n_entries) : sums.gram.data();
    if (!request.has_sums)
      std::copy_n(from, n_entries, to);
    else
      for (size_t e = 0; e < n_entries; ++e) to[e] += from[e];
  }
  request.has_sums = true;
}

}  // namespace glasswood
