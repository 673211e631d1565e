// Collects what the tasks of a phase ask a GPU, and answers all of it by one round of launches.
#pragma once
#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/thread_pool.h"
#include "grow/gpu_driver.h"
#include "grow/reader.h"
#include "grow/route.h"

namespace silva {

// Addresses of buffers and kernels: device memory, but for `packet_host` and `results`, which are pinned host memory
// that the GPU writes to.
struct GpuHandles {
  uint64_t z, ranks, order, packet, packet_host, results, parts, part_counts, stream;
  uint64_t sum_rows, add_parts, count_rows, list_rows, find_cuts;
  size_t packet_bytes, results_bytes, n_parts;
  int n_processors;
  int64_t core_work;            // requests of less than this many multiplications are answered by the cores
  std::vector<uint64_t> lists;  // each holds rows and ranks: 8 bytes a row
};

// Sums over one source; the nodes are its own. Slots are numbered within the request.
struct SumQuestion {
  SumRequest request{};
  std::vector<RouteInterval> intervals;
  std::vector<RouteNode> nodes;
  std::vector<const ModelColumns*> columns;  // by slot: those of the answer; empty: all
  std::vector<LeafSums> answer;              // by slot
};

struct ListQuestion {
  ListRequest request{};
  std::vector<RouteInterval> intervals;
  int64_t total = 0;
};

struct CutsQuestion {
  CutsRequest request{};
  CutsAnswer answer{};
};

struct ReadQuestion {
  void* to;
  uint64_t from;
  size_t bytes;
};

struct GpuQuestions {
  std::vector<SumQuestion*> sums;
  std::vector<ListQuestion*> lists;
  std::vector<CutsQuestion*> cuts;
  std::vector<ReadQuestion*> reads;

  bool empty() const { return sums.empty() && lists.empty() && cuts.empty() && reads.empty(); }
  void add(const GpuQuestions& other) {
    sums.insert(sums.end(), other.sums.begin(), other.sums.end());
    lists.insert(lists.end(), other.lists.begin(), other.lists.end());
    cuts.insert(cuts.end(), other.cuts.begin(), other.cuts.end());
    reads.insert(reads.end(), other.reads.begin(), other.reads.end());
  }
};

class GpuQueue {
 public:
  GpuQueue(const GpuHandles& handles, const CudaDriver& driver, int64_t n_rows, int width)
      : h_(handles), driver_(driver), n_rows_(n_rows), width_(width) {}

  const GpuHandles& handles() const { return h_; }
  // Threads that may help to copy results.
  void share_with(ThreadPool* pool) { pool_ = pool; }

  void answer(const GpuQuestions& questions) {
    for (const ReadQuestion* read : questions.reads)
      driver_.check(driver_.copy_out(read->to, read->from, read->bytes, stream()));
    if (!questions.reads.empty()) driver_.check(driver_.synchronize(stream()));
    if (!questions.cuts.empty()) answer_cuts(questions.cuts);
    if (!questions.lists.empty()) answer_lists(questions.lists);
    for (size_t first = 0; first < questions.sums.size();) first = answer_sums(questions.sums, first);
  }

 private:
  void* stream() const { return reinterpret_cast<void*>(h_.stream); }
  GpuRows rows() const {
    return {reinterpret_cast<const double*>(h_.z), reinterpret_cast<const int32_t*>(h_.ranks), n_rows_};
  }

  // Part of the packet that goes to the device, returned as its address there.
  template <class T>
  const T* pack(const std::vector<T>& records) {
    const size_t at = (packed_bytes_ + 15) / 16 * 16, bytes = records.size() * sizeof(T);
    if (at + bytes > h_.packet_bytes) throw std::length_error("a round of the search outgrew its packet");
    std::memcpy(reinterpret_cast<char*>(h_.packet_host) + at, records.data(), bytes);
    packed_bytes_ = at + bytes;
    return reinterpret_cast<const T*>(h_.packet + at);
  }

  void send() {
    const void* host = reinterpret_cast<const void*>(h_.packet_host);
    driver_.check(driver_.copy_in(h_.packet, host, packed_bytes_, stream()));
    packed_bytes_ = 0;
  }

  template <class... Arguments>
  void launch(uint64_t kernel, unsigned blocks, unsigned threads, Arguments... arguments) {
    void* pointers[] = {&arguments...};
    driver_.check(
        driver_.launch(reinterpret_cast<void*>(kernel), blocks, 1, 1, threads, 1, 1, 0, stream(), pointers, nullptr));
  }

  void answer_cuts(const std::vector<CutsQuestion*>& questions) {
    std::vector<CutsRequest> requests;
    for (const CutsQuestion* question : questions) requests.push_back(question->request);
    const CutsRequest* sent = pack(requests);
    send();
    auto* answers = reinterpret_cast<CutsAnswer*>(h_.results);
    launch(h_.find_cuts, unsigned(requests.size()), kGrid, sent, answers);
    driver_.check(driver_.synchronize(stream()));
    for (size_t i = 0; i < questions.size(); ++i) questions[i]->answer = answers[i];
  }

  void answer_lists(const std::vector<ListQuestion*>& questions) {
    std::vector<ListRequest> requests;
    std::vector<RouteInterval> intervals;
    int32_t n_blocks = 0;
    for (ListQuestion* question : questions) {
      ListRequest& request = question->request;
      request.first_interval = int32_t(intervals.size()), request.n_intervals = int32_t(question->intervals.size());
      request.first_block = n_blocks;
      request.n_blocks = std::max<int32_t>(1, int32_t((request.source.count + kListTile - 1) / kListTile));
      n_blocks += request.n_blocks;
      intervals.insert(intervals.end(), question->intervals.begin(), question->intervals.end());
      requests.push_back(request);
    }
    const ListRequest* sent = pack(requests);
    const RouteInterval* sent_intervals = pack(intervals);
    send();
    auto* counts = reinterpret_cast<int32_t*>(h_.part_counts);
    auto* totals = reinterpret_cast<int32_t*>(h_.results);
    const int n = int(requests.size());
    launch(h_.count_rows, n_blocks, kBlockThreads, rows(), sent, n, sent_intervals, counts);
    launch(h_.list_rows, n_blocks, kBlockThreads, rows(), sent, n, sent_intervals, counts, totals);
    driver_.check(driver_.synchronize(stream()));
    for (size_t i = 0; i < questions.size(); ++i) questions[i]->total = totals[i];
  }

  static int32_t blocks_of(const SumRequest& request, int rows_per_block) {
    return std::max<int32_t>(1, int32_t((request.source.count + rows_per_block - 1) / rows_per_block));
  }

  // Blocks large enough to sum many rows of a leaf and for their partial sums to fit, small enough to keep all
  // processors busy.
  int rows_per_block(const std::vector<SumQuestion*>& questions, size_t first) const {
    constexpr int kRowsPerColumn = 16;
    int64_t total = 0;
    for (size_t i = first; i < questions.size(); ++i) total += questions[i]->request.source.count;
    const auto fits = [&](int size) {
      for (size_t i = first; i < questions.size(); ++i) {
        const SumRequest& request = questions[i]->request;
        if (size_t(blocks_of(request, size)) * request.n_slots > h_.n_parts) return false;
      }
      return true;
    };
    int size = kMostRows;
    const int least = std::max(kBlockThreads, kRowsPerColumn * width_);
    while (size > least && total / size < 4 * h_.n_processors && fits(size / 2)) size /= 2;
    return size;
  }

  // What goes to the GPU for the sums of a round.
  struct SumPacket {
    std::vector<SumRequest> requests;
    std::vector<RouteInterval> intervals;
    std::vector<RouteNode> nodes;
    std::vector<SlotResult> slots;
    std::vector<int32_t> columns;
    std::unordered_map<const ModelColumns*, int32_t> first_columns;
    int64_t n_parts = 0, n_results = 0;  // partial sums; numbers that come back
    int32_t n_blocks = 0;

    size_t bytes() const {
      return requests.size() * sizeof(SumRequest) + intervals.size() * sizeof(RouteInterval) +
             nodes.size() * sizeof(RouteNode) + slots.size() * sizeof(SlotResult) + columns.size() * sizeof(int32_t);
    }
  };

  static size_t width_of(const SumQuestion& question, int slot, int width) {
    return question.columns.empty() ? size_t(width) : size_t(question.columns[slot]->width());
  }

  bool fits(const SumPacket& packet, const SumQuestion& question, int n_blocks) const {
    size_t n_results = size_t(packet.n_results), bytes = packet.bytes() + 128;
    for (int slot = 0; slot < question.request.n_slots; ++slot) {
      const size_t width = width_of(question, slot, width_);
      n_results += 1 + packed_size(int(width));
      bytes += sizeof(SlotResult) + width * sizeof(int32_t);
    }
    bytes += sizeof(SumRequest) + question.intervals.size() * sizeof(RouteInterval) +
             question.nodes.size() * sizeof(RouteNode);
    return n_results * sizeof(double) <= h_.results_bytes && bytes <= h_.packet_bytes &&
           size_t(packet.n_parts) + size_t(n_blocks) * question.request.n_slots <= h_.n_parts;
  }

  // Where the columns of a slot stand in the packet, those of all slots first.
  static int32_t first_column(SumPacket& packet, const ModelColumns* columns) {
    if (!columns || columns->is_all()) return 0;
    const auto [found, is_new] = packet.first_columns.emplace(columns, int32_t(packet.columns.size()));
    if (is_new) packet.columns.insert(packet.columns.end(), columns->taken().begin(), columns->taken().end());
    return found->second;
  }

  void add(SumPacket& packet, SumQuestion& question, int n_blocks) const {
    SumRequest& r = question.request;
    r.n_blocks = n_blocks;
    r.first_part = packet.n_parts, r.first_block = packet.n_blocks, r.first_slot = int32_t(packet.slots.size());
    r.first_interval = int32_t(packet.intervals.size()), r.n_intervals = int32_t(question.intervals.size());
    r.first_node = int32_t(packet.nodes.size()), r.n_nodes = int32_t(question.nodes.size());
    packet.n_parts += int64_t(r.n_blocks) * r.n_slots, packet.n_blocks += r.n_blocks;
    packet.intervals.insert(packet.intervals.end(), question.intervals.begin(), question.intervals.end());
    packet.nodes.insert(packet.nodes.end(), question.nodes.begin(), question.nodes.end());
    packet.requests.push_back(r);
    for (int slot = 0; slot < r.n_slots; ++slot) {
      const size_t width = width_of(question, slot, width_);
      const ModelColumns* columns = question.columns.empty() ? nullptr : question.columns[slot];
      packet.slots.push_back({packet.n_results, first_column(packet, columns), int32_t(width)});
      packet.n_results += 1 + int64_t(packed_size(int(width)));
    }
  }

  // As many questions as the buffers hold; returns the first that is left.
  size_t answer_sums(const std::vector<SumQuestion*>& questions, size_t first) {
    const int size = rows_per_block(questions, first);
    SumPacket packet;
    packet.columns.resize(width_);
    std::iota(packet.columns.begin(), packet.columns.end(), 0);
    size_t last = first;
    for (; last < questions.size(); ++last) {
      const int n_blocks = blocks_of(questions[last]->request, size);
      if (!fits(packet, *questions[last], n_blocks)) break;
      add(packet, *questions[last], n_blocks);
    }
    if (last == first) throw std::length_error("a request of the search outgrew the buffers on the GPU");
    run_sums(packet, size);
    const auto take = [&](int i, int) { take_sums(*questions[first + i], packet); };
    if (pool_ && packet.n_results >= kSharedCopy)
      pool_->run(int(last - first), take);
    else
      for (int i = 0; i < int(last - first); ++i) take(i, 0);
    return last;
  }

  void run_sums(const SumPacket& packet, int rows_per_block) {
    const SumRequest* sent = pack(packet.requests);
    const RouteInterval* sent_intervals = pack(packet.intervals);
    const RouteNode* sent_nodes = pack(packet.nodes);
    const SlotResult* sent_slots = pack(packet.slots);
    const int32_t* sent_columns = pack(packet.columns);
    send();
    auto* counts = reinterpret_cast<int32_t*>(h_.part_counts);
    auto* parts = reinterpret_cast<double*>(h_.parts);
    auto* results = reinterpret_cast<double*>(h_.results);
    const int n = int(packet.requests.size());
    launch(h_.sum_rows, packet.n_blocks, kBlockThreads, rows(), sent, n, sent_intervals, sent_nodes, rows_per_block,
           counts, parts);
    launch(h_.add_parts, unsigned(packet.slots.size()), kBlockThreads, sent, n, counts, parts, sent_slots, sent_columns,
           results);
    driver_.check(driver_.synchronize(stream()));
  }

  void take_sums(SumQuestion& question, const SumPacket& packet) const {
    question.answer.resize(question.request.n_slots);
    for (int slot = 0; slot < question.request.n_slots; ++slot) {
      const SlotResult& from = packet.slots[question.request.first_slot + slot];
      const double* result = reinterpret_cast<const double*>(h_.results) + from.first;
      question.answer[slot].n_rows = int64_t(result[0]);
      question.answer[slot].gram.assign(result + 1, result + 1 + packed_size(from.n_columns));
    }
  }

  static constexpr int64_t kSharedCopy = 1 << 17;  // numbers that several threads copy sooner than one
  GpuHandles h_;
  CudaDriver driver_;
  int64_t n_rows_;
  int width_;
  size_t packed_bytes_ = 0;
  ThreadPool* pool_ = nullptr;
};

}  // namespace silva
