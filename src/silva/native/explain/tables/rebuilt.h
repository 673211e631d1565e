// Tables beyond the budget: built anew for each call, a batch of chunks at a time. How many background rows are in
// which state is kept, which takes a fraction of the tables' memory.
#pragma once
#include <mutex>

#include "explain/tables/planned.h"

namespace silva {

template <class Real>
class RebuiltTables {
 public:
  RebuiltTables(PlannedTables<Real> planned, int64_t batch_bytes)
      : planned_(std::move(planned)), batch_bytes_(batch_bytes), ranges_(ranges_of(batch_bytes)) {}
  // Tables of the same plan, to be counted anew.
  explicit RebuiltTables(const RebuiltTables& other)
      : planned_(other.planned_), batch_bytes_(other.batch_bytes_), ranges_(other.ranges_) {}

  void count(const RowSource& rows, std::span<const int64_t> weight, int64_t total, int n_threads) {
    total_ = double(total);
    is_few_ = total < (int64_t(1) << 32);
    first_.assign(1, 0);
    states_.clear(), few_.clear(), many_.clear();
    std::vector<int64_t> count;
    for (const ChunkRange& range : ranges_) {
      planned_.count_into(count, range, rows, weight, n_threads);
      if (is_few_)
        keep(range, count, few_);
      else
        keep(range, count, many_);
    }
    states_.shrink_to_fit(), few_.shrink_to_fit(), many_.shrink_to_fit();
  }

  int64_t n_bytes() const {
    return batch_size() +
           int64_t(states_.size() * sizeof(uint16_t) + few_.size() * sizeof(uint32_t) + many_.size() * sizeof(int64_t));
  }
  int64_t n_subtrees() const { return int64_t(planned_.plan().subtrees.size()); }
  int64_t plan_bytes() const { return planned_.plan().n_bytes(); }

  // Adds to what the result holds.
  void pass(PassTask<Real>& task, int n_threads) const {
    const BatchMemory memory(*this);
    Real* table = reinterpret_cast<Real*>(memory.data());
    const bool has_few = has_few_rows(task.rows.n_rows);
    const std::vector<ChunkRange> ranges = has_few ? ranges_ : ranges_of(near_bytes(n_threads));
    std::vector<uint16_t> keys;
    std::vector<int64_t> count;
    task.adds = true;
    planned_.pass_ranges(task, ranges, table, n_threads, [&](const ChunkRange& range) {
      if (has_few) keys = planned_.keys(task, range, n_threads);
      const uint16_t* some = has_few ? keys.data() : nullptr;
      if (first_.empty()) return planned_.fill_by_covers(range, table, n_threads, some, task.rows.n_rows);
      planned_.fill_by_seen(range, seen(range, count), total_, table, n_threads, some, task.rows.n_rows);
    });
  }

 private:
  PlannedTables<Real> planned_;
  int64_t batch_bytes_;
  std::vector<ChunkRange> ranges_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<TableMemory> spare_;
  double total_ = 0;
  bool is_few_ = true;
  std::vector<int64_t> first_;  // [subtree + 1]: its states that background rows are in
  std::vector<uint16_t> states_;
  std::vector<uint32_t> few_;  // counts
  std::vector<int64_t> many_;  // counts beyond 32 bits

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

  // Whether to find the states that rows are in pays: if subtrees have so many states for each row on average. Against
  // a background a state costs more.
  bool has_few_rows(int64_t n_rows) const {
    const int64_t n_states = first_.empty() ? 8 : 1;
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
  int64_t end_subtree(const ChunkRange& range) const {
    const TableChunk& last = planned_.plan().chunks[range.first_chunk + range.n_chunks - 1];
    return last.first_subtree + last.n_subtrees;
  }

  // Nobody can foretell which of a subtree's counts is 0, hence no branch.
  template <class Count>
  void keep(const ChunkRange& range, const std::vector<int64_t>& count, std::vector<Count>& counts) {
    for (int64_t s = first_subtree(range); s < end_subtree(range); ++s) {
      const Subtree& subtree = planned_.plan().subtrees[s];
      const int64_t* of_state = count.data() + subtree.first_vector - range.first_vector;
      size_t n = states_.size();
      states_.resize(n + subtree.n_states), counts.resize(n + subtree.n_states);
      for (int32_t state = 0; state < subtree.n_states; ++state) {
        states_[n] = uint16_t(state), counts[n] = Count(of_state[state]);
        n += of_state[state] != 0;
      }
      states_.resize(n), counts.resize(n);
      first_.push_back(int64_t(n));
    }
  }

  // Counts of a range's subtrees; `counts` is to hold them.
  SeenCounts seen(const ChunkRange& range, std::vector<int64_t>& counts) const {
    const int64_t *first = first_.data() + first_subtree(range), end = first_[end_subtree(range)];
    if (!is_few_) return {first, states_.data() + *first, many_.data() + *first};
    counts.assign(few_.begin() + *first, few_.begin() + end);
    return {first, states_.data() + *first, counts.data()};
  }
};

}  // namespace silva
