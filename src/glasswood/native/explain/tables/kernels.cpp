// The kernels of subtree tables for one instruction set, under the rule of common/instruction_set.h. GLASSWOOD_KERNELS
// names the table.
#include "explain/tables/build.h"
#include "explain/tables/leaf_games/build.h"
#include "explain/tables/leaf_games/histogram.h"
#include "explain/tables/pass.h"
#include "explain/tables/row.h"

namespace glasswood {
extern const TableKernels GLASSWOOD_KERNELS;
namespace {
template <class Real>
constexpr TypedTableKernels<Real> typed_kernels() {
  return {build_workspace<Real>,     build_tables<Real>,    count_workspace<Real>, count_states<Real>,
          leaf_game_workspace<Real>, build_leaf_game<Real>, pass_workspace<Real>,  block_size<Real>,
          begin_all<Real>,           find_all_keys<Real>,   pass_all<Real>,        explain_row<Real>};
}
}  // namespace
const TableKernels GLASSWOOD_KERNELS = {typed_kernels<float>(), typed_kernels<double>()};
}  // namespace glasswood
