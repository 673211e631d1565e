// What the bindings of subtree tables hand to the kernels, and the table through which they reach those of the
// machine's instruction set. Plain data (common/threads/team.h says why).
#pragma once
#include "common/rows.h"
#include "common/threads/team.h"
#include "explain/cpu/task.h"
#include "explain/tables/columns.h"

namespace glasswood {

struct Subtree;
struct SubtreeSplit;
struct Cell;
struct PathFactor;
struct KeyStep;
struct RowStep;
struct TableChunk;
struct SubtreeLeaf;
struct PlayerPair;
enum class TableContent : int32_t;

// The arrays of a TablePlan.
struct TableArrays {
  const Subtree* subtrees;
  const SubtreeSplit* splits;
  const Cell* cells;
  const uint16_t* bits;
  const PathFactor* factors;
  const KeyStep* steps;
  const TableChunk* chunks;
  const int32_t* slot_player;
  const int32_t* sum_total;
  const PlayerPair* totals;
  const int64_t* first_total;
  const SubtreeLeaf* leaves;
  const uint8_t* leaf_lanes;
  const double* leaf_shares;
  const uint16_t* axis_states;
  const uint16_t* unmet;
  int64_t n_vectors, most_patterns, most_unmet;
  TableContent content;
  int32_t n_chunks, lanes, is_wide, width, most_subtrees, most_x, most_shared, most_above, most_leaves, most_states;
};

template <class Real>
struct BuildTask {
  TableArrays plan;
  const double* leaf_value;  // [leaf][width]
  const double* points;      // [K - 1][2 kMostPoints]: abscissae, weights
  int32_t first_chunk, n_chunks;
  Real* table;  // [output of a leaf][vector - first_vector][lanes]
  int64_t first_vector, n_vectors;
  // Keys of few rows, [subtree of the chunks][row]: states that no row is in are left out. Null: all are built.
  const uint16_t* keys;
  int32_t n_rows;
  Team team;
  char* workspace;
  int64_t workspace_size;  // bytes of one thread
};

constexpr int kMostPoints = 8;  // quadrature points of a subtree: half of its features

template <class Real>
struct PassTask {
  TableArrays plan;
  const CodeColumn* columns;
  const float* thresholds;
  const uint16_t* category_codes;
  const int32_t* players;  // [place among those of the tables]: place in the result
  int32_t n_columns, n_players, n_result_players, n_outputs;
  RowCoding coding;
  RowSource rows;
  const Real* table;
  int64_t first_vector, n_vectors;  // of the table
  int32_t first_chunk, n_chunks;
  int32_t rows_together;  // of a task
  int32_t tile;           // rows that pass a group of chunks together
  int32_t adds;           // to what the result holds
  int32_t begins, ends;   // whether rows are still to be encoded, and whether the chunks are their last
  int64_t first_task, n_tasks;
  char* blocks;  // of chunks in several batches: what each task keeps between them
  int64_t block_size;
  const int32_t* places;  // of pairs: rank of each player among those asked for, or -1; else null
  int64_t n_places;
  int64_t n_totals;  // of a row, all outputs
  Team team;
  char* workspace;
  int64_t workspace_size;
  int32_t double_out;
  ExplanationTarget<float> out32;
  ExplanationTarget<double> out64;
};

// Weights of background rows by state, in 16 bits where their sum has no more. One is null, or both.
struct StateCounts {
  uint16_t* few;
  int64_t* many;
};

// Background rows that pass together.
template <class Real>
struct CountTask {
  PassTask<Real> pass;    // without tables and target
  const int64_t* weight;  // [row]
  int16_t* codes;         // [column][row], rows padded to whole tiles
  bool is_encoded;        // whether codes are those of the rows
  bool begins;            // whether counts begin at 0
  StateCounts count;      // [subtree's first vector - first_count + state]: += the weights of the rows in that state
  int64_t first_count;
};

// The states of subtrees that background rows are in, each with their weights: [subtree] into states and counts, from
// the first subtree's on.
struct SeenCounts {
  const int64_t* first;    // [subtree + 1]; null: there are none
  const uint16_t* states;  // rising
  const uint32_t* few;     // counts; null: they are many
  const int64_t* many;
};

// Fills tables leaf by leaf: against background rows, or of players of several features from the covers.
template <class Real>
struct LeafGameTask {
  TableArrays plan;
  const double* leaf_value;  // [leaf][width]
  const double* points;      // as of BuildTask
  int32_t first_chunk, n_chunks;
  StateCounts count;  // as of CountTask
  int64_t first_count;
  SeenCounts seen;  // instead of `count`; without either, the covers
  double total;     // of the counts of a subtree
  Real* table;      // [output of a leaf][vector - first_vector][lanes]
  int64_t first_vector, n_vectors;
  const uint16_t* keys;  // as of BuildTask
  int32_t n_rows;
  Team team;
  char* workspace;
  int64_t workspace_size;  // bytes of one thread
};

// One row at a time.
template <class Real>
struct RowTask {
  TableArrays plan;
  const CodeColumn* columns;
  const float* thresholds;
  const uint16_t* category_codes;
  const int32_t* players;
  int32_t n_columns, n_players, n_result_players, n_outputs;
  RowCoding coding;
  const RowStep* steps;
  const int32_t* first_step;  // [block of kRowLanes subtrees + 1] into steps
  const uint16_t* base;       // [subtree], padded to whole blocks and kRowAhead, as below
  const int64_t* first_byte;  // [subtree]: of its table, and bytes from key to key
  const uint16_t* key_bytes;
  int32_t n_blocks;
  const Real* table;
  float* encoded;  // [feature]
  int16_t* codes;  // [column], padded to kRowLanes, and to the four registers that hold them
  uint16_t* keys;  // [subtree]
  double* total;   // [player of the tables], padded to lanes
  Real* values;    // [player][output]
};

template <class Real>
struct TypedTableKernels {
  int64_t (*build_workspace)(const BuildTask<Real>&);
  void (*build)(const BuildTask<Real>&);
  int64_t (*count_workspace)(const CountTask<Real>&);
  void (*count)(const CountTask<Real>&);
  int64_t (*leaf_game_workspace)(const LeafGameTask<Real>&);
  void (*build_leaf_game)(const LeafGameTask<Real>&);
  int64_t (*pass_workspace)(const PassTask<Real>&);
  int64_t (*block_size)(const PassTask<Real>&);
  void (*begin)(const PassTask<Real>&);
  void (*find_keys)(const PassTask<Real>&, uint16_t* keys);
  void (*pass)(const PassTask<Real>&);
  void (*row)(const RowTask<Real>&, const RowSource&);
};

struct TableKernels {
  TypedTableKernels<float> single;
  TypedTableKernels<double> twice;
};

}  // namespace glasswood
