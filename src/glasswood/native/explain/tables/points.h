// How many quadrature points the builders of tables are compiled for. Included by explain/tables/kernels.cpp only.
#pragma once
#include "common/rows.h"

namespace glasswood {
namespace {

// Calls build<K>() for the fewest points that are exact for n_points.
template <class Build>
GLASSWOOD_INLINE void with_points(int n_points, const Build& build) {
#ifdef GLASSWOOD_FEW_INSTANCES
  if (n_points <= 4) return build.template operator()<4>();
#else
  if (n_points <= 1) return build.template operator()<1>();
  if (n_points == 2) return build.template operator()<2>();
  if (n_points == 3) return build.template operator()<3>();
  if (n_points == 4) return build.template operator()<4>();
  if (n_points <= 6) return build.template operator()<6>();
#endif
  build.template operator()<8>();
}

}  // namespace
}  // namespace glasswood
