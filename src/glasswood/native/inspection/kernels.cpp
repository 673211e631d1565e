// The kernel of effects for one instruction set, under the rule of common/instruction_set.h. GLASSWOOD_KERNELS names
// the table.
#include "inspection/count.h"

namespace glasswood {
extern const InspectionKernels GLASSWOOD_KERNELS;
namespace {

int64_t workspace_of(const CountTask& task) { return Counter(task, Arena{nullptr}).workspace(); }

void count(const CountTask& task) {
  Counter counter(task, Arena{task.workspace});
  for (int32_t row = 0; row < task.n_rows; row += kBlockRows) counter.count_block(row);
}

}  // namespace
const InspectionKernels GLASSWOOD_KERNELS = {workspace_of, count};
}  // namespace glasswood
