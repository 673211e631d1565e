// The kernels of the evaluation for one instruction set, under the rule of common/instruction_set.h. GLASSWOOD_KERNELS
// names the table.
#include "evaluate/cpu/schedule.h"

namespace glasswood {
extern const EvaluateKernels GLASSWOOD_KERNELS;
const EvaluateKernels GLASSWOOD_KERNELS = {kRowTile, kTiles, evaluate_workspace, evaluate};
}  // namespace glasswood
