// Tables beyond the budget: built anew for each call, a batch of chunks at a time. Of a background, how many rows are
// in which state is kept, which takes a fraction of the tables' memory.
#pragma once
#include <mutex>

#include "explain/tables/planned.h"

namespace silva {

template <class Real>
class RebuiltTables {
 public:
  RebuiltTables(PlannedTables<Real> planned, int64_t batch_bytes)
      : planned_(std::move(planned)),
        ranges_(planned_.ranges(std::max<int64_t>(1, batch_bytes / planned_.vector_bytes()))) {}
  // Of the same plan, to be counted anew.
  explicit RebuiltTables(const RebuiltTables& other) : planned_(other.planned_), ranges_(other.ranges_) {}

  void count(const RowSource& rows, std::span<const int64_t> weight, int64_t total, int n_threads) {
    total_ = double(total);
    is_few_ = total < (int64_t(1) << 32);
    first_.assign(1, 0);
    states_.clear(), few_.clear(), many_.clear();
    for (const ChunkRange& range : ranges_) keep(range, planned_.count(range, rows, weight, n_threads));
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
    constexpr int64_t kStates = 8;  // of a subtree for each row of few, so that to find those that rows are in pays
    const bool has_few_rows = task.rows.n_rows * kStates * n_subtrees() <= planned_.plan().n_vectors;
    const BatchMemory memory(*this);
    Real* table = reinterpret_cast<Real*>(memory.data());
    task.adds = true;
    planned_.pass_ranges(task, ranges_, table, n_threads, [&](const ChunkRange& range) {
      if (!first_.empty()) return planned_.fill_by_counts(range, counts_of(range), total_, range, table, n_threads);
      if (!has_few_rows) return planned_.fill_by_covers(range, table, n_threads);
      const std::vector<uint16_t> keys = planned_.keys(task, range, n_threads);
      planned_.fill_by_covers(range, table, n_threads, keys.data(), task.rows.n_rows);
    });
  }

 private:
  PlannedTables<Real> planned_;
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

  int64_t batch_size() const {
    int64_t most = 0;
    for (const ChunkRange& range : ranges_) most = std::max(most, range.n_vectors);
    return most * planned_.vector_bytes();
  }

  template <class Visit>
  void each_subtree(const ChunkRange& range, const Visit& visit) const {
    const auto& plan = planned_.plan();
    const TableChunk &first = plan.chunks[range.first_chunk],
                     &last = plan.chunks[range.first_chunk + range.n_chunks - 1];
    for (int64_t s = first.first_subtree; s < last.first_subtree + last.n_subtrees; ++s) visit(s, plan.subtrees[s]);
  }

  void keep(const ChunkRange& range, const std::vector<int64_t>& count) {
    each_subtree(range, [&](int64_t, const Subtree& subtree) {
      const int64_t* of_state = count.data() + subtree.first_vector - range.first_vector;
      for (int32_t state = 0; state < subtree.n_states; ++state) {
        if (of_state[state] == 0) continue;
        states_.push_back(uint16_t(state));
        if (is_few_)
          few_.push_back(uint32_t(of_state[state]));
        else
          many_.push_back(of_state[state]);
      }
      first_.push_back(int64_t(states_.size()));
    });
  }

  std::vector<int64_t> counts_of(const ChunkRange& range) const {
    std::vector<int64_t> count(range.n_vectors, 0);
    each_subtree(range, [&](int64_t s, const Subtree& subtree) {
      int64_t* of_state = count.data() + subtree.first_vector - range.first_vector;
      for (int64_t i = first_[s]; i < first_[s + 1]; ++i) of_state[states_[i]] = is_few_ ? few_[i] : many_[i];
    });
    return count;
  }
};

}  // namespace silva
