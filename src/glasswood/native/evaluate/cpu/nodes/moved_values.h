// Margins of rows whose values in one column are those of other rows: permutation importance. Included by
// evaluate/cpu/nodes/kernels.cpp only.
//
// A word is 64 rows. All splits of a tree are asked about the rows as they are. For other values in a column only its
// own splits are asked again; rows on whose way one of them answers otherwise walk down once more, several side by
// side, all others (nine of ten in boosted trees) keep their leaf. Sums have the order, and so the bits, of
// predictions.
#pragma once
#include "evaluate/cpu/nodes/decisions.h"
#include "evaluate/cpu/nodes/row_lanes.h"
#include "evaluate/cpu/nodes/rows.h"

namespace glasswood {
namespace {

constexpr int kWordRows = 64;
constexpr int64_t kRowsEncoded = 4096;  // of a column, in one task

// Calls visit(row) for each row of the word.
template <class Visit>
GLASSWOOD_INLINE void for_each_row(uint64_t rows, const Visit& visit) {
  for (; rows; rows &= rows - 1) visit(__builtin_ctzll(rows));
}

template <class Code>
class MovedValues {
 public:
  MovedValues(const MovedTask& task, Arena& arena)
      : task_(task),
        forest_(task.forest),
        n_sums_(int64_t(task.n_moved) * task.n_sources * forest_.n_outputs),
        codes_(arena.take<Code>(int64_t(forest_.n_columns) * kWordRows)),
        flags_(arena.take<Code>(int64_t(forest_.n_columns) * kWordRows)),
        moved_codes_(arena.take<Code>(int64_t(task.n_moved) * task.n_sources * kWordRows)),
        moved_flags_(arena.take<Code>(int64_t(task.n_moved) * task.n_sources * kWordRows)),
        sums_(arena.take<double>(n_sums_ * kWordRows)),
        value_(arena.take<double>(int64_t(forest_.width) * kWordRows)),
        own_value_(arena.take<double>(int64_t(forest_.width) * kWordRows)),
        reached_(arena.take<uint64_t>(forest_.most_nodes)),
        own_right_(arena.take<uint64_t>(forest_.most_nodes)),
        right_(arena.take<uint64_t>(forest_.most_nodes)),
        left_(arena.take<int64_t>(forest_.most_nodes)),
        value_at_(arena.take<int64_t>(forest_.most_nodes)),
        by_column_(arena.take<int32_t>(forest_.most_nodes)),
        first_(arena.take<int32_t>(forest_.n_columns + 2)) {}

  void evaluate(int64_t first_row, int n_rows) {
    encode(first_row, n_rows);
    for (int64_t i = 0; i < n_sums_; ++i)
      for (int row = 0; row < kWordRows; ++row) sums_[i * kWordRows + row] = forest_.base_score[i % forest_.n_outputs];
    for (int tree = 0; tree < forest_.n_trees; ++tree) add_tree(tree);
    const int64_t n_outputs = forest_.n_outputs;
    for (int64_t i = 0; i < n_sums_; ++i) {
      double* out = task_.out + i / n_outputs * task_.rows.n_rows * n_outputs + first_row * n_outputs + i % n_outputs;
      for (int row = 0; row < n_rows; ++row) out[row * n_outputs] = sums_[i * kWordRows + row];
    }
  }

 private:
  using Lanes = RowLanes<Code>;
  const MovedTask& task_;
  const NodeTables& forest_;
  int64_t n_sums_;
  Code *codes_, *flags_;              // [column][row]
  Code *moved_codes_, *moved_flags_;  // [moved][source][row]
  double* sums_;                      // [moved][source][output][row]
  double *value_, *own_value_;        // [output of the tree][row]: that of the row's leaf
  uint64_t* reached_;                 // [node]: rows as they are
  uint64_t* own_right_;               // [split]: rows as they are
  // [node]: rows that go right, the left child, and where the values of a leaf are, which is its own left child and
  // sends no row right.
  uint64_t* right_;
  int64_t *left_, *value_at_;
  int32_t *by_column_, *first_;  // splits of each column, in the order of the nodes

  void encode(int64_t first_row, int n_rows) {
    encode_codes(task_, first_row, n_rows, CodeOrder<false>{kWordRows}, codes_, flags_);
    const Code *codes = static_cast<const Code*>(task_.moved_codes), *flags = codes + task_.rows.n_rows * task_.n_moved;
    for (int i = 0; i < task_.n_moved; ++i)
      for (int source = 0; source < task_.n_sources; ++source) {
        const int64_t at = (int64_t(i) * task_.n_sources + source) * kWordRows;
        const int64_t* from = task_.sources + source * task_.rows.n_rows + first_row;
        for (int row = 0; row < kWordRows; ++row) {
          const bool is_row = row < n_rows;
          const int64_t place = i * task_.rows.n_rows + (is_row ? from[row] : 0);
          moved_codes_[at + row] = is_row ? codes[place] : Code(0);
          moved_flags_[at + row] = is_row ? flags[place] : Code(0);
        }
      }
  }

  // codes, flags: of the split's column.
  uint64_t right(const LaneSplit& split, const Code* codes, const Code* flags) const {
    const Lanes lanes{forest_, codes, flags, 0, nullptr};
    uint64_t word = 0;
    GLASSWOOD_UNROLL
    for (int row = 0; row < kWordRows; row += Lanes::kLanes) {
      typename Lanes::Mask right[1];
      lanes.template decide<1, true, true>(split, row, right);
      word |= bits_of<Code>(right[0]) << row;
    }
    return word;
  }

  void add_tree(int number) {
    const NodeTree& tree = forest_.trees[number];
    const LaneSplit* splits = forest_.lane_splits + tree.first_lane;
    list_columns(splits, tree.n_lane_splits);
    for (int i = 0; i < tree.n_lane_splits; ++i) {
      const int64_t at = int64_t(splits[i].column) * kWordRows;
      own_right_[i] = right(splits[i], codes_ + at, flags_ + at);
      right_[node_of(tree, splits, i)] = own_right_[i];
    }
    if (!tree.is_oblivious) reach(tree, splits);
    take_values(tree, ~uint64_t(0));
    for (int i = 0; i < forest_.width * kWordRows; ++i) own_value_[i] = value_[i];
    double* sums = sums_ + int64_t(forest_.width == 1 ? forest_.tree_output[number] : 0) * kWordRows;
    for (int i = 0; i < task_.n_moved; ++i)
      for (int source = 0; source < task_.n_sources; ++source) {
        const int64_t at = int64_t(i) * task_.n_sources + source;
        add_moved(tree, splits, task_.moved[i], at * kWordRows, sums + at * forest_.n_outputs * kWordRows);
      }
  }

  void list_columns(const LaneSplit* splits, int n_splits) {
    for (int c = 0; c <= forest_.n_columns + 1; ++c) first_[c] = 0;
    for (int i = 0; i < n_splits; ++i) ++first_[splits[i].column + 2];
    for (int c = 0; c < forest_.n_columns; ++c) first_[c + 2] += first_[c + 1];
    for (int i = 0; i < n_splits; ++i) by_column_[first_[splits[i].column + 1]++] = i;
  }

  // Which nodes the rows as they are reach.
  void reach(const NodeTree& tree, const LaneSplit* splits) {
    reached_[0] = ~uint64_t(0);
    for (int i = 0; i < tree.n_lane_splits; ++i) {
      const uint64_t here = reached_[splits[i].node];
      reached_[splits[i].left] = here & ~own_right_[i];
      reached_[splits[i].left + 1] = here & own_right_[i];
      left_[splits[i].node] = splits[i].left;
    }
    const LaneLeaf* leaves = forest_.lane_leaves + tree.first_lane_leaf;
    for (int i = 0; i <= tree.n_lane_splits; ++i) {
      const int32_t node = leaves[i].node;
      right_[node] = 0, left_[node] = node;
      value_at_[node] = int64_t(tree.first_leaf + leaves[i].number) * forest_.width;
    }
  }

  void add_moved(const NodeTree& tree, const LaneSplit* splits, int32_t column, int64_t at, double* sums) {
    const int32_t *begin = by_column_ + first_[column], *end = by_column_ + first_[column + 1];
    uint64_t moved = 0;
    for (const int32_t* i = begin; i < end; ++i) {
      const int32_t node = node_of(tree, splits, *i);
      right_[node] = right(splits[*i], moved_codes_ + at, moved_flags_ + at);
      moved |= (right_[node] ^ own_right_[*i]) & (tree.is_oblivious ? ~uint64_t(0) : reached_[node]);
    }
    take_values(tree, moved);
    for (int i = 0; i < forest_.width * kWordRows; ++i) sums[i] += value_[i];
    for_each_row(moved, [&](int row) {
      for (int k = 0; k < forest_.width * kWordRows; k += kWordRows) value_[k + row] = own_value_[k + row];
    });
    for (const int32_t* i = begin; i < end; ++i) right_[node_of(tree, splits, *i)] = own_right_[*i];
  }

  // The split's node; in an oblivious tree the level, which is a bit of the leaf's number.
  static GLASSWOOD_INLINE int32_t node_of(const NodeTree& tree, const LaneSplit* splits, int32_t split) {
    return tree.is_oblivious ? split : splits[split].node;
  }

  // Some rows' leaves. As many steps for all of them: none waits for a branch that the last one has mispredicted. A
  // function of its own, whose loop has the registers to itself.
  __attribute__((noinline)) void take_values(const NodeTree& tree, uint64_t rows) {
    const uint64_t* const right = right_;
    const int64_t *const left = left_, *const value_at = value_at_;
    const int levels = tree.levels;
    if (tree.is_oblivious)
      for_each_row(rows, [&](int row) {
        int64_t number = 0;
        for (int level = 0; level < levels; ++level) number = 2 * number + int64_t(right[level] >> row & 1);
        take_value(row, (tree.first_leaf + number) * forest_.width);
      });
    else
      for_each_row(rows, [&](int row) {
        int64_t at = 0;
        GLASSWOOD_NO_UNROLL
        for (int level = 0; level < levels; ++level) at = left[at] + int64_t(right[at] >> row & 1);
        take_value(row, value_at[at]);
      });
  }

  GLASSWOOD_INLINE void take_value(int row, int64_t at) {
    value_[row] = forest_.value[at];
    for (int k = 1; k < forest_.width; ++k) value_[k * kWordRows + row] = forest_.value[at + k];
  }
};

template <class Code, class Input>
void encode_moved(const MovedTask& task, int64_t number) {
  const int64_t n_rows = task.rows.n_rows, tasks_each = (n_rows + kRowsEncoded - 1) / kRowsEncoded;
  const int64_t i = number / tasks_each, first = number % tasks_each * kRowsEncoded;
  const int64_t end = first + kRowsEncoded < n_rows ? first + kRowsEncoded : n_rows;
  const NodeColumn& column = task.forest.columns[task.moved[i]];
  const Input* values = static_cast<const Input*>(task.rows.data) + column.feature * task.rows.feature_stride;
  Code *codes = static_cast<Code*>(task.moved_codes) + i * n_rows, *flags = codes + task.n_moved * n_rows;
  bool missing = false;
  for (int64_t row = first; row < end; ++row)
    codes[row] = code_of<Code>(task, column, values[row * task.rows.row_stride], flags[row], missing);
}

template <class Code>
int64_t moved_bytes(const MovedTask& task) {
  Arena arena{nullptr};
  const MovedValues<Code> counted(task, arena);
  return arena.used();
}

int64_t moved_workspace(const MovedTask& task) {
  return task.forest.code_type == CodeType::kByte ? moved_bytes<uint8_t>(task) : moved_bytes<uint16_t>(task);
}

template <class Code>
void evaluate_words(const MovedTask& task) {
  const int64_t n_rows = task.rows.n_rows;
  share_out(task.team, task.n_moved * ((n_rows + kRowsEncoded - 1) / kRowsEncoded), [&](int64_t number, int32_t) {
    task.rows.is_double ? encode_moved<Code, double>(task, number) : encode_moved<Code, float>(task, number);
  });
  share_out(task.team, (n_rows + kWordRows - 1) / kWordRows, [&](int64_t word, int32_t thread) {
    Arena arena{task.workspace + thread * task.workspace_size};
    const int64_t first = word * kWordRows, rest = n_rows - first;
    MovedValues<Code>(task, arena).evaluate(first, int(rest < kWordRows ? rest : kWordRows));
  });
}

void evaluate_moved(const MovedTask& task) {
  task.forest.code_type == CodeType::kByte ? evaluate_words<uint8_t>(task) : evaluate_words<uint16_t>(task);
}

}  // namespace
}  // namespace glasswood
