// What every kernel of the evaluation is handed: rows, threads, memory and where the results go. Plain data
// (common/instruction_set.h says why).
#pragma once
#include "common/arena.h"
#include "common/classes.h"
#include "common/rows.h"
#include "common/threads/team.h"
#include "evaluate/cpu/linear/leaves.h"

namespace glasswood {

struct RowsTask {
  RowCoding coding;
  ClassCoding classes;
  RowSource rows;
  Team team;
  int32_t n_threads;  // of the team at most
  char* workspace;    // n_threads * workspace_size bytes, 64-byte aligned
  int64_t workspace_size;
  double* margin;  // [row][output], or null
  int32_t* leaf;   // [row][tree], or null
  LinearLeaves linear;
};

namespace {

// Adds a tree to the margins of some rows, or notes the leaves' ids. Task is a RowsTask with the tables `forest`.
template <class Task>
struct RowSink {
  const Task& task;
  int64_t first_row;
  int n_rows;
  double* margin;  // [output][stride]
  int stride;
  LinearNumbers numbers = {};

  // The rows' places, one each, among the values from `first` on.
  GLASSWOOD_INLINE void take(int tree, int64_t first, const int32_t* places) const {
    const auto& forest = task.forest;
    if (task.leaf)
      for (int row = 0; row < n_rows; ++row)
        task.leaf[(first_row + row) * forest.n_trees + tree] = forest.leaf_id[first + places[row]];
    if (!task.margin) return;
    const double* value = forest.value + first * forest.width;
    if (forest.width == 1) {
      double* sum = margin + int64_t(forest.tree_output[tree]) * stride;
      if (task.linear.kernels)
        return task.linear.kernels->add(task.linear, tree, forest.leaf_place + first, places, linear_rows(), numbers,
                                        sum);
      GLASSWOOD_UNROLL
      for (int row = 0; row < n_rows; ++row) sum[row] += value[places[row]];
      return;
    }
    for (int output = 0; output < forest.width; ++output)
      for (int row = 0; row < n_rows; ++row)
        margin[int64_t(output) * stride + row] += value[int64_t(places[row]) * forest.width + output];
  }
  // The places of Rows rows, from `row` on, in trees `first` to `last`; not of linear leaves, whose numbers are laid
  // out for all rows. Single sums stay in registers.
  template <int Rows, int Most>
  void take_trees(int row, int first, int last, const int32_t (&places)[Rows][Most]) const {
    const auto& forest = task.forest;
    if (task.leaf || !task.margin || forest.width > 1) return take_one_by_one(row, first, last, places);
    if (forest.n_outputs > 1) {
      for (int tree = first; tree < last; ++tree) {
        double* sum = margin + int64_t(forest.tree_output[tree]) * stride + row;
        GLASSWOOD_UNROLL
        for (int i = 0; i < Rows; ++i) sum[i] += forest.value[places[i][tree - first]];
      }
      return;
    }
    double sum[Rows];
    for (int i = 0; i < Rows; ++i) sum[i] = margin[row + i];
    for (int tree = first; tree < last; ++tree) {
      GLASSWOOD_UNROLL
      for (int i = 0; i < Rows; ++i) sum[i] += forest.value[places[i][tree - first]];
    }
    for (int i = 0; i < Rows; ++i) margin[row + i] = sum[i];
  }
  template <int Rows, int Most>
  void take_one_by_one(int row, int first, int last, const int32_t (&places)[Rows][Most]) const {
    for (int i = 0; i < Rows; ++i) {
      const RowSink own{task, first_row + row + i, 1, margin + row + i, stride};
      for (int tree = first; tree < last; ++tree) own.take(tree, 0, &places[i][tree - first]);
    }
  }
  LinearRows linear_rows() const { return {task.rows, first_row, n_rows}; }
  // Lays the rows' numbers out by column, where leaves are linear.
  void lay_out(double* memory) {
    if (task.margin && linear_size(task.linear, n_rows) > 0)
      numbers = task.linear.kernels->lay_out(task.linear, linear_rows(), memory);
  }
  void open() const {
    for (int output = 0; output < task.forest.n_outputs; ++output)
      for (int row = 0; row < stride; ++row) margin[int64_t(output) * stride + row] = task.forest.base_score[output];
  }
  void close() const {
    if (!task.margin) return;
    const int n_outputs = task.forest.n_outputs;
    for (int row = 0; row < n_rows; ++row)
      for (int output = 0; output < n_outputs; ++output)
        task.margin[(first_row + row) * n_outputs + output] = margin[int64_t(output) * stride + row];
  }
};

}  // namespace
}  // namespace glasswood
