// Answers what the tasks of a phase ask the GPUs by one round of launches: all GPUs work at the same time, and of parts
// that stream the next one is copied while the last one is summed.
#pragma once
#include <algorithm>
#include <vector>

#include "grow/cuda/host/stream.h"

namespace silva {

class GpuQueue {
 public:
  GpuQueue(const std::vector<StreamHandles>& streams, const CudaDriver& driver, const GrowData& data,
           std::vector<GpuPart> parts)
      : parts_(data, std::move(parts)), width_(data.width), next_(streams.size()) {
    for (const StreamHandles& handles : streams) streams_.emplace_back(handles, driver, data.width);
  }

  const GpuParts& parts() const { return parts_; }
  // Threads that may help to add up answers.
  void share_with(ThreadPool* pool) {
    pool_ = pool;
    for (GpuStream& stream : streams_) stream.share_with(pool);
  }

  // Streams are waited for in turn, never for whichever is ready: partial sums are added in an order that depends on
  // the division of the rows alone.
  void answer(const GpuQuestions& questions) {
    if (questions.empty()) return;
    if (parts_.are_copies()) share_out(questions);
    for (SumQuestion* sum : questions.sums) sum->answer.assign(sum->n_slots, {}), sum->has_sums = false;
    for (ListQuestion* list : questions.lists) {
      list->totals.assign(parts_.size(), 0);
      list->counts.assign(parts_.size(), std::vector<int32_t>(std::max(list->n_cells - 1, 0), 0));
    }
    for (CountQuestion* count : questions.counts)
      for (const auto& [first, last] : count->positions)
        count->counts.emplace_back(count->n_cells - 1, first);  // true where there are no rows between them
    try {
      run(questions);
    } catch (...) {
      for (GpuStream& stream : streams_) stream.abandon();
      streams_[0].enter();
      throw;
    }
    if (streams_.size() > 1) streams_[0].enter();
    for (SumQuestion* sum : questions.sums)
      if (!sum->has_sums && !sum->kept) clear(*sum);
  }

 private:
  // Has copies answer what does not belong to a list of one of them: each some of all rows, or who has the fewest rows
  // of this round to gather so far.
  void share_out(const GpuQuestions& questions) {
    std::vector<int64_t> gathered(parts_.size(), 0);
    const auto count = [&](const RowsByPart& rows) {
      for (int p = 0; p < int(rows.parts.size()); ++p) gathered[p] += rows.parts[p].count;
    };
    const auto least = [&] { return int(std::min_element(gathered.begin(), gathered.end()) - gathered.begin()); };
    const auto give = [&](RowsByPart& rows) {
      if (!rows.parts.empty()) return;
      parts_.give(rows, least());
      count(rows);
    };
    for (const ListQuestion* list : questions.lists) count(list->source);
    for (const SumQuestion* sum : questions.sums) count(sum->source);
    for (ListQuestion* list : questions.lists) give(list->source);
    for (SumQuestion* sum : questions.sums)
      if (sum->source.parts.empty() && sum->source.ordered_by < 0)
        parts_.share_out(sum->source);
      else
        give(sum->source);
    for (GridQuestion* grid : questions.grids) {
      grid->part = least();
      gathered[grid->part] += int64_t(grid->rows->size());
    }
  }

  // Sums of rows that no part has.
  void clear(SumQuestion& question) const {
    if (question.sums) {
      std::fill_n(question.sums, question.n_entries(width_), 0.0);
      return;
    }
    for (int slot = 0; slot < question.n_slots; ++slot)
      question.answer[slot].gram.assign(packed_size(question.width(slot, width_)), 0.0);
  }

  void run(const GpuQuestions& questions) {
    std::fill(next_.begin(), next_.end(), 0);
    const auto begin = [&](int s, int) { begin_next(size_t(s), questions); };
    const int n = int(streams_.size());
    // Questions to several copies name no columns, whose places in a batch are noted where all streams see them.
    if (n > 1 && pool_ && parts_.are_copies())
      pool_->run(n, begin);
    else
      for (int s = 0; s < n; ++s) begin(s, 0);
    for (bool is_busy = true; is_busy;) {
      is_busy = false;
      for (size_t s = 0; s < streams_.size(); ++s) {
        if (!streams_[s].is_busy()) continue;
        streams_[s].go_on();
        if (!streams_[s].is_busy()) begin_next(s, questions);
        is_busy = true;
      }
    }
  }

  void begin_next(size_t s, const GpuQuestions& questions) {
    for (int& p = next_[s]; p < parts_.size() && !streams_[s].is_busy(); ++p)
      if (parts_[p].stream == int(s) && GpuStream::concerns(questions, p)) streams_[s].begin(parts_[p], p, questions);
  }

  GpuParts parts_;
  int width_;
  std::vector<GpuStream> streams_;
  std::vector<int> next_;  // part, by stream
  ThreadPool* pool_ = nullptr;
};

}  // namespace silva
