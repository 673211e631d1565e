// Answers what the tasks of a phase ask the GPUs by one round of launches: all GPUs work at the same time, and of parts
// that stream the next one is copied while the last one is summed.
#pragma once
#include <algorithm>
#include <numeric>
#include <vector>

#include "grow/cuda/host/stream.h"

namespace glasswood {

class GpuQueue {
 public:
  GpuQueue(const std::vector<StreamHandles>& streams, const CudaDriver& driver, const GrowData& data,
           std::vector<GpuPart> parts)
      : parts_(data, std::move(parts)), width_(data.width), next_(streams.size()) {
    for (const StreamHandles& handles : streams) streams_.emplace_back(handles, driver, data.width);
  }

  const GpuParts& parts() const { return parts_; }
  // Streams are waited for in turn, never for whichever is ready: partial sums are added in an order that depends on
  // the division of the rows alone. Threads of the pool, which may be null, help to begin and to add up answers.
  void answer(const GpuRequests& requests, ThreadPool* pool) {
    if (requests.empty()) return;
    assign(requests);
    for (SumRequest* sum : requests.sums) sum->answer.assign(sum->n_slots, {}), sum->has_sums = false;
    for (ListRequest* list : requests.lists) {
      list->totals.assign(parts_.size(), 0);
      list->counts.assign(parts_.size(), std::vector<int32_t>(std::max(list->n_cells - 1, 0), 0));
    }
    for (CountRequest* count : requests.counts)
      for (const auto& [first, last] : count->positions)
        count->counts.emplace_back(count->n_cells - 1, first);  // true where there are no rows between them
    try {
      run(requests, pool);
    } catch (...) {
      for (GpuStream& stream : streams_) stream.abandon();
      streams_[0].enter();
      throw;
    }
    if (streams_.size() > 1) streams_[0].enter();
    for (SumRequest* sum : requests.sums)
      if (!sum->has_sums && !sum->kept) clear(*sum);
  }

 private:
  // Has copies answer what does not belong to a list of one of them: who has the fewest rows of this round to gather so
  // far, and each some of the rows that are read one behind the other, so that all end at about the same time.
  void assign(const GpuRequests& requests) {
    std::vector<int64_t> gathered(parts_.size(), 0);
    const auto count = [&](const RowsByPart& rows) {
      for (int p = 0; p < int(rows.parts.size()); ++p) gathered[p] += rows.parts[p].count;
    };
    const auto least = [&] { return int(std::min_element(gathered.begin(), gathered.end()) - gathered.begin()); };
    const auto give = [&](RowsByPart& rows) {
      if (!rows.parts.empty()) return;
      parts_.assign(rows, least());
      count(rows);
    };
    for (const ListRequest* list : requests.lists) count(list->source);
    for (const SumRequest* sum : requests.sums) count(sum->source);
    for (ListRequest* list : requests.lists) give(list->source);
    std::vector<SumRequest*> scans;
    for (SumRequest* sum : requests.sums)
      if (sum->source.parts.empty() && sum->source.ordered_by < 0)
        scans.push_back(sum);
      else
        give(sum->source);
    for (GridRequest* grid : requests.grids) {
      grid->part = least();
      gathered[grid->part] += int64_t(grid->rows->size());
    }
    int64_t n_scanned = 0;
    for (const SumRequest* scan : scans) n_scanned += scan->source.count;
    const std::vector<double> shares = shares_of(gathered, n_scanned);
    for (SumRequest* scan : scans) parts_.divide(scan->source, shares);
  }

  // What each is to scan beside what it gathers: nobody who has more than the average to do, the others what evens all
  // out.
  static std::vector<double> shares_of(const std::vector<int64_t>& gathered, int64_t n_scanned) {
    constexpr double kGathering = 2;  // rows in a row that take as long as one that is gathered
    std::vector<double> shares(gathered.size(), 1.0 / double(gathered.size()));
    std::vector<int> order(gathered.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return gathered[a] < gathered[b]; });
    double work = double(n_scanned), level = 0;
    size_t n = 0;
    for (; n < order.size() && (n == 0 || kGathering * double(gathered[order[n]]) < level); ++n) {
      work += kGathering * double(gathered[order[n]]);
      level = work / double(n + 1);
    }
    for (size_t i = 0; n_scanned && i < order.size(); ++i)
      shares[order[i]] = i < n ? (level - kGathering * double(gathered[order[i]])) / double(n_scanned) : 0;
    return shares;
  }

  // Sums of rows that no part has.
  void clear(SumRequest& request) const {
    if (request.sums) {
      std::fill_n(request.sums, request.n_entries(width_), 0.0);
      return;
    }
    for (int slot = 0; slot < request.n_slots; ++slot)
      request.answer[slot].gram.assign(packed_size(request.width(slot, width_)), 0.0);
  }

  void run(const GpuRequests& requests, ThreadPool* pool) {
    std::fill(next_.begin(), next_.end(), 0);
    const auto begin = [&](int s, int) { begin_next(size_t(s), requests); };
    const int n = int(streams_.size());
    if (n > 1 && pool)
      pool->run(n, begin);
    else
      for (int s = 0; s < n; ++s) begin(s, 0);
    for (bool is_busy = true; is_busy;) {
      is_busy = false;
      for (size_t s = 0; s < streams_.size(); ++s) {
        if (!streams_[s].is_busy()) continue;
        streams_[s].go_on(pool);
        if (!streams_[s].is_busy()) begin_next(s, requests);
        is_busy = true;
      }
    }
  }

  void begin_next(size_t s, const GpuRequests& requests) {
    for (int& p = next_[s]; p < parts_.size() && !streams_[s].is_busy(); ++p)
      if (parts_[p].stream == int(s) && concerns(requests, p)) streams_[s].begin(parts_[p], p, requests);
  }

  GpuParts parts_;
  int width_;
  std::vector<GpuStream> streams_;
  std::vector<int> next_;  // part, by stream
};

}  // namespace glasswood
