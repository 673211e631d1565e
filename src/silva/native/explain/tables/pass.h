// Rows pass: a key and a short vector a subtree, of values of any kind.
//
// A block of rows becomes codes once. Chunk by chunk, whose tables stay in the second-level cache, tiles of the block
// find the keys of the chunk's subtrees, then add up the vectors of each block of slots in registers.
#pragma once
#include "common/arena.h"
#include "explain/tables/encode.h"
#include "explain/tables/kernels.h"
#include "explain/tables/pack.h"
#include "explain/tables/plan.h"
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace silva {
namespace {

constexpr int kTile = 512;    // rows whose keys are kept
constexpr int kEncoded = 32;  // rows that are encoded together
constexpr int kKeyLanes = kVectorBytes / 2;
typedef int16_t KeyVector __attribute__((vector_size(kVectorBytes)));

template <class Real>
struct PassSpace {
  float* encoded;  // [feature][kEncoded]
  int16_t* codes;  // [column][stride]
  uint16_t* keys;  // [subtree of a chunk][kTile]
  Real* sums;      // [row of a tile][lane]
  double* total;   // [row][slots]
  int64_t stride, n_slots;

  PassSpace(const PassTask<Real>& task, Arena& arena) {
    stride = (task.rows_together + kTile - 1) / kTile * kTile;
    n_slots = task.plan.is_wide ? task.n_columns : task.plan.lanes;
    encoded = arena.take<float>(int64_t(task.coding.n_features) * kEncoded);
    codes = arena.take<int16_t>(task.n_columns * stride);
    keys = arena.take<uint16_t>(int64_t(task.plan.most_subtrees) * kTile);
    sums = arena.take<Real>(int64_t(kTile) * task.plan.lanes);
    total = arena.take<double>(stride * n_slots);
  }
};

// Rows beyond the block's repeat its last.
template <class Real>
void encode_block(const PassTask<Real>& task, PassSpace<Real>& space, int64_t first_row, int n_rows) {
  for (int row = 0; row < n_rows; row += kEncoded) {
    const int n = n_rows - row < kEncoded ? n_rows - row : kEncoded;
    encode_rows<float>(task.coding, task.rows, first_row + row, n, kEncoded, kEncoded, space.encoded);
    for (int c = 0; c < task.n_columns; ++c)
      encode_column<kEncoded>(task.columns[c], task.thresholds,
                              space.encoded + int64_t(task.columns[c].feature) * kEncoded,
                              space.codes + c * space.stride + row);
  }
}

// Keys of N vectors of rows.
template <int N>
SILVA_INLINE void find_keys(const Subtree& subtree, const KeyStep* steps, const int16_t* codes, int64_t stride,
                            uint16_t* keys) {
#if defined(__AVX512BW__)
  __m512i key[N];
  for (int i = 0; i < N; ++i) key[i] = _mm512_set1_epi16(int16_t(subtree.base));
  for (int s = 0; s < subtree.n_steps; ++s) {
    const __m512i bound = _mm512_set1_epi16(steps[s].bound), weight = _mm512_set1_epi16(int16_t(steps[s].weight));
    const int16_t* x = codes + steps[s].column * stride;
    SILVA_UNROLL
    for (int i = 0; i < N; ++i) {
      const __mmask32 above = _mm512_cmpgt_epi16_mask(_mm512_loadu_si512(x + i * kKeyLanes), bound);
      key[i] = _mm512_mask_add_epi16(key[i], above, key[i], weight);
    }
  }
  for (int i = 0; i < N; ++i) _mm512_storeu_si512(keys + i * kKeyLanes, key[i]);
#else
  KeyVector key[N];
  for (int i = 0; i < N; ++i) key[i] = KeyVector{} + int16_t(subtree.base);
  for (int s = 0; s < subtree.n_steps; ++s) {
    const KeyVector bound = KeyVector{} + steps[s].bound, weight = KeyVector{} + int16_t(steps[s].weight);
    const int16_t* x = codes + steps[s].column * stride;
    SILVA_UNROLL
    for (int i = 0; i < N; ++i) {
      KeyVector code;
      __builtin_memcpy(&code, x + i * kKeyLanes, sizeof(code));
      key[i] += (code > bound) & weight;
    }
  }
  for (int i = 0; i < N; ++i) __builtin_memcpy(keys + i * kKeyLanes, &key[i], sizeof(key[i]));
#endif
}

template <class Real>
void find_tile_keys(const PassTask<Real>& task, const PassSpace<Real>& space, const TableChunk& chunk, int row,
                    int n_rows) {
  for (int i = 0; i < chunk.n_subtrees; ++i) {
    const Subtree& subtree = task.plan.subtrees[chunk.first_subtree + i];
    const KeyStep* steps = task.plan.steps + subtree.first_step;
    const int16_t* codes = space.codes + row;
    uint16_t* keys = space.keys + i * kTile;
    int at = 0;
    for (; at + 4 * kKeyLanes < n_rows; at += 8 * kKeyLanes)
      find_keys<8>(subtree, steps, codes + at, space.stride, keys + at);
    for (; at + kKeyLanes < n_rows; at += 2 * kKeyLanes)
      find_keys<2>(subtree, steps, codes + at, space.stride, keys + at);
    for (; at < n_rows; at += kKeyLanes) find_keys<1>(subtree, steps, codes + at, space.stride, keys + at);
  }
}

// Adds the vectors of G subtrees to the sums of rows: their tables stay in the first-level cache. Meanwhile the vectors
// of the next G come closer if Fetches, as the first rows want it: each look-up would wait for its own.
template <class Real, int L, int G, bool Fetches>
SILVA_INLINE void add_subtrees(const Subtree* subtrees, const Real* table, const uint16_t* keys, int n_rows,
                               Real* sums) {
  using V = Pack<Real, L>;
  constexpr int kTables = Fetches ? 2 * G : G;
  const char* first[kTables];
  SILVA_UNROLL
  for (int g = 0; g < kTables; ++g) first[g] = reinterpret_cast<const char*>(table + subtrees[g].first_vector * L);
  const auto vector = [&](int g, int row) {
    return first[g] + uint64_t(keys[g * kTile + row]) * (L * sizeof(Real) / kKeyScale);
  };
  for (int r = 0; r < n_rows; ++r) {
    V sum = reinterpret_cast<V*>(sums)[r];
    SILVA_UNROLL
    for (int g = 0; g < G; ++g) sum += *reinterpret_cast<const V*>(vector(g, r));
    reinterpret_cast<V*>(sums)[r] = sum;
    SILVA_UNROLL
    for (int g = G; g < kTables; ++g) __builtin_prefetch(vector(g, r), 0, 3);
  }
}

template <class Real, int L>
void add_tile(const PassTask<Real>& task, const PassSpace<Real>& space, const TableChunk& chunk, const Real* table,
              int row, int n_rows) {
  constexpr int kTogether = 4, kFirstRows = 4 * kTile;
  const Subtree* subtrees = task.plan.subtrees + chunk.first_subtree;
  Real* sums = space.sums;
  __builtin_memset(sums, 0, sizeof(Real) * L * n_rows);
  int s = 0;
  if (row < kFirstRows)
    for (; s + 2 * kTogether <= chunk.n_subtrees; s += kTogether)
      add_subtrees<Real, L, kTogether, true>(subtrees + s, table, space.keys + s * kTile, n_rows, sums);
  for (; s + kTogether <= chunk.n_subtrees; s += kTogether)
    add_subtrees<Real, L, kTogether, false>(subtrees + s, table, space.keys + s * kTile, n_rows, sums);
  for (; s < chunk.n_subtrees; ++s)
    add_subtrees<Real, L, 1, false>(subtrees + s, table, space.keys + s * kTile, n_rows, sums);
  double* total = space.total + row * space.n_slots;
  if (!task.plan.is_wide) {
    for (int i = 0; i < n_rows * L; ++i) total[i] += double(sums[i]);
    return;
  }
  const int32_t* columns = task.plan.slot_column + chunk.first_slot;
  for (int r = 0; r < n_rows; ++r)
    for (int i = 0; i < chunk.n_slots; ++i) total[r * space.n_slots + columns[i]] += double(sums[r * L + i]);
}

template <class Real, int L>
void add_chunk(const PassTask<Real>& task, const PassSpace<Real>& space, const TableChunk& chunk, int output,
               int n_rows) {
  const Real* table = task.table + (output * task.n_vectors - task.first_vector) * L;
  for (int row = 0; row < n_rows; row += kTile) {
    const int n = n_rows - row < kTile ? n_rows - row : kTile;
    find_tile_keys(task, space, chunk, row, n);
    add_tile<Real, L>(task, space, chunk, table, row, n);
  }
}

template <class Real, class Out>
void write_totals(const PassTask<Real>& task, const PassSpace<Real>& space, const ExplanationTarget<Out>& out,
                  int output, int64_t first_row, int n_rows) {
  if (!task.adds)
    for (int row = 0; row < n_rows; ++row)
      for (int64_t f = 0; f < task.coding.n_features; ++f)
        out.data[(first_row + row) * out.row_stride + f * out.feature_stride + output * out.output_stride] = 0;
  for (int row = 0; row < n_rows; ++row)
    for (int c = 0; c < task.n_columns; ++c) {
      Out& to = out.data[(first_row + row) * out.row_stride + task.columns[c].feature * out.feature_stride +
                         output * out.output_stride];
      to = Out(double(to) + space.total[row * space.n_slots + c]);
    }
}

// One block of rows, all outputs.
template <class Real>
void pass_rows(const PassTask<Real>& task, PassSpace<Real>& space, int64_t first_row, int n_rows) {
  encode_block(task, space, first_row, n_rows);
  for (int output = 0; output < task.n_outputs; ++output) {
    __builtin_memset(space.total, 0, sizeof(double) * space.stride * space.n_slots);
    for (int c = task.first_chunk; c < task.first_chunk + task.n_chunks; ++c) {
      const TableChunk& chunk = task.plan.chunks[c];
      if (task.plan.width == 1 && chunk.output != output) continue;
      const int table = task.plan.width == 1 ? 0 : output;
      if (task.plan.lanes == 8)
        add_chunk<Real, 8>(task, space, chunk, table, n_rows);
      else
        add_chunk<Real, 16>(task, space, chunk, table, n_rows);
    }
    if (task.double_out)
      write_totals(task, space, task.out64, output, first_row, n_rows);
    else
      write_totals(task, space, task.out32, output, first_row, n_rows);
  }
}

template <class Real>
int64_t pass_workspace(const PassTask<Real>& task) {
  Arena arena{nullptr};
  PassSpace<Real>(task, arena);
  return arena.used();
}

template <class Real>
void pass_all(const PassTask<Real>& task) {
  const int64_t n_rows = task.rows.n_rows, size = task.rows_together;
  share_out(task.team, (n_rows + size - 1) / size, [&](int64_t t, int32_t thread) {
    Arena arena{task.workspace + thread * task.workspace_size};
    PassSpace<Real> space(task, arena);
    const int64_t rest = n_rows - t * size;
    pass_rows(task, space, t * size, int(rest < size ? rest : size));
  });
}

}  // namespace
}  // namespace silva
