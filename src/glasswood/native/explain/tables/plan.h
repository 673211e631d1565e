// The plan of subtree tables as plain arrays, for cores and GPUs alike (docs/internals/tables.md has the terms and the
// maths).
//
// A *subtree* is the set of leaves below one node of a tree, its root. What these leaves add to a row's values depends
// on one *state* a feature of the paths through the root: outside of what the path to the root lets pass, or which of
// the classes that the splits below tell apart. The product of the states numbers the row's *key*; the subtree's table
// holds a finished vector of values a key.
#pragma once
#include <cstdint>
#include <vector>

#include "common/unset_vector.h"
#include "explain/tables/columns.h"
#include "explain/tables/splits.h"

namespace glasswood {

// key += weight where the row's code in the column is above `bound`; weights wrap around at 2^16.
struct KeyStep {
  uint16_t column;
  int16_t bound;
  uint16_t weight;
  uint16_t padding;
};

// The same step of kRowLanes subtrees, for one row; subtrees of fewer steps have weights of 0.
constexpr int kRowLanes = 32;
constexpr int kRowAhead = 64;  // subtrees whose entries are fetched before they are added
struct alignas(64) RowStep {
  int16_t bound[kRowLanes];
  uint16_t weight[kRowLanes];
  uint16_t column[kRowLanes];
};

constexpr int kKeyScale = 4;  // keys are 4 times the state's number, which reaches 32 bytes by one address mode
constexpr int32_t kMostStates = 1 << 14;  // of a subtree, so that keys are 16 bits
constexpr int kMostLanes = 16;            // features of a subtree; more have more states than that
constexpr int kValueLanes = 8;            // of a vector of values: most subtrees have no more features

// Totals of a row where each player has its own.
constexpr int lanes_of_totals(int n_players) { return n_players > kValueLanes ? kMostLanes : kValueLanes; }

// What a state's entry in a table holds: a value a feature, or a small matrix of interactions (pairs.h).
enum class TableContent : int32_t { kValues, kPairs };

// Which game it is of, and how a table is filled: with that of the covers split by split; leaf by leaf, as interactions
// and players of several features need; or with that against background rows, also leaf by leaf. Positions of leaves
// are players.
enum class TableGame : int32_t { kCovers, kLeafCovers, kBackground };

// A table by points (explain/cuda/tables/format.h): the numbers of a vector, of a cell's entry, where the entry begins
// behind the first, and the numbers of all. The padding makes entries an odd number of 16 bytes, and skips 16
// bytes after each eight, so that those of neighbouring rows begin in different banks of a GPU's shared memory.
constexpr int32_t point_vector(int32_t n_points) { return (n_points + 3) / 4 * 4; }
constexpr int64_t point_entry(int32_t n_points, int32_t n_below) { return point_vector(n_points) * (n_below + 1) + 4; }
constexpr int64_t point_place(int64_t cell, int64_t entry) { return cell * entry + cell / 8 * 4; }
constexpr int64_t point_numbers(int32_t n_points, int32_t n_below, int32_t n_above, int64_t n_cells) {
  return point_vector(n_points) * (2 + n_above) + (n_above + 3) / 4 * 4 +
         point_place(n_cells, point_entry(n_points, n_below));
}

struct Subtree {
  int32_t tree, output;
  int32_t n_states;          // n_cells << n_above
  int32_t n_cells, n_above;  // n_above: features on the path to the root alone, and alone of their player
  int32_t n_points;          // quadrature points that make its leaves exact
  int32_t n_splits;          // children first, the root last; 0: the leaf `leaf`
  int32_t leaf;
  int32_t n_x;       // cells of all its splits
  int32_t n_shared;  // features on the path to the root and below it
  int32_t n_lanes;
  uint32_t lanes;  // bits of its features' lanes
  int32_t n_steps;
  uint16_t base;                      // key before the steps
  int64_t first_split, first_factor;  // factors: shared ones, then those above
  int64_t first_bits;                 // [cell]: bit i: inside of shared feature i's path
  int64_t first_step, first_lane;
  int64_t first_vector;  // of its table, in vectors of the plan's lanes
  int64_t first_leaf;    // of games by leaves
  int64_t first_axis;    // of these: the features whose states make the cells, first those below
  int32_t n_leaves, n_axes;
  int32_t by_points;  // 0, or the points of a table by points, whose lanes are those below, then others
};

// Subtrees whose tables stay in the second-level cache while rows pass; their features share the chunk's slots, a
// subtree's lanes. Their sum is taken in the type of the tables, sums over chunks in float64.
struct TableChunk {
  int32_t first_subtree, n_subtrees;
  int32_t first_slot, n_slots;  // into slot_player
  int32_t output;
  int32_t state_vectors;  // of the plan's lanes that a state has
  int64_t first_vector, n_vectors;
  int64_t first_sum;  // into sum_total
  int32_t n_sums;     // its slots, or pairs of them
  int32_t padding;
};

// Two players, the first not above the second; equal ones are the player's value.
struct PlayerPair {
  int32_t first, second;
};

struct TablePlan {
  TableContent content = TableContent::kValues;
  int32_t lanes = kValueLanes;    // of a vector: 8 of values, 16 of pairs
  bool is_wide = false;           // more players than an entry has room for; else totals are players
  int32_t width = 1;              // outputs of a leaf: as many tables, one behind the other
  int64_t n_vectors = 0;          // of one output
  int32_t most_subtrees = 0;      // of a chunk
  UnsetVector<Subtree> subtrees;  // by output and chunk, then by tree
  // The game of the covers.
  int32_t most_x = 0, most_shared = 0, most_above = 0;
  UnsetVector<SubtreeSplit> splits;
  UnsetVector<Cell> cells;
  UnsetVector<uint16_t> bits;
  UnsetVector<PathFactor> factors;
  // Games by leaves; most_patterns: sum of 2^positions over a subtree's leaves; most_unmet: its cells times its
  // leaves, in vectors of kLeafLanes.
  int64_t most_patterns = 0, most_unmet = 0;
  int32_t most_leaves = 0, most_states = 0;
  UnsetVector<SubtreeLeaf> leaves;
  UnsetVector<uint8_t> leaf_lanes;
  UnsetVector<double> leaf_shares;    // of groups, as leaf_lanes: the product of the cover ratios of the player's edges
  UnsetVector<uint16_t> axis_states;  // [axis of a subtree]: how many
  UnsetVector<uint16_t> unmet;        // of a leaf, [state of an axis], one axis behind the other (cell_conditions.h)
  // What rows pass.
  UnsetVector<KeyStep> steps;
  UnsetVector<int32_t> lane_player;  // as places among ForestCodes::players
  std::vector<TableChunk> chunks;
  std::vector<int32_t> slot_player;
  std::vector<int32_t> sum_total;       // [sum of a chunk]: the total that it goes to
  std::vector<PlayerPair> totals;       // of each output, one behind the other
  std::vector<int64_t> first_total{0};  // [tree_output + 1] into totals
  std::vector<int32_t> walked_trees;    // left to the walk in whole or in part, rising
  std::vector<int64_t> cut_nodes;       // of walked trees, all below in tables: leaves of value 0 to the walk

  int64_t n_bytes() const {
    const auto size = [](const auto&... arrays) { return (int64_t(arrays.size() * sizeof(arrays[0])) + ...); };
    return size(subtrees, splits, cells, bits, factors, leaves, leaf_lanes, leaf_shares, axis_states, unmet, steps,
                lane_player, chunks, slot_player, sum_total, totals, first_total, walked_trees, cut_nodes);
  }
};

}  // namespace glasswood
