// The kernels of coalitions for one instruction set, under the rule of common/instruction_set.h. GLASSWOOD_KERNELS
// names the table.
#include "explain/coalitions/chains.h"
#include "explain/coalitions/subsets.h"

namespace glasswood {
extern const CoalitionKernels GLASSWOOD_KERNELS;
namespace {

int64_t workspace_of(const CoalitionTask& task) {
  Arena arena{nullptr};
  PairSpace(task, arena);
  return arena.used();
}

template <class Run>
void by_mask(const CoalitionTask& task, const Run& run) {
  switch (task.leaves.mask_bytes) {
    case 1:
      return run(uint8_t{});
    case 2:
      return run(uint16_t{});
    case 4:
      return run(uint32_t{});
    default:
      return run(uint64_t{});
  }
}

template <class Mask, class Task>
void share_out_pairs(const CoalitionTask& task, int64_t n_tasks, const Task& one) {
  share_out(task.team, n_tasks, [&](int64_t at, int32_t thread) {
    Arena arena{task.workspace + thread * task.workspace_size};
    const PairSpace space(task, arena);
    Pair<Mask> pair(task, space, thread);
    one(at, pair);
  });
}

void explain(const CoalitionTask& task) {
  const int64_t n_sums = (task.background.n + task.together - 1) / task.together;
  by_mask(task, [&](auto mask) {
    share_out_pairs<decltype(mask)>(task, task.rows.n * n_sums, [&](int64_t at, auto& pair) {
      const int64_t row = at / n_sums, first = at % n_sums * task.together;
      const int64_t end = first + task.together < task.background.n ? first + task.together : task.background.n;
      double* sums = task.sums + at * task.n_entries;
      for (int64_t entry = 0; entry < task.n_entries; ++entry) sums[entry] = 0;
      for (int64_t other = first; other < end && !pair.ended(); ++other) {
        pair.open(row, other);
        task.n_differ[row * task.background.n + other] = pair.d();
        if (pair.d() > 0 && pair.d() <= task.most) {
          Doubles* margins = pair.margins();
          respond(task, row, margins, pair.stride(), pair.stride());
          pair.add_indices(margins, task.share[other], sums);
        }
        pair.close();
      }
    });
  });
}

void differing(const CoalitionTask& task) {
  by_mask(task, [&](auto mask) {
    share_out_pairs<decltype(mask)>(task, task.rows.n, [&](int64_t row, auto& pair) {
      for (int64_t other = 0; other < task.background.n; ++other) {
        pair.open(row, other);
        task.n_differ[row * task.background.n + other] = pair.d();
        pair.close();
      }
    });
  });
}

void each_pair(const CoalitionTask& task) {
  by_mask(task, [&](auto mask) {
    share_out_pairs<decltype(mask)>(task, task.n_pairs, [&](int64_t at, auto& pair) {
      pair.open(task.pairs[2 * at], task.pairs[2 * at + 1]);
      if (pair.d() <= task.most) {
        if (task.responses) {
          double* sums = task.sums + at * task.n_entries;
          for (int64_t entry = 0; entry < task.n_entries; ++entry) sums[entry] = 0;
          Doubles* responses = pair.read_responses(task.responses + task.first[at] * task.n_responses);
          pair.add_indices(responses, 1.0, sums);
        } else {
          pair.write_margins(task.margins + task.first[at] * task.leaves.n_outputs);
        }
      }
      pair.close();
    });
  });
}

void players(const CoalitionTask& task) {
  by_mask(task, [&](auto mask) {
    share_out_pairs<decltype(mask)>(task, task.n_pairs, [&](int64_t at, auto& pair) {
      pair.open(task.pairs[2 * at], task.pairs[2 * at + 1]);
      for (int i = 0; i < pair.d(); ++i) task.n_differ[task.first[at] + i] = pair.player(i);
      pair.close();
    });
  });
}

void chains(const CoalitionTask& task) {
  by_mask(task, [&](auto mask) {
    share_out_pairs<decltype(mask)>(task, task.n_pairs, [&](int64_t at, auto& pair) {
      pair.open(task.pairs[2 * at], task.pairs[2 * at + 1]);
      PairChains<decltype(mask)> joining(task, at, pair);
      joining.write_margins();
      if (task.margin_values) joining.write_values();
      pair.close();
    });
  });
}

// Means of a row's responses over the background rows, for all coalitions of the forest's players: those of each pair
// become monomials, which are added up where the pair's players stand among all, and are summed over subsets once.
void averages(const CoalitionTask& task) {
  const int64_t size = int64_t(1) << task.most;
  by_mask(task, [&](auto mask) {
    share_out_pairs<decltype(mask)>(task, task.rows.n, [&](int64_t row, auto& pair) {
      double* const of_row = task.margins + row * task.n_responses * size;
      for (int64_t i = 0; i < task.n_responses * size; ++i) of_row[i] = 0;
      for (int64_t other = 0; other < task.background.n && !pair.ended(); ++other) {
        pair.open(row, other);
        Doubles* const margins = pair.margins();
        respond(task, row, margins, pair.stride(), pair.stride());
        int64_t members = 0;
        for (int i = 0; i < pair.d(); ++i) members |= int64_t(1) << task.leaves.player_bit[pair.player(i)];
        for (int r = 0; r < task.n_responses; ++r) {
          double* const v = reinterpret_cast<double*>(margins + r * pair.stride());
          to_monomials(v, pair.d());
          double* const to = of_row + r * size;
          for (int64_t s = 0, at = 0; s < int64_t(1) << pair.d(); ++s, at = (at - members) & members)
            to[at] += task.share[other] * v[s];
        }
        pair.close();
      }
      for (int r = 0; r < task.n_responses; ++r) sum_over_subsets(of_row + r * size, task.most);
    });
  });
}

}  // namespace
const CoalitionKernels GLASSWOOD_KERNELS = {workspace_of, explain, differing, each_pair, players, chains, averages};
}  // namespace glasswood
