// The kernel of effects for one instruction set, under the rule of common/instruction_set.h. SILVA_KERNELS names the
// table.
#include "inspection/count.h"

namespace silva {
extern const InspectionKernels SILVA_KERNELS;
namespace {

int64_t workspace_of(const CountTask& task) { return Counter(task, Arena{nullptr}).workspace(); }

void count(const CountTask& task) {
  Counter counter(task, Arena{task.workspace});
  for (int32_t row = 0; row < task.n_rows; row += kBlockRows) counter.count_block(row);
}

}  // namespace
const InspectionKernels SILVA_KERNELS = {workspace_of, count};
}  // namespace silva
