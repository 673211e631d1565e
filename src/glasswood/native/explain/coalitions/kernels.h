// What the bindings of coalitions hand to the kernels, and the table through which they reach those of the machine's
// instruction set. Plain data (common/instruction_set.h says why).
//
// For one row a against one background row c, a leaf is reached by the coalitions S that hold all players of P, whose
// conditions c does not meet, and none of N, whose conditions a does not meet: by none where P and N share a player.
// Conditions that a row does not meet are bits of its *mask* at the leaf.
#pragma once
#include "common/rows.h"
#include "common/threads/team.h"

namespace glasswood {

constexpr int kLeafBlock = 64;    // leaves that are tested together
constexpr int kMostPlayers = 28;  // on which two rows differ

// The names of these numbers are RESPONSE_… in Python, which passes them to kernels of GPUs as macros.
enum class CoalitionResponse : int32_t { kMargin, kLogistic, kSoftmax, kExp, kLogLoss, kSoftmaxLoss };
enum class CoalitionIndex : int32_t { kValues, kPairs, kSets };

// Equations of linear leaves, by the forest's numbers of leaves.
struct CoalitionModels {
  const int32_t* number;  // [leaf]; null: constant leaves
  const int64_t* offsets;
  const int32_t *feature, *category;
  const double *coefficient, *mean;
  const double* value;
  const double* range;    // [2]
  const double* missing;  // null: a missing number counts as its mean
  const double* weight;   // [leaf]: of its tree
  const int32_t* player;  // [feature]
};

// Leaves of one output after the other, each output's padded to whole blocks.
struct CoalitionLeaves {
  int64_t n_leaves;
  int32_t mask_bytes, width, n_outputs, n_players;
  const int64_t* first;  // [output + 1] of scalar leaves, {0, n_leaves} of vectors
  const int64_t* value;  // [leaf][width] in units
  const double* base;    // [output]: margin of units 0
  double unit;
  const int32_t* bit_player;   // [bit]; null: bits are positions on the leaf's path
  const int32_t* player_bit;   // [player]
  const int64_t* first_place;  // [leaf] into place_player
  const int32_t* place_player;
  CoalitionModels models;
};

struct CoalitionRows {
  int64_t n;
  const void* masks;   // [row][leaf]
  const void* shared;  // [row][block]: bits of all masks of the block
  RowSource source;    // of linear leaves
};

struct CoalitionTask {
  CoalitionLeaves leaves;
  CoalitionRows rows, background;
  const double* share;  // [background row]
  CoalitionResponse response;
  double scale;           // of the margins, before the response
  const int32_t* labels;  // [row]; of losses
  CoalitionIndex index;
  const int32_t* places;  // [player]: place among those whose pairs are asked for, or -1
  int32_t n_places;
  const int32_t* sets;  // [set][4], padded with -1
  int64_t n_sets;
  int32_t is_banzhaf;
  int32_t most;         // players on which a pair of rows may differ; others are left out
  int32_t n_responses;  // a coalition
  int64_t together;     // background rows of one sum
  int64_t n_entries;    // of a row: index by response
  double* sums;         // [row][sum][entry]
  int32_t* n_differ;    // [row][background row]
  // For pairs one by one, whose responses are computed elsewhere.
  const int64_t* pairs;  // [pair][2]
  int64_t n_pairs;
  const int64_t* first;     // [pair]: into coalitions
  double* margins;          // [coalition][output], written
  const double* responses;  // [coalition][response], read; null: margins are asked for
  // For pairs one by one, players who join in some orders.
  const int32_t* ranks;  // [pair][chain][player]: when a player joins, -1 for those on which the pair does not differ
  int32_t n_chains;
  double* margin_values;  // [pair][player][output]: of the margin; null: not asked for
  Team team;
  char* workspace;
  int64_t workspace_size;  // bytes of one thread
};

struct CoalitionKernels {
  int64_t (*workspace)(const CoalitionTask&);
  void (*explain)(const CoalitionTask&);    // sums of responses that the kernels know
  void (*differing)(const CoalitionTask&);  // n_differ alone
  void (*pairs)(const CoalitionTask&);      // margins, or the sums of responses, a sum a pair
  void (*players)(const CoalitionTask&);    // on which each pair differs, to n_differ from first[pair] on
  void (*chains)(const CoalitionTask&);     // margins while players join, from first[pair] on
  void (*averages)(const CoalitionTask&);   // responses over the background, margins [row][response][coalition]
};

}  // namespace glasswood
