// The kernels of linear leaves for one instruction set, under the rule of common/instruction_set.h. GLASSWOOD_KERNELS
// names the table.
#include "evaluate/cpu/linear/lanes.h"

namespace glasswood {
namespace {

// Vectors of two numbers do not pay for it.
LinearNumbers lay_out(const LinearLeaves& leaves, const LinearRows& rows, double* memory) {
  if constexpr (kDoubles < 4) return {};
  return (rows.source.is_double ? lay_out_rows<double> : lay_out_rows<float>)(leaves, rows, memory);
}

template <bool Means>
void add_means(const LinearLeaves& leaves, int tree, const int32_t* leaf_of, const int32_t* places,
               const LinearRows& rows, const LinearNumbers& numbers, double* sums) {
  const bool few = leaves.first_leaf[tree + 1] - leaves.first_leaf[tree] <= kMostLaneLeaves;
  if (!numbers.number || !few)
    (rows.source.is_double ? add_by_row<Means, double> : add_by_row<Means, float>)(leaves, tree, leaf_of, places, rows,
                                                                                   sums);
  else
    (numbers.missing ? add_in_lanes<Means, true> : add_in_lanes<Means, false>)(leaves, tree, leaf_of, places,
                                                                               rows.n_rows, numbers.number, sums);
}

void add(const LinearLeaves& leaves, int tree, const int32_t* leaf_of, const int32_t* places, const LinearRows& rows,
         const LinearNumbers& numbers, double* sums) {
  (leaves.mean ? add_means<true> : add_means<false>)(leaves, tree, leaf_of, places, rows, numbers, sums);
}

}  // namespace

extern const LinearKernels GLASSWOOD_KERNELS;
const LinearKernels GLASSWOOD_KERNELS = {lay_out, add};
}  // namespace glasswood
