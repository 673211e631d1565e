// Number of the current OpenMP thread. No OpenMP header: it has inline functions (common/cpu_kernels.cpp says why not).
#pragma once
#ifdef _OPENMP
extern "C" int omp_get_thread_num(void);
#endif

namespace silva {
namespace {
inline int thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}
}  // namespace
}  // namespace silva
