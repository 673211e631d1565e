// Finds out what the processor runs, and what the environment asks for.
#include "common/instruction_set.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace glasswood {

#ifdef GLASSWOOD_BASELINE
constexpr const char* kNames[] = {"scalar", "baseline"};

static std::vector<InstructionSet> runnable() { return {InstructionSet::kBaseline}; }
#else
constexpr const char* kNames[] = {"scalar", "v2", "v3", "v4"};

// Rising; without scalar, which nobody runs unasked.
static std::vector<InstructionSet> runnable() {
  __builtin_cpu_init();
  std::vector<InstructionSet> result;
  if (__builtin_cpu_supports("x86-64-v2")) result.push_back(InstructionSet::kBaseline);
#ifdef GLASSWOOD_V3
  if (__builtin_cpu_supports("x86-64-v3")) result.push_back(InstructionSet::kV3);
#endif
#ifdef GLASSWOOD_V4
  if (__builtin_cpu_supports("x86-64-v4")) result.push_back(InstructionSet::kV4);
#endif
  return result;
}
#endif

std::vector<const char*> instruction_set_names() {
  std::vector<InstructionSet> sets = runnable();
  std::vector<const char*> names;
  for (auto set = sets.rbegin(); set != sets.rend(); ++set) names.push_back(kNames[int(*set)]);
#ifdef GLASSWOOD_SCALAR_LANES
  names.push_back(kNames[int(InstructionSet::kScalar)]);
#endif
  return names;
}

static std::string asked() {
  const char* name = std::getenv("GLASSWOOD_ISA");
  return name ? name : "";
}

// Messages are UTF-8, the environment may be anything.
static std::string printable(std::string text) {
  std::ranges::replace_if(text, [](unsigned char letter) { return letter < ' ' || letter > '~'; }, '?');
  return text;
}

static InstructionSet choose() {
  const std::vector<InstructionSet> sets = runnable();
  if (sets.empty()) throw std::runtime_error("glasswood needs a processor with SSE4.2 (x86-64-v2), made since 2009");
  const std::string wanted = asked();
  if (wanted.empty()) return sets.back();
  std::string names;
  for (const char* name : instruction_set_names()) {
    if (wanted == name) return InstructionSet(std::ranges::find(kNames, std::string_view(name)) - std::begin(kNames));
    names += std::string(names.empty() ? "" : ", ") + name;
  }
  throw std::runtime_error("GLASSWOOD_ISA is '" + printable(wanted) + "', expected one of " + names +
                           ", the kernels of this build that this processor runs; unset it for the fastest");
}

InstructionSet instruction_set() {
  static const InstructionSet set = choose();
  return set;
}

bool is_instruction_set_asked() { return !asked().empty(); }

const char* instruction_set_name() { return kNames[int(instruction_set())]; }

}  // namespace glasswood
