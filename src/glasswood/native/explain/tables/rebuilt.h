// Tables beyond the budget: built anew for each call, a batch of chunks at a time. How many background rows are in
// which state is kept, which takes a fraction of the tables' memory.
#pragma once
#include <mutex>

#include "explain/tables/leaf_games/seen_states.h"
#include "explain/tables/planned.h"

namespace glasswood {

template <class Real>
class RebuiltTables {
 public:
  RebuiltTables(PlannedTables<Real> planned, int64_t batch_bytes)
      : planned_(std::move(planned)), batch_bytes_(batch_bytes), ranges_(ranges_of(batch_bytes)) {}
  // Tables of the same plan, to be counted anew.
  explicit RebuiltTables(const RebuiltTables& other)
      : planned_(other.planned_), batch_bytes_(other.batch_bytes_), ranges_(other.ranges_) {}

  void count(CountedRows& rows, int64_t total, int n_threads) {
    total_ = double(total);
    seen_.clear(total < (int64_t(1) << 32));
    for (const ChunkRange& range : ranges_) {
      const StateCounts count = planned_.count(range, rows, n_threads);
      const BorrowedTeam threads(n_threads);
      seen_.add(planned_.plan(), range.first_chunk, range.n_chunks, count, threads.team());
    }
    seen_.end();
  }

  const PlannedTables<Real>& planned() const { return planned_; }
  int64_t n_bytes() const { return batch_size() + seen_.n_bytes(); }
  int64_t n_subtrees() const { return int64_t(planned_.plan().subtrees.size()); }
  int64_t plan_bytes() const { return planned_.plan().n_bytes(); }

  // Adds to what the result holds.
  void pass(PassTask<Real>& task, int n_threads) const {
    const BatchMemory memory(*this);
    Real* table = reinterpret_cast<Real*>(memory.data());
    const bool has_few = has_few_rows(task.rows.n_rows);
    const std::vector<ChunkRange> ranges = has_few ? ranges_ : ranges_of(near_bytes(n_threads));
    std::vector<uint16_t> keys;
    task.adds = true;
    planned_.pass_ranges(task, ranges, table, n_threads, [&](const ChunkRange& range) {
      if (has_few) keys = planned_.keys(task, range, n_threads);
      const uint16_t* some = has_few ? keys.data() : nullptr;
      if (seen_.is_empty()) return planned_.fill_by_covers(range, table, n_threads, some, task.rows.n_rows);
      planned_.fill_by_seen(range, seen_.from(first_subtree(range)), total_, table, n_threads, some, task.rows.n_rows);
    });
  }

 private:
  PlannedTables<Real> planned_;
  int64_t batch_bytes_;
  std::vector<ChunkRange> ranges_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<TableMemory> spare_;
  double total_ = 0;
  SeenStates seen_;

  // Memory of a batch that a call borrows: fresh memory costs more than what is built into it.
  class BatchMemory {
   public:
    explicit BatchMemory(const RebuiltTables& tables) : tables_(tables) {
      {
        const std::lock_guard lock(tables_.mutex_);
        memory_ = std::move(tables_.spare_);
      }
      if (!memory_) memory_ = std::make_unique<TableMemory>(tables_.batch_size());
    }
    ~BatchMemory() {
      const std::lock_guard lock(tables_.mutex_);
      if (!tables_.spare_) tables_.spare_ = std::move(memory_);
    }
    BatchMemory(const BatchMemory&) = delete;
    BatchMemory& operator=(const BatchMemory&) = delete;
    void* data() const { return memory_->data(); }

   private:
    const RebuiltTables& tables_;
    std::unique_ptr<TableMemory> memory_;
  };

  // Whether to find the states that rows are in pays: if subtrees have `n_states` states for each row on average, or
  // more. Against a background a state costs more.
  bool has_few_rows(int64_t n_rows) const {
    const int64_t n_states = seen_.is_empty() ? 8 : 1;
    return n_rows * n_states * n_subtrees() <= planned_.plan().n_vectors;
  }

  std::vector<ChunkRange> ranges_of(int64_t n_bytes) const {
    return planned_.ranges(std::max<int64_t>(1, n_bytes / planned_.vector_bytes()));
  }

  // Bytes of a batch that many rows pass: what a thread builds stays in its second-level cache until it is read. Few
  // rows read a part of it, and each batch costs a start of the threads. No bits depend on batches.
  int64_t near_bytes(int n_threads) const {
    constexpr int64_t kOfThread = 1 << 20;
    return std::min(batch_bytes_, kOfThread * n_threads);
  }

  int64_t batch_size() const {
    int64_t most = 0;
    for (const ChunkRange& range : ranges_) most = std::max(most, range.n_vectors);
    return most * planned_.vector_bytes();
  }

  int64_t first_subtree(const ChunkRange& range) const {
    return planned_.plan().chunks[range.first_chunk].first_subtree;
  }
};

}  // namespace glasswood
