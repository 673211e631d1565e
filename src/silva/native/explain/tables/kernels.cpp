// The kernels of subtree tables for one instruction set, under the rule of common/instruction_set.h. SILVA_KERNELS
// names the table.
#include "explain/tables/build.h"
#include "explain/tables/pass.h"
#include "explain/tables/row.h"

namespace silva {
extern const TableKernels SILVA_KERNELS;
const TableKernels SILVA_KERNELS = {
    {build_workspace<float>, build_tables<float>, pass_workspace<float>, pass_all<float>, explain_row<float>},
    {build_workspace<double>, build_tables<double>, pass_workspace<double>, pass_all<double>, explain_row<double>},
};
}  // namespace silva
