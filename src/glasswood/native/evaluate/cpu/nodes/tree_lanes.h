// Trees in lanes, 16 at a time: by_node for numbers in codes of 8 bits. Included by
// evaluate/cpu/nodes/schedule.h only.
//
// One row reads a tree from the second-level cache at best, so what counts are the lines read: the upper five levels of
// two trees share a line of columns and one of thresholds, and the three levels below each of their exits are 16 bytes.
// Many rows count instructions: the positions of 16 trees go down their heaps in the lanes of a register, four
// instructions a level. Deeper trees, grown leaf by leaf, go on through linked blocks of three levels until all lanes
// have their leaf.
#pragma once
#include "evaluate/cpu/nodes/decisions.h"

namespace glasswood {
namespace {

#if defined(__AVX512VBMI__)
// Groups of trees, or rows, whose steps are taken together: no step waits for the memory that the one before wrote.
constexpr int kStepsTogether = 4;

// Rows of codes through the trees of some groups.
template <int Registers, bool Missing, int Rows>
class TreeLanes {
 public:
  TreeLanes(const TreeLaneTables& tables, const uint8_t* codes, const uint8_t* flags, int64_t stride, int n_columns)
      : tables_(tables) {
    GLASSWOOD_UNROLL
    for (int row = 0; row < Rows; ++row) {
      codes_[row] = Table(codes + row * stride, n_columns);
      if constexpr (Missing) missing_[row] = Table(flags + row * stride, n_columns);
    }
  }

  // The leaves that the rows reach in trees of groups: [row][stride], from the first tree on.
  void reach(int first_group, int last_group, int32_t* leaf, int64_t stride) const {
    for (int first = first_group; first < last_group; first += kGroups) {
      const int n = last_group - first < kGroups ? last_group - first : kGroups;
      reach_together(first, n, leaf + (first - first_group) * kLaneTrees, stride);
    }
  }

 private:
  using R = Register<uint8_t>;
  using Table = RowTable<uint8_t, Registers>;
  static constexpr int kGroups = kStepsTogether / Rows;
  static constexpr int kLowerTogether = 64 / kLowerBytes;  // trees whose lower levels fill a register

  // Decisions of a group's trees about a row.
  struct Decided {
    alignas(64) uint64_t upper[kLaneTrees / 2];
    alignas(64) int32_t exit[kLaneTrees];
    alignas(32) uint64_t lower[kLaneTrees / kLowerTogether];
  };

  const TreeLaneTables& tables_;
  Table codes_[Rows], missing_[Rows];

  void reach_together(int first, int n_groups, int32_t* leaf, int64_t stride) const {
    Decided decided[kGroups][Rows];
    for (int g = 0; g < n_groups; ++g) decide_upper(first + g, decided[g]);
    if (tables_.exits) return follow(first, n_groups, decided, leaf, stride);
    for (int g = 0; g < n_groups; ++g) {
      GLASSWOOD_UNROLL
      for (int row = 0; row < Rows; ++row) decide_lower(first + g, row, decided[g][row]);
    }
    for (int g = 0; g < n_groups; ++g) {
      GLASSWOOD_UNROLL
      for (int row = 0; row < Rows; ++row) put_leaves(first + g, decided[g][row], leaf + row * stride + g * kLaneTrees);
    }
  }

  void decide_upper(int group, Decided (&decided)[Rows]) const {
    const uint8_t* columns = tables_.upper + int64_t(group) * kLaneTrees / 2 * kPairBytes;
    GLASSWOOD_UNROLL
    for (int pair = 0; pair < kLaneTrees / 2; ++pair, columns += kPairBytes) {
      const __m512i column = R::load(columns), threshold = R::load(columns + kPairBytes / 2);
      GLASSWOOD_UNROLL
      for (int row = 0; row < Rows; ++row) {
        uint64_t right = R::at_least(codes_[row].pick(column), threshold);
        if constexpr (Missing) {
          uint64_t by_default;
          __builtin_memcpy(&by_default, tables_.upper_default + group * kLaneTrees + 2 * pair, sizeof by_default);
          right = settled(right, R::marked(missing_[row].pick(column)), by_default);
        }
        decided[row].upper[pair] = right;
      }
    }
  }

  void decide_lower(int group, int row, Decided& decided) const {
    _mm512_store_si512(decided.exit, steps<kUpperLevels>(_mm512_load_si512(decided.upper)));
    const int64_t lower = tables_.first_lower[group];
    if (lower < 0) return;
    decide_blocks(row, decided.lower, [&](int place) {
      return tables_.lower + lower + place * kLowerTreeBytes + (decided.exit[place] - kUpperExits) * kLowerBytes;
    });
  }

  // Decisions of a block of each tree about a row.
  template <class Block>
  GLASSWOOD_INLINE void decide_blocks(int row, uint64_t* decided, const Block& block) const {
    GLASSWOOD_UNROLL
    for (int i = 0; i < kLaneTrees / kLowerTogether; ++i) {
      const auto at = [&](int j) { return reinterpret_cast<const __m128i*>(block(i * kLowerTogether + j)); };
      const auto two = [&](int j) {
        return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(at(j))), _mm_loadu_si128(at(j + 1)), 1);
      };
      const __m512i splits = _mm512_inserti64x4(_mm512_castsi256_si512(two(0)), two(2), 1);
      const __m512i threshold = _mm512_bsrli_epi128(splits, kLowerBytes / 2);
      uint64_t right = R::at_least(codes_[row].pick(splits), threshold);
      if constexpr (Missing) {
        uint64_t by_default = 0;
        for (int j = 0; j < kLowerTogether; ++j)
          by_default |= uint64_t(reinterpret_cast<const uint8_t*>(at(j))[kLowerBytes / 2]) << (j * kLowerBytes);
        right = settled(right, R::marked(missing_[row].pick(splits)), by_default);
      }
      decided[i] = right;
    }
  }

  // Block by block, all groups and rows in turn: while one waits for its memory, the others go on.
  void follow(int first, int n_groups, Decided (&decided)[kGroups][Rows], int32_t* leaf, int64_t stride) const {
    __mmask16 going[kGroups][Rows];
    unsigned any = 0;
    const auto go_on = [&](int g, int row, __mmask16 lanes, __m512i exit, __m512i goes_on, __m512i number) {
      going[g][row] =
          lead(first + g, lanes, exit, goes_on, number, decided[g][row].exit, leaf + row * stride + g * kLaneTrees);
      any |= going[g][row];
    };
    for (int g = 0; g < n_groups; ++g) {
      const int tree = (first + g) * kLaneTrees;
      const __m512i of_lane = _mm512_slli_epi32(lane_numbers(), kUpperLevels);
      GLASSWOOD_UNROLL
      for (int row = 0; row < Rows; ++row) {
        const __m512i at = steps<kUpperLevels>(_mm512_load_si512(decided[g][row].upper));
        const __m512i exit = _mm512_sub_epi32(at, _mm512_set1_epi32(kUpperExits));
        const __m512i number =
            _mm512_i32gather_epi32(_mm512_add_epi32(of_lane, exit), tables_.exits + int64_t(tree) * kUpperExits, 1);
        go_on(g, row, __mmask16(~0), exit, _mm512_loadu_si512(tables_.goes_on + tree), number);
      }
    }
    while (any) {
      any = 0;
      for (int g = 0; g < n_groups; ++g) {
        GLASSWOOD_UNROLL
        for (int row = 0; row < Rows; ++row) {
          if (!going[g][row]) continue;
          Decided& here = decided[g][row];
          decide_blocks(row, here.lower, [&](int place) { return tables_.lower + here.exit[place]; });
          const __m256i words = _mm256_load_si256(reinterpret_cast<const __m256i*>(here.lower));
          const __m512i at = steps<kLowerLevels>(_mm512_cvtepu16_epi32(words));
          const __m512i exit = _mm512_sub_epi32(at, _mm512_set1_epi32(1 << kLowerLevels));
          const __m512i block = _mm512_load_si512(here.exit);
          const __m512i number = _mm512_i32gather_epi32(_mm512_add_epi32(block, exit), tables_.lower + kLowerBytes, 1);
          go_on(g, row, going[g][row], exit, _mm512_i32gather_epi32(block, tables_.lower, 1), number);
        }
      }
    }
  }

  // Leaves of the lanes that end here, and where the blocks of the others begin. Returns the others.
  __mmask16 lead(int group, __mmask16 lanes, __m512i exit, __m512i goes_on, __m512i number, int32_t* block,
                 int32_t* leaf) const {
    const int tree = group * kLaneTrees;
    number = _mm512_and_si512(number, _mm512_set1_epi32(0xff));
    const __mmask16 others = _mm512_mask_test_epi32_mask(lanes, _mm512_srlv_epi32(goes_on, exit), _mm512_set1_epi32(1));
    _mm512_mask_storeu_epi32(leaf, lanes & ~others,
                             _mm512_add_epi32(number, _mm512_loadu_si512(tables_.first_leaf + tree)));
    const __m512i next = _mm512_add_epi32(number, _mm512_loadu_si512(tables_.first_block + tree));
    _mm512_store_si512(block, _mm512_maskz_mullo_epi32(others, next, _mm512_set1_epi32(kLinkBytes)));
    return others;
  }

  static GLASSWOOD_INLINE __m512i lane_numbers() {
    return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  }

  void put_leaves(int group, const Decided& decided, int32_t* leaf) const {
    const __m512i exit = _mm512_load_si512(decided.exit);
    __m512i at = _mm512_slli_epi32(_mm512_sub_epi32(exit, _mm512_set1_epi32(kUpperExits)), kLowerLevels);
    if (tables_.first_lower[group] >= 0) {
      const __m256i words = _mm256_load_si256(reinterpret_cast<const __m256i*>(decided.lower));
      const __m512i below = steps<kLowerLevels>(_mm512_cvtepu16_epi32(words));
      at = _mm512_add_epi32(at, _mm512_sub_epi32(below, _mm512_set1_epi32(1 << kLowerLevels)));
    }
    at = _mm512_srlv_epi32(at, _mm512_loadu_si512(tables_.shift + group * kLaneTrees));
    _mm512_storeu_si512(leaf, _mm512_add_epi32(at, _mm512_loadu_si512(tables_.first_leaf + group * kLaneTrees)));
  }

  static GLASSWOOD_INLINE uint64_t settled(uint64_t right, uint64_t unknown, uint64_t by_default) {
    return (right & ~unknown) | (by_default & unknown);
  }

  // Down the heaps of 16 trees, whose decisions are bits of these words.
  template <int Levels>
  static GLASSWOOD_INLINE __m512i steps(__m512i words) {
    __m512i at = _mm512_set1_epi32(1);
    GLASSWOOD_UNROLL
    for (int level = 0; level < Levels; ++level) {
      const __m512i bit = _mm512_and_si512(_mm512_srlv_epi32(words, at), _mm512_set1_epi32(1));
      at = _mm512_add_epi32(_mm512_add_epi32(at, at), bit);
    }
    return at;
  }
};
#endif

}  // namespace
}  // namespace glasswood
