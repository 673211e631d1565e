// What reads the training rows for the search: sums, samples and thresholds. The CPU does it in grow/cpu/row_source.h,
// GPUs in grow/cuda/host/row_source.h.
#pragma once
#include <functional>
#include <limits>
#include <vector>

#include "grow/data/columns.h"
#include "grow/tasks/task_runner.h"

namespace glasswood {

// The rows of a box by leaf of the subtree at `top`. `wanted` marks leaves whose sums are asked for, and the splits
// above them.
struct LeafRequest {
  const Box* box;
  const GrowTree* tree;
  int top;
  const std::vector<char>* wanted;
  const std::vector<int64_t>* least = nullptr;  // by node: fewer rows and the request fails
  const std::vector<int64_t>* most = nullptr;   // by node: with more rows the sums may be left out
  bool spares_largest = false;                  // the sums of the largest wanted leaf may be left out
  int64_t n_rows = -1;                          // of the wanted leaves together, -1 if unknown
  const std::vector<Box>* boxes = nullptr;      // by node, where n_rows is known
};

// The best threshold of a split whose subtrees stay as they are.
struct ThresholdRequest {
  const Box* box;  // of the node
  int feature;
  bool missing_left;
  const GrowTree* tree;
  int left, right;                // subtrees below the split; may be the same node
  const RowList* rows = nullptr;  // of the node or a sample of them; null: those of the box
  bool coarse = false;            // one look at the grid tells enough
  bool adjusted = false;          // scale errors by (n + k) / (n - k), for models that have yet to be thinned out
};

struct FoundThreshold {
  int32_t threshold = -1;  // -1: no threshold leaves enough rows everywhere
  double error = std::numeric_limits<double>::infinity();
};

class TrainingRowSource {
 public:
  virtual ~TrainingRowSource() = default;
  // Answers in s.sums; returns the first leaf that has fewer rows than it needs, or -1.
  virtual int sum_leaves(const LeafRequest& request, Scratch& s) const = 0;
  // Every stride-th row of a box in an order that the box alone decides, stride = rows of the box / most + 1, which it
  // returns.
  virtual int64_t sample(const Box& box, int64_t most, RowList& rows) const = 0;
  virtual FoundThreshold best_threshold(const ThresholdRequest& request, Scratch& s) const = 0;
  // Lends the paper's evaluation of one tree.
  virtual void evaluate_by_qr(const std::function<void(PaperEvaluation&)>& evaluate, Scratch& s) const = 0;
};

}  // namespace glasswood
