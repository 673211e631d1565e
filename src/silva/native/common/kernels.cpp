// The kernels of one instruction set. CMake compiles this file once an instruction set (SILVA_ISA); everything in it
// has internal linkage but its table, and it includes no library header with inline functions, so that code for a newer
// processor never replaces code for an older one at link time.
#include "common/lanes.h"
#include "common/vectors.h"

namespace silva {
namespace {
constexpr int kFloatLanes = kVectorBytes / 4;  // of the evaluation

// One row a lane, as a CUDA thread has it: the tests run the shared maths so.
#ifdef SILVA_SCALAR
constexpr bool kScalar = true;
#else
constexpr bool kScalar = false;
#endif
}  // namespace
}  // namespace silva

#include "evaluate/cpu/schedule.h"
#include "explain/cpu/schedule.h"

#define SILVA_JOIN_(a, b) a##b
#define SILVA_JOIN(a, b) SILVA_JOIN_(a, b)
#define SILVA_TEXT_(a) #a
#define SILVA_TEXT(a) SILVA_TEXT_(a)

namespace silva {
extern const KernelTable SILVA_JOIN(kernels_, SILVA_ISA);
const KernelTable SILVA_JOIN(kernels_, SILVA_ISA) = {
    SILVA_TEXT(SILVA_ISA),
    ExplainLanes<float>::width,
    ExplainLanes<double>::width,
    kRowTile,
    kTiles,
    evaluate_workspace,
    evaluate,
    explain_workspace<float>,
    explain_workspace<double>,
    explain_values<float>,
    explain_values<double>,
    explain_interactions<float>,
    explain_interactions<double>,
};
}  // namespace silva
