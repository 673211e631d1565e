// The kernels with splits in lanes for one instruction set, under the rule of common/instruction_set.h.
// GLASSWOOD_KERNELS names the table.
#include "evaluate/cpu/nodes/moved_values.h"
#include "evaluate/cpu/nodes/schedule.h"

namespace glasswood {
extern const NodeKernels GLASSWOOD_KERNELS;
const NodeKernels GLASSWOOD_KERNELS = {kRegisters<uint8_t>, kVectorBytes,    in_registers,  nodes_workspace,
                                       evaluate_nodes,      moved_workspace, evaluate_moved};
}  // namespace glasswood
