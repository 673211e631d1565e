// Which instruction set's kernels this process uses. A job's kernels.cpp is compiled once an instruction set into a
// table of functions. All in it but the table has internal linkage, and it includes no library header with inline
// functions, so that code for a newer processor never replaces code for an older one at link time.
#pragma once
#include <vector>

namespace glasswood {

// kBaseline is x86-64-v2, on other processors what the compiler takes them for. kScalar has one row a lane, as a CUDA
// thread has it: the tests run the shared maths so.
enum class InstructionSet { kScalar, kBaseline, kV3, kV4 };

// The best that this processor runs, unless GLASSWOOD_ISA in the environment names another (scalar, v2, v3 or v4).
InstructionSet instruction_set();
bool is_instruction_set_asked();
const char* instruction_set_name();
// Those that GLASSWOOD_ISA may name here: compiled, and run by this processor. Falling.
std::vector<const char*> instruction_set_names();

// GLASSWOOD_V2, GLASSWOOD_V3 ... are defined for the levels that were compiled (GLASSWOOD_LEVELS in CMakeLists.txt).
#if defined GLASSWOOD_SCALAR_LANES
#define GLASSWOOD_TABLE_SCALAR(job) &job##_scalar
#else
#define GLASSWOOD_TABLE_SCALAR(job) nullptr
#endif
#if defined GLASSWOOD_BASELINE
#define GLASSWOOD_TABLE_LOWEST(job) &job##_baseline
#else
#define GLASSWOOD_TABLE_LOWEST(job) &job##_v2
#endif
#if defined GLASSWOOD_V3
#define GLASSWOOD_TABLE_V3(job) &job##_v3
#else
#define GLASSWOOD_TABLE_V3(job) nullptr
#endif
#if defined GLASSWOOD_V4
#define GLASSWOOD_TABLE_V4(job) &job##_v4
#else
#define GLASSWOOD_TABLE_V4(job) nullptr
#endif

// Declares a job's tables, to be chosen from by kernels_of(job_tables); the second for jobs without scalar kernels.
#define GLASSWOOD_KERNEL_TABLES(Table, job)                                                             \
  extern const Table job##_scalar, job##_baseline, job##_v2, job##_v3, job##_v4;                        \
  static const Table* const job##_tables[] = {GLASSWOOD_TABLE_SCALAR(job), GLASSWOOD_TABLE_LOWEST(job), \
                                              GLASSWOOD_TABLE_V3(job), GLASSWOOD_TABLE_V4(job)};
#define GLASSWOOD_VECTOR_KERNEL_TABLES(Table, job)                                                           \
  extern const Table job##_baseline, job##_v2, job##_v3, job##_v4;                                           \
  static const Table* const job##_tables[] = {nullptr, GLASSWOOD_TABLE_LOWEST(job), GLASSWOOD_TABLE_V3(job), \
                                              GLASSWOOD_TABLE_V4(job)};

// This process's table; where there is none without vectors, the lowest that has them.
template <class Table>
const Table& kernels_of(const Table* const (&tables)[4]) {
  const Table* table = tables[int(instruction_set())];
  return table ? *table : *tables[int(InstructionSet::kBaseline)];
}

}  // namespace glasswood
