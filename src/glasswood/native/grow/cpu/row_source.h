// Rows that the CPU reads.
#pragma once
#include "grow/data/limits.h"
#include "grow/sums/row_source.h"

namespace glasswood {

class CpuRowSource : public TrainingRowSource {
 public:
  CpuRowSource(const GrowData& data, const GrowLimits& limits, TaskRunner& tasks)
      : data_(data), limits_(limits), tasks_(tasks), kernels_(grow_kernels()) {}

  const GrowData& data() const { return data_; }
  const GrowLimits& limits() const { return limits_; }
  TaskRunner& tasks() const { return tasks_; }

  int sum_leaves(const LeafRequest& request, Scratch& s) const override;
  int64_t sample(const Box& box, int64_t most, RowList& rows) const override;
  FoundThreshold best_threshold(const ThresholdRequest& request, Scratch& s) const override;
  void evaluate_by_qr(const std::function<void(PaperEvaluation&)>& evaluate, Scratch& s) const override;

  void sum_rows(const int32_t* rows, int64_t count, double* gram, Scratch& s) const;
  // The same of some columns only, brought together a block at a time.
  void sum_rows(const int32_t* rows, int64_t count, const ModelColumns& columns, double* gram, Scratch& s) const;

 private:
  int sum_smaller(const LeafRequest& request, int first, int second, Scratch& s) const;
  int sort_by_leaf(const LeafRequest& request, int v, int64_t first, int64_t count, Scratch& s) const;
  void sum_wanted(const LeafRequest& request, Scratch& s) const;

  const GrowData& data_;
  const GrowLimits& limits_;
  TaskRunner& tasks_;
  const GrowKernels& kernels_;
};

}  // namespace glasswood
