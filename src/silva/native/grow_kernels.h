// The arithmetic of growing, compiled once an instruction set (cpu_grow_kernels.cpp) and chosen at run time.
#pragma once
#include <cstddef>
#include <cstdint>

namespace silva {

struct GrowKernels {
  // sums += sum z z' over the named rows, in their order.
  void (*accumulate)(const double* z, size_t stride, int width, const int32_t* rows, size_t n_rows, double* sums);
  // Residual sum of squares of one packed Gram matrix.
  double (*residual)(const double* gram, int width, const int32_t* columns, int n_columns, double* work);
  // The same of kLanes Gram matrices: entry p of lane l at grams[p * stride + l].
  void (*residuals)(const double* grams, size_t stride, int width, const int32_t* columns, int n_columns, double* work,
                    double* result);
};

const GrowKernels& grow_kernels();

#define SILVA_DECLARE_GROW_KERNELS(isa) \
  namespace isa {                       \
  extern const GrowKernels kernels;     \
  }
SILVA_DECLARE_GROW_KERNELS(grow_v2)
SILVA_DECLARE_GROW_KERNELS(grow_v3)
SILVA_DECLARE_GROW_KERNELS(grow_v4)
SILVA_DECLARE_GROW_KERNELS(grow_baseline)
#undef SILVA_DECLARE_GROW_KERNELS

}  // namespace silva
