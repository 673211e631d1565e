// Finds out what the processor runs, and what the environment asks for.
#include "common/instruction_set.h"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace silva {

#ifdef SILVA_X86
constexpr const char* kNames[] = {"scalar", "v2", "v3", "v4"};

// Rising; without scalar, which nobody runs unasked.
static std::vector<InstructionSet> runnable() {
  __builtin_cpu_init();
  std::vector<InstructionSet> result;
  if (__builtin_cpu_supports("x86-64-v2")) result.push_back(InstructionSet::kBaseline);
  if (__builtin_cpu_supports("x86-64-v3")) result.push_back(InstructionSet::kV3);
  if (__builtin_cpu_supports("x86-64-v4")) result.push_back(InstructionSet::kV4);
  return result;
}
#else
constexpr const char* kNames[] = {"scalar", "baseline"};

static std::vector<InstructionSet> runnable() { return {InstructionSet::kBaseline}; }
#endif

static std::string asked() {
  const char* name = std::getenv("SILVA_ISA");
  return name ? name : "";
}

static InstructionSet choose() {
  const std::vector<InstructionSet> sets = runnable();
  if (sets.empty()) throw std::runtime_error("silva needs a processor with SSE4.2 (x86-64-v2), made since 2009");
  const std::string wanted = asked();
  if (wanted.empty()) return sets.back();
  if (wanted == kNames[int(InstructionSet::kScalar)]) return InstructionSet::kScalar;
  std::string names;
  for (auto set = sets.rbegin(); set != sets.rend(); ++set) {
    if (wanted == kNames[int(*set)]) return *set;
    names += std::string(names.empty() ? "" : ", ") + kNames[int(*set)];
  }
  throw std::runtime_error("SILVA_ISA is '" + wanted + "', this processor runs " + names);
}

InstructionSet instruction_set() {
  static const InstructionSet set = choose();
  return set;
}

bool is_instruction_set_asked() { return !asked().empty(); }

const char* instruction_set_name() { return kNames[int(instruction_set())]; }

}  // namespace silva
