// The kernels of explanations for this process's instruction set.
#pragma once
#include "common/instruction_set.h"
#include "explain/cpu/task.h"

namespace glasswood {

GLASSWOOD_KERNEL_TABLES(ExplainKernels, explain)

template <class Real>
const TypedExplainKernels<Real>& explain_kernels() {
  const ExplainKernels& table = kernels_of(explain_tables);
  if constexpr (sizeof(Real) == sizeof(float))
    return table.single;
  else
    return table.twice;
}

}  // namespace glasswood
