// Which instruction set's kernels this process uses. A job's kernels.cpp is compiled once an instruction set into a
// table of functions. All in it but the table has internal linkage, and it includes no library header with inline
// functions, so that code for a newer processor never replaces code for an older one at link time.
#pragma once

namespace silva {

// kBaseline is x86-64-v2, on other processors what the compiler takes them for. kScalar has one row a lane, as a CUDA
// thread has it: the tests run the shared maths so.
enum class InstructionSet { kScalar, kBaseline, kV3, kV4 };

// The best that this processor runs, unless SILVA_ISA in the environment names another (scalar, v2, v3 or v4).
InstructionSet instruction_set();
bool is_instruction_set_asked();
const char* instruction_set_name();

// Declares a job's tables, job_tables, to be indexed by the instruction set.
#ifdef SILVA_X86
#define SILVA_KERNEL_TABLES(Table, job)                          \
  extern const Table job##_scalar, job##_v2, job##_v3, job##_v4; \
  static const Table* const job##_tables[] = {&job##_scalar, &job##_v2, &job##_v3, &job##_v4};
#else
#define SILVA_KERNEL_TABLES(Table, job)            \
  extern const Table job##_scalar, job##_baseline; \
  static const Table* const job##_tables[] = {&job##_scalar, &job##_baseline};
#endif

}  // namespace silva
