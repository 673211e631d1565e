// The kernels with splits in lanes for one instruction set, under the rule of common/instruction_set.h. SILVA_KERNELS
// names the table.
#include "evaluate/cpu/nodes/moved_values.h"
#include "evaluate/cpu/nodes/schedule.h"

namespace silva {
extern const NodeKernels SILVA_KERNELS;
const NodeKernels SILVA_KERNELS = {kRegisters<uint8_t>, kVectorBytes,    in_registers,  nodes_workspace,
                                   evaluate_nodes,      moved_workspace, evaluate_moved};
}  // namespace silva
