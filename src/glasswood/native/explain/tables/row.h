// One row: the keys of 32 subtrees at a time, then the same sums as rows of a batch take.
#pragma once
#include "explain/tables/encode.h"
#include "explain/tables/entries.h"
#include "explain/tables/kernels.h"
#include "explain/tables/pack.h"
#include "explain/tables/plan.h"
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace glasswood {
namespace {

// A few steps' codes are taken from their columns, then compared as vectors: neither waits for the other, and no branch
// depends on a row.
inline void find_block_keys(const RowStep* step, const RowStep* end, const int16_t* codes, uint16_t* keys) {
  constexpr int kTaken = 4, kVectors = kRowLanes / kKeyLanes;
  alignas(64) int16_t taken[kTaken][kRowLanes];
  KeyVector key[kVectors];
  __builtin_memcpy(key, keys, sizeof(key));
  for (; step < end; step += kTaken) {
    const int n = end - step < kTaken ? int(end - step) : kTaken;
    for (int s = 0; s < n; ++s)
      for (int i = 0; i < kRowLanes; ++i) taken[s][i] = codes[step[s].column[i]];
    for (int s = 0; s < n; ++s) {
      CodeVector code[kVectors], bound[kVectors];
      KeyVector weight[kVectors];
      __builtin_memcpy(code, taken[s], sizeof(code));
      __builtin_memcpy(bound, step[s].bound, sizeof(bound));
      __builtin_memcpy(weight, step[s].weight, sizeof(weight));
      for (int v = 0; v < kVectors; ++v) key[v] += KeyVector(code[v] > bound[v]) & weight[v];
    }
  }
  __builtin_memcpy(keys, key, sizeof(key));
}

#if defined(__AVX512BW__)
// Where registers hold the codes, code_of(columns), no branch depends on a row.
template <class CodeOf>
GLASSWOOD_INLINE void find_keys_in_registers(const RowStep* step, const RowStep* end, const CodeOf& code_of,
                                             uint16_t* keys) {
  __m512i key = _mm512_loadu_si512(keys);
  for (; step < end; ++step) {
    const __mmask32 above =
        _mm512_cmpgt_epi16_mask(code_of(_mm512_load_si512(step->column)), _mm512_load_si512(step->bound));
    key = _mm512_mask_add_epi16(key, above, key, _mm512_load_si512(step->weight));
  }
  _mm512_storeu_si512(keys, key);
}
#endif

// The entry that the row's key of a subtree stands for.
template <class Real>
GLASSWOOD_INLINE const char* entry_of(const RowTask<Real>& task, int64_t subtree, int64_t from) {
  return reinterpret_cast<const char*>(task.table + from) + task.first_byte[subtree] +
         uint64_t(task.keys[subtree]) * task.key_bytes[subtree];
}

// Finds keys block by block.
template <class Real>
class RowKeys {
 public:
  explicit RowKeys(const RowTask<Real>& task) : task_(task) {
    __builtin_memcpy(task.keys, task.base, sizeof(uint16_t) * task.n_blocks * kRowLanes);
  }

  // The keys of at least the subtrees before `end`.
  void reach(int64_t end) {
    for (; n_found_ < task_.n_blocks && int64_t(n_found_) * kRowLanes < end; ++n_found_) find(n_found_);
  }

 private:
  const RowTask<Real>& task_;
  int32_t n_found_ = 0;  // blocks

  GLASSWOOD_INLINE void find(int32_t block) const {
    const RowStep *first = task_.steps + task_.first_step[block], *end = task_.steps + task_.first_step[block + 1];
    uint16_t* keys = task_.keys + block * kRowLanes;
#if defined(__AVX512BW__)
    const __m512i codes = _mm512_loadu_si512(task_.codes);
    if (task_.n_columns <= kRowLanes)
      return find_keys_in_registers(
          first, end, [&](__m512i column) { return _mm512_permutexvar_epi16(column, codes); }, keys);
    if (task_.n_columns <= 2 * kRowLanes) {
      const __m512i more = _mm512_loadu_si512(task_.codes + kRowLanes);
      return find_keys_in_registers(
          first, end, [&](__m512i column) { return _mm512_permutex2var_epi16(codes, column, more); }, keys);
    }
    if (task_.n_columns <= 4 * kRowLanes) {
      const __m512i more = _mm512_loadu_si512(task_.codes + kRowLanes);
      const __m512i third = _mm512_loadu_si512(task_.codes + 2 * kRowLanes);
      const __m512i last = _mm512_loadu_si512(task_.codes + 3 * kRowLanes);
      const __m512i half = _mm512_set1_epi16(2 * kRowLanes);
      return find_keys_in_registers(
          first, end,
          [&](__m512i column) {
            return _mm512_mask_blend_epi16(_mm512_test_epi16_mask(column, half),
                                           _mm512_permutex2var_epi16(codes, column, more),
                                           _mm512_permutex2var_epi16(third, column, last));
          },
          keys);
    }
#endif
    find_block_keys(first, end, task_.codes, keys);
  }
};

template <class Real, int N>
void add_chunk(const RowTask<Real>& task, const TableChunk& chunk, int64_t from) {
  using V = Pack<Real, N * kValueLanes>;
  V sum = V::splat(Real(0));
  for (int s = chunk.first_subtree; s < chunk.first_subtree + chunk.n_subtrees; ++s) {
    sum += *reinterpret_cast<const V*>(entry_of(task, s, from));
    __builtin_prefetch(entry_of(task, s + kRowAhead, from), 0, 3);
  }
  alignas(64) Real sums[N * kValueLanes];
  *reinterpret_cast<V*>(sums) = sum;
  const int32_t* players = task.plan.slot_player + chunk.first_slot;
  for (int i = 0; i < chunk.n_slots; ++i) task.total[players[i]] += double(sums[i]);
}

// Each look-up would wait for its own line, so that memory is asked for entries ahead.
template <class Real>
void explain_row_of(const RowTask<Real>& task) {
  const bool has_width = task.plan.width > 1;
  const TableChunk *chunk = task.plan.chunks, *end = chunk + task.plan.n_chunks;
  RowKeys<Real> keys(task);
  __builtin_memset(task.values, 0, sizeof(Real) * task.n_result_players * task.n_outputs);
  keys.reach(kRowAhead);
  for (int s = 0; s < kRowAhead; ++s) __builtin_prefetch(entry_of(task, s, 0), 0, 3);
  for (int output = 0; output < task.n_outputs; ++output) {
    __builtin_memset(task.total, 0, sizeof(double) * task.n_players);
    if (has_width) chunk = task.plan.chunks;
    const int64_t from = has_width ? output * task.plan.n_vectors * kValueLanes : 0;
    for (; chunk < end && (has_width || chunk->output == output); ++chunk) {
      keys.reach(chunk->first_subtree + chunk->n_subtrees + kRowAhead);
      if (chunk->state_vectors == 1)
        add_chunk<Real, 1>(task, *chunk, from);
      else
        add_chunk<Real, kMostLanes / kValueLanes>(task, *chunk, from);
    }
    for (int p = 0; p < task.n_players; ++p)
      task.values[int64_t(task.players[p]) * task.n_outputs + output] = Real(task.total[p]);
  }
}

template <class Real>
void explain_row(const RowTask<Real>& task, const RowSource& row) {
  encode_rows<float>(task.coding, row, 0, 1, 1, 1, task.encoded);
  for (int c = 0; c < task.n_columns; ++c)
    encode_column<1>(task.columns[c], task.thresholds, task.category_codes, task.encoded + task.columns[c].feature,
                     task.codes + c);
  explain_row_of(task);
}

}  // namespace
}  // namespace glasswood
