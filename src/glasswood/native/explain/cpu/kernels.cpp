// The kernels of the explanations for one instruction set, under the rule of common/instruction_set.h.
// GLASSWOOD_KERNELS names the table.
#include "explain/cpu/row_walk.h"
#include "explain/cpu/schedule.h"

namespace glasswood {
extern const ExplainKernels GLASSWOOD_KERNELS;
const ExplainKernels GLASSWOOD_KERNELS = {
    {ExplainLanes<float>::width, explain_workspace<float>, explain_values<float>, explain_interactions<float>,
     explain_row_by_trees<float>},
    {ExplainLanes<double>::width, explain_workspace<double>, explain_values<double>, explain_interactions<double>,
     explain_row_by_trees<double>},
};
}  // namespace glasswood
