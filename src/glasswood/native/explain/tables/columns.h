// Columns of codes: a feature's values become 16-bit numbers that say all that the forest's splits ask of them.
//
// Numbers: how many of the feature's thresholds are not above. Categories: on CPUs the place of their class, in an
// order of the classes; on GPUs themselves, then one code for all others and one for fractions in (-1, 0), which some
// sources truncate to 0. A missing value is the largest code, so that one comparison serves all. Codes are stored less
// 2^15: processors before AVX-512 compare signed numbers.
#pragma once
#include <cstdint>

namespace glasswood {

struct CodeColumn {
  int32_t feature;
  int32_t n_codes;     // of numbers; a missing value is kMissingCode
  int32_t categories;  // 0: ranks of a number
  int32_t top;         // the search's first step, a power of two; 0: the encoded value is the rank
  int64_t first;       // into thresholds, padded with NaN to a power of two less 1, or into codes of categories
};

constexpr int32_t kMissingCode = 65535;
constexpr int32_t kMostCodes = 65000;
constexpr int32_t kCodeBias = 32768;

}  // namespace glasswood
