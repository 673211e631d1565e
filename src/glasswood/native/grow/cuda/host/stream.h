// One stream of a GPU: answers a round's requests to one part of the rows at a time, batch after batch.
#pragma once
#include <array>
#include <optional>
#include <set>

#include "grow/cuda/host/batch.h"

namespace glasswood {

class GpuStream {
 public:
  GpuStream(const StreamHandles& handles, const CudaDriver& driver, int width)
      : h_(handles), stream_(driver, handles.stream, handles.gpu), packet_(handles.packet), width_(width) {}

  bool is_busy() const { return part_ != nullptr; }
  void enter() const { stream_.enter(); }

  // Launches as many of the requests to part `p` as the buffers hold, behind the copies that the part needs.
  void begin(const GpuPart& part, int p, const GpuRequests& requests) {
    part_ = &part, p_ = p, requests_ = &requests;
    next_ = {};
    enter();
    if (part.z_host) copy_part_in();
    launch_batch();
  }

  // Waits for what is under way, adds it to the answers and launches what is left.
  void go_on(ThreadPool* pool) {
    enter();
    stream_.synchronize();
    batch_->take_answers(pool);
    if (is_done())
      part_ = nullptr;
    else
      launch_batch();
  }

  // Waits for whatever is under way after another stream has failed.
  void abandon() {
    stream_.abandon();
    part_ = nullptr;
  }

 private:
  static constexpr int64_t kBlocksOfProcessor = 8;  // and more, so that all end at about the same time

  bool is_done() const {
    size_t n_all = 0, n_done = 0;
    std::apply([&](const auto&... kind) { ((n_all += kind.size()), ...); }, requests_->kinds());
    for (const size_t next : next_) n_done += next;
    return n_done == n_all;
  }

  // A kind of requests goes in when all of those before it have.
  void launch_batch() {
    batch_.emplace(h_, *part_, p_, width_, rows_per_block());
    bool fits = true;
    const auto fill = [&](const auto& kind, size_t& next) {
      while (fits && next < kind.size()) {
        fits = !concerns(*kind[next], p_) || batch_->add(*kind[next]);
        next += fits;
      }
    };
    [&]<size_t... I>(std::index_sequence<I...>) {
      (fill(std::get<I>(requests_->kinds()), next_[I]), ...);
    }(std::make_index_sequence<GpuRequests::kKinds>{});
    batch_->launch(stream_, packet_);
  }

  // Blocks large enough to sum many rows of a leaf and for their partial sums to fit, small enough to keep all
  // processors busy.
  int rows_per_block() const {
    constexpr int kRowsPerColumn = 16;
    const std::vector<SumRequest*>& sums = requests_->sums;
    const size_t begin = next_[GpuRequests::kSums];
    int64_t total = 0;
    for (size_t i = begin; i < sums.size(); ++i) total += count_of(sums[i]->source);
    const auto fits = [&](int size) {
      for (size_t i = begin; i < sums.size(); ++i) {
        const int64_t n_blocks = Batch::blocks_of(count_of(sums[i]->source), size);
        if (size_t(Batch::partials_of(n_blocks, sums[i]->n_slots, h_.stride)) > h_.n_partials) return false;
      }
      return true;
    };
    int size = most_rows(h_.stride);
    const int least = std::max(kBlockThreads, kRowsPerColumn * width_);
    const int64_t wanted = kBlocksOfProcessor * h_.n_processors;
    while (size > least && total / size < wanted && fits(size / 2)) size /= 2;
    return size;
  }

  int64_t count_of(const RowsByPart& source) const { return source.parts[p_].count; }

  // What this round's requests read of the part.
  void copy_part_in() {
    std::set<int> ranks, orders;
    bool sums = false;
    const auto add = [&](const RowsByPart& source, const std::vector<RouteInterval>& intervals) {
      if (source.ordered_by >= 0) orders.insert(source.ordered_by);
      for (const RouteInterval& interval : intervals) ranks.insert(interval.feature);
    };
    for (const ListRequest* list : requests_->lists) {
      if (!count_of(list->source)) continue;
      add(list->source, list->intervals);
      if (list->feature >= 0) ranks.insert(list->feature);
    }
    for (const SumRequest* sum : requests_->sums) {
      if (!count_of(sum->source)) continue;
      add(sum->source, sum->intervals);
      for (const RouteNode& node : sum->nodes)
        if (node.feature >= 0) ranks.insert(node.feature);
      sums = true;
    }
    const int64_t bytes = part_->n_rows * sizeof(int32_t);
    for (const int a : ranks)
      stream_.copy_in(part_->ranks + a * bytes, part_->ranks_host + a * part_->ranks_host_step, bytes);
    for (const int a : orders) stream_.copy_in(part_->order + a * bytes, part_->order_host + a * bytes, bytes);
    if (sums) stream_.copy_in(part_->z, part_->z_host, part_->z_bytes);
  }

  StreamHandles h_;
  CudaStream stream_;
  Packet packet_;
  int width_;
  const GpuPart* part_ = nullptr;  // what is under way
  int p_ = 0;
  const GpuRequests* requests_ = nullptr;
  std::array<size_t, GpuRequests::kKinds> next_{};
  std::optional<Batch> batch_;
};

}  // namespace glasswood
