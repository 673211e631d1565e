// Rows pass: a key and the addition of a table's entry a subtree, whatever the entries are.
//
// A block of rows becomes codes once. Chunk by chunk, whose tables stay in the second-level cache, tiles of the block
// find the keys of the chunk's subtrees, then add up their entries.
#pragma once
#include "common/arena.h"
#include "explain/tables/encode.h"
#include "explain/tables/kernels.h"
#include "explain/tables/pack.h"
#include "explain/tables/pairs.h"
#include "explain/tables/plan.h"
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace glasswood {
namespace {

constexpr int kTogether = 4;  // subtrees that are added up at a time
constexpr int kEncoded = 32;  // rows that are encoded together
constexpr int kKeyLanes = kVectorBytes / 2;
typedef int16_t CodeVector __attribute__((vector_size(kVectorBytes)));
typedef uint16_t KeyVector __attribute__((vector_size(kVectorBytes)));

template <class Real>
struct PassSpace {
  float* encoded;  // [feature][kEncoded]
  int16_t* codes;  // [column][stride]
  uint16_t* keys;  // [subtree of a chunk][tile]
  Real* sums;      // [row of a tile][lane of an entry]
  double* total;   // [output][row][total]
  double* main;    // [player]: main effects of a row
  int64_t stride;
  int32_t tile;  // rows whose keys are kept

  // Rows whose keys are found at a time, some of them behind the last.
  static constexpr int64_t kRowMultiple = 256;

  static constexpr int most_vectors(bool of_pairs) {
    return of_pairs ? pair_vectors(kMostPairSlots) : kMostLanes / kValueLanes;
  }
  PassSpace() = default;
  // `kept` is what stays from one batch of chunks to the next.
  PassSpace(const PassTask<Real>& task, Arena& arena, Arena& kept) {
    tile = task.tile;
    stride = (task.rows_together + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
    const bool of_pairs = task.plan.content == TableContent::kPairs;
    encoded = arena.take<float>(int64_t(task.coding.n_features) * kEncoded);
    codes = kept.take<int16_t>(task.n_columns * stride);
    keys = arena.take<uint16_t>(int64_t(task.plan.most_subtrees) * tile);
    sums = arena.take<Real>(int64_t(tile) * task.plan.lanes * most_vectors(of_pairs));
    total = kept.take<double>(stride * task.n_totals);
    main = arena.take<double>(of_pairs ? task.n_players : 0);
  }
};

// Rows beyond the block's repeat its last.
template <class Real>
void encode_block(const PassTask<Real>& task, PassSpace<Real>& space, int64_t first_row, int n_rows) {
  for (int row = 0; row < n_rows; row += kEncoded) {
    const int n = n_rows - row < kEncoded ? n_rows - row : kEncoded;
    encode_rows<float>(task.coding, task.rows, first_row + row, n, kEncoded, kEncoded, space.encoded);
    for (int c = 0; c < task.n_columns; ++c)
      encode_column<kEncoded>(task.columns[c], task.thresholds, task.category_codes,
                              space.encoded + int64_t(task.columns[c].feature) * kEncoded,
                              space.codes + c * space.stride + row);
  }
}

// Keys of N vectors of rows.
template <int N>
GLASSWOOD_INLINE void find_keys(const Subtree& subtree, const KeyStep* steps, const int16_t* codes, int64_t stride,
                                uint16_t* keys) {
#if defined(__AVX512BW__)
  __m512i key[N];
  for (int i = 0; i < N; ++i) key[i] = _mm512_set1_epi16(int16_t(subtree.base));
  for (int s = 0; s < subtree.n_steps; ++s) {
    const __m512i bound = _mm512_set1_epi16(steps[s].bound), weight = _mm512_set1_epi16(int16_t(steps[s].weight));
    const int16_t* x = codes + steps[s].column * stride;
    GLASSWOOD_UNROLL
    for (int i = 0; i < N; ++i) {
      const __mmask32 above = _mm512_cmpgt_epi16_mask(_mm512_loadu_si512(x + i * kKeyLanes), bound);
      key[i] = _mm512_mask_add_epi16(key[i], above, key[i], weight);
    }
  }
  for (int i = 0; i < N; ++i) _mm512_storeu_si512(keys + i * kKeyLanes, key[i]);
#else
  KeyVector key[N];
  for (int i = 0; i < N; ++i) key[i] = KeyVector{} + uint16_t(subtree.base);
  for (int s = 0; s < subtree.n_steps; ++s) {
    const CodeVector bound = CodeVector{} + steps[s].bound;
    const KeyVector weight = KeyVector{} + uint16_t(steps[s].weight);
    const int16_t* x = codes + steps[s].column * stride;
    GLASSWOOD_UNROLL
    for (int i = 0; i < N; ++i) {
      CodeVector code;
      __builtin_memcpy(&code, x + i * kKeyLanes, sizeof(code));
      key[i] += KeyVector(code > bound) & weight;
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
    uint16_t* keys = space.keys + i * space.tile;
    int at = 0;
    for (; at + 4 * kKeyLanes < n_rows; at += 8 * kKeyLanes)
      find_keys<8>(subtree, steps, codes + at, space.stride, keys + at);
    for (; at + kKeyLanes < n_rows; at += 2 * kKeyLanes)
      find_keys<2>(subtree, steps, codes + at, space.stride, keys + at);
    for (; at < n_rows; at += kKeyLanes) find_keys<1>(subtree, steps, codes + at, space.stride, keys + at);
  }
}

// What is on its way to the second-level cache while rows pass: the next group's tables, line after line. Asked for all
// at once they would hold up the rows until they have come.
struct Stream {
  static constexpr int kLine = 64;
  const char *at, *end;
  int lines;  // of each call that adds

  // `n` lines of a call: how many each row asks for, and rows that do.
  struct Share {
    const char* at;
    int per_row, n_rows;
  };
  Share take(int n_rows) {
    const int64_t left = (end - at + kLine - 1) / kLine, n = lines < left ? lines : left;
    const int per_row = int((n + n_rows - 1) / n_rows);
    const Share share{at, per_row, per_row ? int(n / per_row) : 0};
    at += int64_t(share.n_rows) * per_row * kLine;
    return share;
  }
};

// Adds vectors of the entries of G subtrees to the sums of rows: N of the `stride` that a state has, whose first is
// `table`'s and `sums`'. The tables of four subtrees stay in the first-level cache. Out of line, the loop keeps its
// registers: rows pass 1.1 times as fast.
template <class Real, int L, int N, int G>
__attribute__((noinline)) void add_subtrees(const Subtree* subtrees, const Real* table, const uint16_t* keys, int tile,
                                            int n_rows, int stride, Real* sums, Stream::Share ahead) {
  using V = Pack<Real, N * L>;
  const char* first[G];
  GLASSWOOD_UNROLL
  for (int g = 0; g < G; ++g) first[g] = reinterpret_cast<const char*>(table + subtrees[g].first_vector * L);
  const uint64_t step = uint64_t(stride) * (L * sizeof(Real) / kKeyScale);
  const auto add = [&](int r) {
    V* to = reinterpret_cast<V*>(sums + int64_t(r) * stride * L);
    V sum = *to;
    GLASSWOOD_UNROLL
    for (int g = 0; g < G; ++g) sum += *reinterpret_cast<const V*>(first[g] + keys[g * tile + r] * step);
    *to = sum;
  };
  int r = 0;
  for (; r < ahead.n_rows; ++r) {
    for (int i = 0; i < ahead.per_row; ++i, ahead.at += Stream::kLine) __builtin_prefetch(ahead.at, 0, 2);
    add(r);
  }
  for (; r < n_rows; ++r) add(r);
}

// The first rows of a block wait for most lines of a table: those of subtrees to come are asked for ahead.
template <class Real, int L>
GLASSWOOD_INLINE void fetch_entries(const Subtree* subtrees, int n_subtrees, const Real* table, const uint16_t* keys,
                                    int tile, int n_rows, int stride) {
  constexpr int kLine = 64;
  const int size = stride * L * int(sizeof(Real));
  for (int s = 0; s < n_subtrees; ++s) {
    const char* first = reinterpret_cast<const char*>(table + subtrees[s].first_vector * L);
    for (int r = 0; r < n_rows; ++r) {
      const char* entry = first + keys[s * tile + r] * uint64_t(size / kKeyScale);
      for (int at = 0; at < size; at += kLine) __builtin_prefetch(entry + at, 0, 2);
    }
  }
}

// The sums of a chunk's entries for a tile of rows, [row][state_vectors of the chunk][lane].
template <class Real, int L, int N>
void sum_entries(const PassTask<Real>& task, const PassSpace<Real>& space, const TableChunk& chunk, const Real* table,
                 int n_rows, bool fetches, Stream& ahead, int first, int stride) {
  const Subtree* subtrees = task.plan.subtrees + chunk.first_subtree;
  const Real* from = table + first * L;
  Real* sums = space.sums + first * L;
  const int n = chunk.n_subtrees;
  int s = 0;
  for (; s + kTogether <= n; s += kTogether) {
    const int n_next = n - s - kTogether < kTogether ? n - s - kTogether : kTogether;
    if (fetches && first == 0)
      fetch_entries<Real, L>(subtrees + s + kTogether, n_next, table, space.keys + (s + kTogether) * space.tile,
                             space.tile, n_rows, stride);
    add_subtrees<Real, L, N, kTogether>(subtrees + s, from, space.keys + s * space.tile, space.tile, n_rows, stride,
                                        sums, ahead.take(n_rows));
  }
  for (; s < n; ++s)
    add_subtrees<Real, L, N, 1>(subtrees + s, from, space.keys + s * space.tile, space.tile, n_rows, stride, sums, {});
}

template <class Real, int L>
void sum_tile(const PassTask<Real>& task, const PassSpace<Real>& space, const TableChunk& chunk, const Real* table,
              int n_rows, bool fetches, Stream& ahead) {
  const int n = chunk.state_vectors;
  __builtin_memset(space.sums, 0, sizeof(Real) * L * n_rows * n);
  if (n == 1) return sum_entries<Real, L, 1>(task, space, chunk, table, n_rows, fetches, ahead, 0, 1);
  if (n == 2) return sum_entries<Real, L, 2>(task, space, chunk, table, n_rows, fetches, ahead, 0, 2);
  if constexpr (L == kPairLanes) {
    int first = 0;
    for (; first + 2 <= n; first += 2)
      sum_entries<Real, L, 2>(task, space, chunk, table, n_rows, fetches, ahead, first, n);
    if (first < n) sum_entries<Real, L, 1>(task, space, chunk, table, n_rows, fetches, ahead, first, n);
  }
}

// The next group's tables come closer while rows pass this one's, `n_calls` times that some are added: random look-ups
// would wait for each line.
template <class Real, int L>
Stream stream_of(const TableChunk* first, const TableChunk* end, const Real* table, int64_t n_calls) {
  constexpr int64_t kVector = L * sizeof(Real);
  if (first == end || n_calls == 0) return {};
  const char* start = reinterpret_cast<const char*>(table + first->first_vector * L);
  int64_t n_vectors = 0;
  for (const TableChunk* chunk = first; chunk < end; ++chunk) n_vectors += chunk->n_vectors;
  const int64_t n_lines = (n_vectors * kVector + Stream::kLine - 1) / Stream::kLine;
  return {start, start + n_vectors * kVector, int((n_lines + n_calls - 1) / n_calls)};
}

// How often a tile of rows adds up several subtrees of the chunks.
template <int L>
int64_t n_calls_of(const TableChunk* first, const TableChunk* end) {
  int64_t result = 0;
  for (const TableChunk* chunk = first; chunk < end; ++chunk)
    result += int64_t(chunk->n_subtrees / kTogether) * (L == kPairLanes ? (chunk->state_vectors + 1) / 2 : 1);
  return result;
}

// Chunks of one output that together stay in the second-level cache.
template <class Real, int L>
const TableChunk* end_of_group(const TableChunk* chunk, const TableChunk* end) {
  constexpr int64_t kGroupVectors = (512 << 10) / (L * sizeof(Real));
  int64_t n_vectors = chunk->n_vectors;
  const int32_t output = chunk->output;
  for (++chunk; chunk < end && chunk->output == output; ++chunk)
    if ((n_vectors += chunk->n_vectors) > kGroupVectors) break;
  return chunk;
}

// A block of rows' entries of the chunks that are an output's; `add(chunk, row, n)` takes the sums of each tile.
template <class Real, int L, class Add>
void pass_chunks(const PassTask<Real>& task, const PassSpace<Real>& space, int output, int n_rows, const Add& add) {
  constexpr int kWorthwhile = 512;  // rows that look up most of a group's lines
  constexpr int kFirstRows = 1024;  // which find most lines of a table far away, where nobody has asked for all
  const bool has_width = task.plan.width > 1;
  const Real* table = task.table + ((has_width ? output * task.n_vectors : 0) - task.first_vector) * L;
  const TableChunk *chunk = task.plan.chunks + task.first_chunk, *end = chunk + task.n_chunks;
  while (!has_width && chunk < end && chunk->output < output) ++chunk;
  const int tile = space.tile, n_tiles = (n_rows + tile - 1) / tile;
  const bool streams = n_rows >= kWorthwhile;
  bool is_near = streams && !has_width && output > 0;  // the group's tables, since the last output's rows passed
  while (chunk < end && (has_width || chunk->output == output)) {
    const TableChunk *next = end_of_group<Real, L>(chunk, end), *after = next;
    if (streams && next < end) after = end_of_group<Real, L>(next, end);
    const int64_t n_calls = n_tiles * n_calls_of<L>(chunk, next);
    Stream ahead = stream_of<Real, L>(next, after, table, n_calls);
    for (int i = 0; i < n_tiles; ++i) {
      const int row = i * tile, n = n_rows - row < tile ? n_rows - row : tile;
      for (const TableChunk* one = chunk; one < next; ++one) {
        find_tile_keys(task, space, *one, row, n);
        sum_tile<Real, L>(task, space, *one, table, n, !is_near && row < kFirstRows, ahead);
        add(*one, row, n);
      }
    }
    chunk = next, is_near = after > next && n_calls > 0;
  }
}

}  // namespace
}  // namespace glasswood
