// Which instruction set's kernels this process uses.
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/tasks.h"
#include "evaluate/cpu/nodes/tables.h"

namespace silva {

extern const KernelTable kernels_scalar;

#ifdef SILVA_X86
extern const KernelTable kernels_v2, kernels_v3, kernels_v4;
extern const NodeKernels nodes_v2, nodes_v3, nodes_v4, nodes_vbmi;

static std::vector<const KernelTable*> runnable() {
  __builtin_cpu_init();
  std::vector<const KernelTable*> result;
  if (__builtin_cpu_supports("x86-64-v4")) result.push_back(&kernels_v4);
  if (__builtin_cpu_supports("x86-64-v3")) result.push_back(&kernels_v3);
  if (__builtin_cpu_supports("x86-64-v2")) result.push_back(&kernels_v2);
  return result;
}
#else
extern const KernelTable kernels_baseline;
extern const NodeKernels nodes_baseline;

static std::vector<const KernelTable*> runnable() { return {&kernels_baseline}; }
#endif

static const KernelTable& choose() {
  const std::vector<const KernelTable*> tables = runnable();
  if (tables.empty()) throw std::runtime_error("silva needs a processor with SSE4.2 (x86-64-v2), made since 2009");
  const char* wanted = std::getenv("SILVA_ISA");
  if (!wanted || !*wanted) return *tables.front();
  if (!std::strcmp(wanted, kernels_scalar.name)) return kernels_scalar;
  std::string names;
  for (const KernelTable* table : tables) {
    if (!std::strcmp(table->name, wanted)) return *table;
    names += std::string(names.empty() ? "" : ", ") + table->name;
  }
  throw std::runtime_error("SILVA_ISA is '" + std::string(wanted) + "', this processor runs " + names);
}

const KernelTable& kernels() {
  static const KernelTable& table = choose();
  return table;
}

// Those with splits in lanes follow the others' choice. The permutation of bytes is no part of x86-64-v4: the first
// processors of that level lack it.
static const NodeKernels& choose_nodes() {
#ifdef SILVA_X86
  if (&kernels() == &kernels_v4) {
    const char* wanted = std::getenv("SILVA_ISA");
    const bool by_name = wanted && *wanted;
    return !by_name && __builtin_cpu_supports("avx512vbmi") ? nodes_vbmi : nodes_v4;
  }
  return &kernels() == &kernels_v3 ? nodes_v3 : nodes_v2;
#else
  return nodes_baseline;
#endif
}

const NodeKernels& node_kernels() {
  static const NodeKernels& table = choose_nodes();
  return table;
}

}  // namespace silva
