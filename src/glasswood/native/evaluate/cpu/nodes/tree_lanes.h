// Trees in lanes, 16 at a time: by_node for numbers in codes of 8 bits. Included by
// evaluate/cpu/nodes/schedule.h only.
//
// One row reads a tree from the second-level cache at best, so what counts are the lines read: the upper five levels of
// two trees share a line of columns and one of thresholds, and the three levels below each of their exits are 16 bytes.
// Many rows count instructions: the positions of 16 trees go down their heaps in the lanes of a register, four
// instructions a level. Deeper trees, grown leaf by leaf, go on through linked blocks of three levels. There rows come
// one by one: most trees have their leaf after a block or two, and the lanes of the others are put together.
#pragma once
#include "evaluate/cpu/nodes/decisions.h"

namespace glasswood {
namespace {

#if defined(__AVX512VBMI__)
// Groups of trees, or rows, whose steps are taken together: no step waits for the memory that the one before wrote.
constexpr int kStepsTogether = 4;
// Groups of linked trees that a row passes together at most.
constexpr int kGroupsLinked = 64;

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

  // The same of one row in trees of linked blocks, at most kGroupsLinked groups. Most lanes have their leaf after a
  // block or two: those that go on are put together, whatever their group, so that no block is read in vain.
  void follow(int first_group, int last_group, int32_t* leaf) const {
    GoingLanes going;
    int n = 0;
    for (int group = first_group; group < last_group; ++group, leaf += kLaneTrees)
      n = begin_lanes(group, (group - first_group) * kLaneTrees, leaf, going, n);
    leaf -= (last_group - first_group) * kLaneTrees;
    while (n) {
      const int n_before = n;
      n = 0;
      for (int at = 0; at < n_before; at += kLaneTrees)
        n = go_on(first_group * kLaneTrees, at, n_before - at, leaf, going, n);
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

  // Where the blocks of lanes that go on begin, and their trees, from the first on.
  struct GoingLanes {
    int32_t block[kGroupsLinked * kLaneTrees + kLaneTrees], tree[kGroupsLinked * kLaneTrees + kLaneTrees];
  };

  const TreeLaneTables& tables_;
  Table codes_[Rows], missing_[Rows];

  void reach_together(int first, int n_groups, int32_t* leaf, int64_t stride) const {
    Decided decided[kGroups][Rows];
    for (int g = 0; g < n_groups; ++g) decide_upper(first + g, decided[g]);
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

  // The exit that each lane takes, which of its exits go on, and what leads there in its lowest byte.
  struct BlockExits {
    __m512i exit, goes_on, number;
  };

  BlockExits upper_exits(int group, const Decided& decided) const {
    const __m512i at = steps<kUpperLevels>(_mm512_load_si512(decided.upper));
    const __m512i exit = _mm512_sub_epi32(at, _mm512_set1_epi32(kUpperExits));
    const __m512i place = _mm512_add_epi32(_mm512_slli_epi32(lane_numbers(), kUpperLevels), exit);
    const uint8_t* exits = tables_.exits + int64_t(group) * kLaneTrees * kUpperExits;
    return {exit, _mm512_loadu_si512(tables_.goes_on + group * kLaneTrees), _mm512_i32gather_epi32(place, exits, 1)};
  }

  // Of the blocks that begin at `decided.exit`.
  BlockExits block_exits(int row, Decided& decided) const {
    decide_blocks(row, decided.lower, [&](int place) { return tables_.lower + decided.exit[place]; });
    const __m256i words = _mm256_load_si256(reinterpret_cast<const __m256i*>(decided.lower));
    const __m512i at = steps<kLowerLevels>(_mm512_cvtepu16_epi32(words));
    const __m512i exit = _mm512_sub_epi32(at, _mm512_set1_epi32(1 << kLowerLevels));
    const __m512i block = _mm512_load_si512(decided.exit);
    return {exit, _mm512_i32gather_epi32(block, tables_.lower, 1),
            _mm512_i32gather_epi32(_mm512_add_epi32(block, exit), tables_.lower + kLowerBytes, 1)};
  }

  int begin_lanes(int group, int first_tree, int32_t* leaf, GoingLanes& going, int n) const {
    Decided decided[Rows];
    decide_upper(group, decided);
    const BlockExits found = upper_exits(group, decided[0]);
    const int tree = group * kLaneTrees;
    const __m512i number = _mm512_and_si512(found.number, _mm512_set1_epi32(0xff));
    _mm512_storeu_si512(leaf, _mm512_add_epi32(number, _mm512_loadu_si512(tables_.first_leaf + tree)));
    const __m512i block = _mm512_add_epi32(number, _mm512_loadu_si512(tables_.first_block + tree));
    return put_going(found, __mmask16(~0), block, _mm512_add_epi32(lane_numbers(), _mm512_set1_epi32(first_tree)),
                     going, n);
  }

  // One block of up to 16 lanes from `at` on.
  int go_on(int first_tree, int at, int n_left, int32_t* leaf, GoingLanes& going, int n) const {
    const __mmask16 lanes = n_left < kLaneTrees ? __mmask16((1 << n_left) - 1) : __mmask16(~0);
    const __m512i tree = _mm512_maskz_loadu_epi32(lanes, going.tree + at);
    Decided decided;
    _mm512_store_si512(decided.exit, _mm512_maskz_loadu_epi32(lanes, going.block + at));
    const BlockExits found = block_exits(0, decided);
    const __m512i number = _mm512_and_si512(found.number, _mm512_set1_epi32(0xff));
    const __m512i leaves = _mm512_i32gather_epi32(tree, tables_.first_leaf + first_tree, sizeof(int32_t));
    _mm512_mask_i32scatter_epi32(leaf, lanes, tree, _mm512_add_epi32(number, leaves), sizeof(int32_t));
    const __m512i blocks = _mm512_i32gather_epi32(tree, tables_.first_block + first_tree, sizeof(int32_t));
    return put_going(found, lanes, _mm512_add_epi32(number, blocks), tree, going, n);
  }

  // Puts the lanes that go on behind n others, and returns how many there are then. What is written beyond them was
  // read before.
  static int put_going(const BlockExits& found, __mmask16 lanes, __m512i block, __m512i tree, GoingLanes& going,
                       int n) {
    const __m512i one = _mm512_set1_epi32(1);
    const __mmask16 others = _mm512_mask_test_epi32_mask(lanes, _mm512_srlv_epi32(found.goes_on, found.exit), one);
    const __m512i at = _mm512_mullo_epi32(block, _mm512_set1_epi32(kLinkBytes));
    _mm512_storeu_si512(going.block + n, _mm512_maskz_compress_epi32(others, at));
    _mm512_storeu_si512(going.tree + n, _mm512_maskz_compress_epi32(others, tree));
    return n + __builtin_popcount(others);
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
