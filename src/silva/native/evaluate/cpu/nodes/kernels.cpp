// The kernels with splits in lanes of one instruction set. CMake compiles this file once an instruction set
// (SILVA_NODE_ISA), as it does common/kernels.cpp and under the same rule: internal linkage for all but the table.
#include "common/lanes.h"
#include "evaluate/cpu/nodes/schedule.h"

#define SILVA_TEXT_(a) #a
#define SILVA_TEXT(a) SILVA_TEXT_(a)

namespace silva {
extern const NodeKernels SILVA_NODE_ISA;
const NodeKernels SILVA_NODE_ISA = {
    SILVA_TEXT(SILVA_NODE_ISA),
#if defined(__AVX512VBMI__)
    1,
#else
    0,
#endif
    in_registers,
    nodes_workspace,
    evaluate_nodes,
};
}  // namespace silva
