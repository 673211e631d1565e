// The kernels of the explanations for one instruction set, under the rule of common/instruction_set.h. SILVA_KERNELS
// names the table.
#include "explain/cpu/schedule.h"

namespace silva {
extern const ExplainKernels SILVA_KERNELS;
const ExplainKernels SILVA_KERNELS = {
    {ExplainLanes<float>::width, explain_workspace<float>, explain_values<float>, explain_interactions<float>},
    {ExplainLanes<double>::width, explain_workspace<double>, explain_values<double>, explain_interactions<double>},
};
}  // namespace silva
