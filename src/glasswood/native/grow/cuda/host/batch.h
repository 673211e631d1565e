// The launches that answer requests to one part of the rows, as many as the buffers hold.
#pragma once
#include "common/threads/thread_pool.h"
#include "grow/cuda/host/cuda_stream.h"
#include "grow/cuda/host/requests.h"

namespace glasswood {

// Addresses of buffers and kernels: memory of the GPU, except `results_host`, pinned memory of the host to which the
// GPU writes small answers.
struct StreamHandles {
  uint64_t stream, results, results_host, partials, partial_counts, grid_sums;
  uint64_t sum_rows, add_partials, count_rows, list_rows, count_ranks, find_candidates, advance_sums, solve_candidates;
  PacketHandles packet;
  size_t results_bytes, grid_sums_bytes, n_partials, n_counts;
  int gpu, n_processors, stride;  // columns of z on the GPU
};

class Batch {
 public:
  Batch(const StreamHandles& handles, const GpuPart& part, int p, int width, int rows_per_block)
      : h_(handles), part_(part), p_(p), width_(width), rows_per_block_(rows_per_block) {}

  // Whether the request still goes in; an empty batch has to take it.
  bool add(const AdvanceRequest& request);
  bool add(ListRequest& request);
  bool add(CountRequest& request);
  bool add(CandidatesRequest& request);
  bool add(SumRequest& request);
  bool add(SolveRequest& request);
  bool add(GridRequest& request);
  bool add(const ReadRequest& request);

  void launch(const CudaStream& stream, Packet& packet);
  // When the stream has come to its end.
  void take_answers(ThreadPool* pool) const;

  static int32_t blocks_of(int64_t count, int64_t per_block) {
    return std::max<int32_t>(1, int32_t((count + per_block - 1) / per_block));
  }
  // Partial sums that blocks write of `n_slots` slots.
  static int64_t partials_of(int64_t n_blocks, int n_slots, int stride) {
    return n_blocks * (n_slots + sum_strands(stride) - 1);
  }

 private:
  bool has_room(size_t packet, size_t results, bool more);
  double* take_grid_sums(int64_t n);
  void add(CandidatesRecord record, CandidatesAnswer& answer);
  void add(CountRecord record, std::vector<int32_t>& answer);
  void add(SolveRecord record, int32_t first_column, int32_t n_solved, std::vector<double>& answer);
  void launch_advances(const CudaStream& stream, const AdvanceRecord* records,
                       const std::vector<AdvanceRecord>& all) const;
  SumRecord begin_sum(int64_t count, int n_slots);
  void end_sum(const SumRecord& record);
  void add_slot(double* to, int32_t first_column, int width);
  int32_t place(const std::vector<int32_t>& columns);
  int32_t place_all();
  int32_t first_column(const SumRequest& request, int slot);
  int32_t add_intervals(const std::vector<RouteInterval>& intervals);
  void launch_sums(const CudaStream& stream, const SumRecord* sums, const int32_t* record_of_block,
                   const RouteInterval* intervals, const RouteNode* nodes, const SlotResult* slots,
                   const int32_t* columns) const;
  void take(ListRequest& request, const ListRecord& record, int64_t total) const;
  void take(SumRequest& request, int first_slot) const;

  GpuRows rows() const {
    return {address<const void>(part_.z), address<const int32_t>(part_.ranks), part_.n_rows,
            address<const RankZone>(part_.zones)};
  }
  // Results on the host: totals of lists, counts of ranks and candidates, sums, errors.
  int32_t* totals() const { return address<int32_t>(h_.results_host); }
  int32_t* answers() const { return totals() + lists_.size(); }
  double* results() const { return address<double>(h_.results_host) + (lists_.size() + n_answers_ + 1) / 2; }
  double* solutions() const { return results() + n_results_; }

  const StreamHandles& h_;
  const GpuPart& part_;
  int p_, width_, rows_per_block_;
  std::vector<AdvanceRecord> advances_;
  std::vector<ListRecord> lists_;
  std::vector<CountRecord> counts_;
  std::vector<CandidatesRecord> candidates_;
  std::vector<SumRecord> sums_;
  std::vector<RouteInterval> intervals_;
  std::vector<RouteNode> nodes_;
  std::vector<int32_t> record_of_block_;  // that sums
  std::vector<AdvanceRecord> summed_;     // for the solves
  std::vector<SolveRecord> solves_;
  std::vector<SlotResult> slots_;
  std::vector<int64_t> places_;          // of slots among the results, -1 of those that stay on the GPU
  std::vector<int32_t> columns_;         // of slots and matrices
  int32_t first_of_all_ = -1;            // columns of z, once somebody asks for them
  const SlotColumns* placed_ = nullptr;  // whose columns stand at first_columns_: requests of a level share them
  std::vector<int32_t> first_columns_;
  std::vector<ListRequest*> asked_lists_;
  std::vector<std::pair<CandidatesAnswer*, int32_t>> asked_candidates_;  // where to, and the first answer
  std::vector<std::pair<std::vector<int32_t>*, int32_t>> asked_counts_;  // where to, and the first answer
  std::vector<std::pair<SumRequest*, int32_t>> asked_sums_;              // and the first slot
  std::vector<std::pair<std::vector<double>*, int32_t>> asked_solves_;   // where to, and the first answer
  std::vector<const ReadRequest*> reads_;
  std::vector<int32_t> sent_rows_;  // of grids
  std::vector<size_t> grid_sums_;   // records whose rows are sent
  int32_t list_blocks_ = 0, count_blocks_ = 0, sum_blocks_ = 0, solve_blocks_ = 0, n_answers_ = 0, n_solutions_ = 0;
  int32_t most_side_ = 0;                   // of matrices
  int64_t n_partials_ = 0, n_results_ = 0;  // partial sums; numbers of all slots
  int64_t n_grid_sums_ = 0;                 // numbers that stay on the GPU in this batch alone
  size_t packet_bytes_ = 1024;              // of all columns, and what aligning the records may add
  size_t results_bytes_ = 4;                // an odd number of counts is followed by a gap
};

}  // namespace glasswood
