// The widest vectors that the instruction set of this file's compilation works on whole. GCC keeps every value of wider
// ones in memory and operates piece by piece.
#pragma once

namespace glasswood {

#if defined(__AVX512DQ__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

}  // namespace glasswood
