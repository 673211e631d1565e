// The paper's own evaluation (section 4.3): every row is sent to its leaf, rows are brought together by leaf, every
// leaf is solved by a QR decomposition and the errors are summed in a pass over the rows.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "grow/data/tree.h"

namespace glasswood {

// The paper's six procedures, and what goes to a GPU and comes back.
enum Procedure { kTransfer, kRedistribute, kSeparate, kReorganise, kCalcModels, kEstimateErrors, kReduction };
constexpr int kProcedures = kReduction + 1;
constexpr const char* kProcedureNames[kProcedures] = {"transfer",    "redistribute",    "separate", "reorganise",
                                                      "calc_models", "estimate_errors", "reduction"};
using ProcedureSeconds = std::array<double, kProcedures>;

// Columns of z that a leaf's model uses, the intercept first.
using LeafColumns = std::vector<std::vector<int32_t>>;

class PaperEvaluation {
 public:
  virtual ~PaperEvaluation() = default;
  // Where the seconds of the next tree's procedures are added.
  void add_seconds_to(ProcedureSeconds& seconds) { seconds_ = &seconds; }
  // The leaf of every row.
  virtual void redistribute(const GrowTree& tree) = 0;
  // Rows of a leaf of that tree.
  virtual int64_t count(int leaf) const = 0;
  // By node: sums of squared residuals of the leaves' regressions on the given columns.
  virtual std::vector<double> errors(const LeafColumns& columns) = 0;

 protected:
  ProcedureSeconds* seconds_ = nullptr;
};

std::unique_ptr<PaperEvaluation> make_cpu_evaluation(const GrowData& data);

}  // namespace glasswood
