// Rows that GPUs read. What the CPU does sooner than a launch returns stays there.
#pragma once
#include <memory>

#include "grow/cpu/row_source.h"
#include "grow/cuda/host/queue.h"
#include "grow/tasks/fiber_scheduler.h"
#include "reference/grow/cuda/gpu.h"

namespace glasswood {

struct GpuSettings {
  int64_t cpu_work = 0;   // requests of less than this many multiplications are answered by the CPU
  int n_lists = 1;        // that the GPUs have room for
  int n_cells = 1;        // of ranks, at most, that a list's rows are counted in
  int sectors = 1;        // numbers in a row that cost as much as one that is gathered
  double solve_work = 0;  // errors at a grid of candidates that take fewer multiplications are the CPU's
};

class RankedList;

class GpuRowSource : public TrainingRowSource {
 public:
  GpuRowSource(const GrowData& data, const GrowLimits& limits, const GpuSettings& settings,
               std::unique_ptr<GpuQueue> queue, FiberScheduler& scheduler, std::unique_ptr<PaperEvaluation> paper)
      : data_(data),
        settings_(settings),
        queue_(std::move(queue)),
        scheduler_(scheduler),
        paper_(std::move(paper)),
        cpu_(data, limits, scheduler) {}

  const CpuRowSource& cpu() const { return cpu_; }
  const GpuParts& parts() const { return queue_->parts(); }
  const GpuSettings& settings() const { return settings_; }
  FiberScheduler& scheduler() const { return scheduler_; }

  int sum_leaves(const LeafRequest& request, Scratch& s) const override;
  int64_t sample(const Box& box, int64_t most, RowList& rows) const override;
  FoundThreshold best_threshold(const ThresholdRequest& request, Scratch& s) const override;
  // One tree after the other, in the order of the tasks.
  void evaluate_by_qr(const std::function<void(PaperEvaluation&)>& evaluate, Scratch& s) const override;

  // Multiplications that a row costs, about.
  int64_t work_of_row() const { return int64_t(packed_size(data_.width)) + 20; }
  // Whether so few rows are searched for a threshold that the CPU does it sooner.
  bool is_handed_over(int64_t n_rows) const {
    constexpr int64_t kRounds = 4;  // of launches that a threshold takes at least
    return 2 * n_rows * work_of_row() < kRounds * settings_.cpu_work;
  }

  ListRequest list_request(const FiberScheduler::List& list, RowsByPart source, const Box& box, int skipped_feature,
                           int feature) const;
  // What a threshold search asks of a list whose rows have ranks of this interval.
  std::unique_ptr<RankedList> ranked_list(const FiberScheduler::List& list, int feature,
                                          const Interval& interval) const;
  RowsByPart rows_of(const Interval& interval, bool with_missing) const {
    return parts().in_order(interval.feature, interval.low, interval.high, with_missing);
  }
  // Positions of a part's list.
  struct RowRange {
    int part;
    int64_t first, last;
  };
  // Rows as the search numbers them.
  void read_rows(const std::vector<RowRange>& ranges, int list, bool over_ranks, int32_t* rows) const;

 private:
  enum SourceUse { kGathered, kVisited };

  RowsByPart source_of(const Box& box, SourceUse use) const;
  int64_t sample_at_once(const RowsByPart& source, const Box& box, int32_t most, RowList& rows) const;
  int64_t sample_by_rank(const RowsByPart& source, const Box& box, int64_t most, RowList& rows) const;
  ListRequest every(int64_t stride, const FiberScheduler::List& list, const ListRequest& all) const;

  const GrowData& data_;
  const GpuSettings settings_;
  std::unique_ptr<GpuQueue> queue_;
  FiberScheduler& scheduler_;
  std::unique_ptr<PaperEvaluation> paper_;
  CpuRowSource cpu_;
};

std::vector<RouteInterval> intervals_of(const Box& box, int skipped_feature);
// The subtree at `top`; returns the number of slots.
int add_nodes(const GrowTree& tree, int top, const std::vector<char>* wanted, std::vector<RouteNode>& nodes);

}  // namespace glasswood
