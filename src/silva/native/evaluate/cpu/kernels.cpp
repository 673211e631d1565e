// The kernels of the evaluation for one instruction set, under the rule of common/instruction_set.h. SILVA_KERNELS
// names the table.
#include "evaluate/cpu/schedule.h"

namespace silva {
extern const EvaluateKernels SILVA_KERNELS;
const EvaluateKernels SILVA_KERNELS = {kRowTile, kTiles, evaluate_workspace, evaluate};
}  // namespace silva
