// A forest for explain/cuda/tape.h and reference/explain/paths.h, from Python's objects.
#pragma once
#include "common/bindings.h"
#include "explain/cuda/tape.h"

namespace glasswood {

// A glasswood.Forest beside the ranks of its tests (glasswood.cuda.codes.Codes).
inline TapeForest tape_forest(nb::handle forest, nb::handle codes) {
  return {view_of(forest), field<int32_t>(codes, "node_column"), field<int32_t>(codes, "node_rank")};
}

}  // namespace glasswood
