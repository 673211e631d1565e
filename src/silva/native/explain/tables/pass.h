// Blocks of rows, each a task of one thread.
#pragma once
#include "explain/tables/pass_pairs.h"
#include "explain/tables/pass_values.h"

namespace silva {
namespace {

template <class Real>
int64_t pass_workspace(const PassTask<Real>& task) {
  Arena arena{nullptr};
  PassSpace<Real>(task, arena);
  return arena.used();
}

constexpr int kFewRows = 128;  // that find most lines of a table far away

template <class Real>
void pass_all(const PassTask<Real>& task) {
  const int64_t n_rows = task.rows.n_rows, size = task.rows_together;
  share_out(task.team, (n_rows + size - 1) / size, [&](int64_t t, int32_t thread) {
    Arena arena{task.workspace + thread * task.workspace_size};
    PassSpace<Real> space(task, arena);
    const int64_t first = t * size, rest = n_rows - first;
    const int n = int(rest < size ? rest : size);
    space.has_few_rows = n < kFewRows;
    encode_block(task, space, first, n);
    if (task.plan.content == TableContent::kPairs)
      pass_pairs(task, space, first, n);
    else
      pass_values(task, space, first, n);
  });
}

}  // namespace
}  // namespace silva
