// Bindings of coalitions: glasswood.explain.responses.coalitions calls these.
#include "common/bindings.h"

#include "common/instruction_set.h"
#include "common/interrupts.h"
#include "common/threads/borrowed_team.h"
#include "common/workspace.h"
#include "explain/coalitions/coalition_forest.h"

namespace glasswood {

GLASSWOOD_KERNEL_TABLES(CoalitionKernels, coalitions)

using Matrix = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

static const CoalitionKernels& kernels() { return kernels_of(coalitions_tables); }

// Rows with their masks.
struct MaskedRows {
  CoalitionMasks masks;
  RowSource source;

  CoalitionRows view() const { return {masks.n_rows, masks.masks.data(), masks.shared.data(), source}; }
};

// Fewer threads where the margins of all coalitions of a pair are large.
static void run(CoalitionTask& task, int64_t n_tasks, int n_threads, void (*kernel)(const CoalitionTask&)) {
  constexpr int64_t kMostBytes = int64_t(1) << 33;
  task.workspace_size = kernels().workspace(task);
  const int64_t n_fitting = std::max<int64_t>(1, kMostBytes / task.workspace_size);
  const int n_useful = useful_threads(double(n_tasks), int(std::min<int64_t>(n_threads, n_fitting)));
  const Workspace workspace(task.workspace_size * n_useful);
  task.workspace = workspace.data();
  run_interruptibly([&] {
    const BorrowedTeam threads(n_useful);
    task.team = threads.team();
    kernel(task);
  });
}

static CoalitionTask task_of(const CoalitionForest& forest, const MaskedRows& rows, const MaskedRows& background,
                             int32_t most, int32_t n_responses) {
  CoalitionTask task{};
  task.leaves = forest.leaves();
  task.rows = rows.view(), task.background = background.view();
  if (most < 0 || most > kMostPlayers) throw nb::value_error("most is out of range");
  task.most = std::min(most, forest.n_used());
  task.n_responses = n_responses;
  return task;
}

// What is asked for: values, pairs of players with a place, or sets.
struct AskedIndex {
  Vector<int32_t> numbers;
  std::string kind;

  void put(CoalitionTask& task) const {
    const int64_t n_players = task.leaves.n_players;
    if (kind == "values") {
      task.index = CoalitionIndex::kValues;
      task.n_entries = n_players;
    } else if (kind == "pairs") {
      if (int64_t(numbers.size()) != n_players) throw nb::value_error("places has the wrong length");
      task.index = CoalitionIndex::kPairs;
      task.places = numbers.data();
      for (const int32_t place : view(numbers)) task.n_places = std::max(task.n_places, place + 1);
      task.n_entries = task.n_places * n_players;
    } else {
      task.index = CoalitionIndex::kSets;
      task.sets = numbers.data();
      task.n_sets = int64_t(numbers.size()) / 4;
      task.is_banzhaf = kind == "banzhaf";
      task.n_entries = task.n_sets;
      for (const int32_t player : view(numbers))
        if (player >= n_players) throw nb::value_error("sets hold numbers that are no players");
    }
    task.n_entries *= task.n_responses;
  }
};

// Background rows whose values are one sum: fewer where sums are small, so that threads share them out.
static int64_t rows_of_sum(int64_t n_entries, int64_t n_background) {
  constexpr int64_t kFew = 16, kNumbers = 1 << 17;
  const int64_t most_sums = std::max<int64_t>(1, kNumbers / std::max<int64_t>(1, n_entries));
  return std::max(kFew, (n_background + most_sums - 1) / most_sums);
}

static void write_sums(const CoalitionForest& forest, const MaskedRows& rows, const MaskedRows& background,
                       const Vector<double>& share, int32_t response, double scale, const Vector<int32_t>& labels,
                       const Vector<int32_t>& numbers, const std::string& kind, int32_t most, int32_t n_responses,
                       const Matrix& out, const nb::ndarray<int32_t, nb::c_contig, nb::device::cpu>& n_differ,
                       const Vector<double>& squares, const Matrix& moments, int n_threads) {
  CoalitionTask task = task_of(forest, rows, background, most, n_responses);
  task.share = share.data(), task.response = CoalitionResponse(response), task.scale = scale;
  task.labels = labels.data();
  AskedIndex{numbers, kind}.put(task);
  const int64_t n_rows = rows.masks.n_rows, n_background = background.masks.n_rows;
  if (int64_t(share.size()) != n_background || int64_t(n_differ.size()) != n_rows * n_background ||
      int64_t(out.size()) != n_rows * task.n_entries)
    throw nb::value_error("arrays of the wrong size");
  const bool is_loss = task.response == CoalitionResponse::kLogLoss || task.response == CoalitionResponse::kSoftmaxLoss;
  if (is_loss && int64_t(labels.size()) != n_rows) throw nb::value_error("expected one label for each row");
  for (const int32_t label : view(labels))
    if (is_loss && (label < 0 || label >= std::max(2, forest.n_outputs())))
      throw nb::value_error("a label is not the number of a class");
  const int64_t n_out = n_rows * task.n_entries;
  const bool has_moments = squares.size() > 0;
  if (has_moments && (int64_t(squares.size()) != n_background || int64_t(moments.size()) != 4 * n_out))
    throw nb::value_error("arrays of the wrong size");
  task.together = has_moments ? 1 : rows_of_sum(task.n_entries, n_background);
  task.n_differ = n_differ.data();
  const int64_t n_sums = (n_background + task.together - 1) / task.together;
  UnsetVector<double> sums(n_rows * n_sums * task.n_entries);
  task.sums = sums.data();
  run(task, n_rows * n_sums, n_threads, kernels().explain);
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t entry = 0; entry < task.n_entries; ++entry) {
      double total = 0;
      const int64_t at = row * task.n_entries + entry;
      for (int64_t i = 0; i < n_sums; ++i) {
        const double part = sums[(row * n_sums + i) * task.n_entries + entry];
        total += part;
        if (!has_moments || n_differ.data()[row * n_background + i] > task.most) continue;
        const double value = part / share.data()[i];
        double* const of_entry = moments.data() + at;
        of_entry[0] += squares.data()[i] * value;
        of_entry[n_out] += squares.data()[i] * value * value;
        of_entry[2 * n_out] = std::min(of_entry[2 * n_out], value);
        of_entry[3 * n_out] = std::max(of_entry[3 * n_out], value);
      }
      out.data()[at] = total;
    }
}

// What a GPU reads of a forest (glasswood.explain.cuda.coalitions).
static nb::dict gpu_plan(const CoalitionForest& forest, const Vector<int32_t>& column, const Vector<int32_t>& rank,
                         bool is_short) {
  const size_t n_nodes = forest.forest().feature.size();
  if (column.size() != n_nodes || rank.size() != n_nodes) throw nb::value_error("arrays of the wrong size");
  CoalitionForest::GpuLeaves leaves = forest.gpu_leaves(view(column), view(rank));
  nb::dict result;
  result["conditions"] = to_bytes(std::move(leaves.conditions));
  result["first_condition"] = to_numpy(std::move(leaves.first));
  result["n_bits"] = leaves.n_bits;
  if (leaves.is_wide) {
    result["first_place"] = to_numpy(std::move(leaves.first_place));
    result["place"] = to_numpy(std::move(leaves.place));
  }
  result["first_leaf"] = to_numpy(std::vector<int64_t>(forest.first()));
  result["base"] = to_numpy(std::vector<double>(forest.base()));
  result["player_bit"] = to_numpy(std::vector<int32_t>(forest.player_bit()));
  result["unit"] = is_short ? forest.short_unit() : forest.unit();
  if (is_short)
    result["value"] = to_numpy(forest.short_values());
  else
    result["value"] = to_numpy(std::vector<int64_t>(forest.values()));
  return result;
}

static auto differing(const CoalitionForest& forest, const MaskedRows& rows, const MaskedRows& background,
                      int n_threads) {
  CoalitionTask task = task_of(forest, rows, background, 0, 1);
  std::vector<int32_t> counts(rows.masks.n_rows * background.masks.n_rows);
  task.n_differ = counts.data();
  run(task, rows.masks.n_rows, n_threads, kernels().differing);
  return to_numpy(std::move(counts));
}

static void run_pairs(CoalitionTask& task, const Vector<int64_t>& pairs, const Vector<int64_t>& first, int n_threads,
                      void (*kernel)(const CoalitionTask&) = kernels().pairs) {
  task.pairs = pairs.data(), task.n_pairs = int64_t(first.size());
  task.first = first.data();
  if (pairs.size() != 2 * first.size()) throw nb::value_error("arrays of the wrong size");
  for (int64_t i = 0; i < task.n_pairs; ++i)
    if (task.pairs[2 * i] < 0 || task.pairs[2 * i] >= task.rows.n || task.pairs[2 * i + 1] < 0 ||
        task.pairs[2 * i + 1] >= task.background.n)
      throw nb::value_error("a pair does not name a row and a background row");
  run(task, task.n_pairs, n_threads, kernel);
}

static void write_margins(const CoalitionForest& forest, const MaskedRows& rows, const MaskedRows& background,
                          const Vector<int64_t>& pairs, const Vector<int64_t>& first, int32_t most, const Matrix& out,
                          int n_threads) {
  CoalitionTask task = task_of(forest, rows, background, most, 1);
  task.margins = out.data();
  run_pairs(task, pairs, first, n_threads);
}

static void write_pair_sums(const CoalitionForest& forest, const MaskedRows& rows, const MaskedRows& background,
                            const Vector<int64_t>& pairs, const Vector<int64_t>& first,
                            const nb::ndarray<const double, nb::c_contig, nb::device::cpu>& responses,
                            const Vector<int32_t>& numbers, const std::string& kind, int32_t most, int32_t n_responses,
                            const Matrix& out, int n_threads) {
  CoalitionTask task = task_of(forest, rows, background, most, n_responses);
  AskedIndex{numbers, kind}.put(task);
  if (out.size() != first.size() * size_t(task.n_entries)) throw nb::value_error("arrays of the wrong size");
  task.responses = responses.data();
  task.sums = out.data();
  run_pairs(task, pairs, first, n_threads);
}

// The players on which each pair differs, from first[pair] on, n of them.
static auto players_of_pairs(const CoalitionForest& forest, const MaskedRows& rows, const MaskedRows& background,
                             const Vector<int64_t>& pairs, const Vector<int64_t>& first, int64_t n, int n_threads) {
  CoalitionTask task = task_of(forest, rows, background, 0, 1);
  std::vector<int32_t> players(n);
  task.n_differ = players.data();
  run_pairs(task, pairs, first, n_threads, kernels().players);
  return to_numpy(std::move(players));
}

static void write_chains(const CoalitionForest& forest, const MaskedRows& rows, const MaskedRows& background,
                         const Vector<int64_t>& pairs, const Vector<int64_t>& first,
                         const nb::ndarray<const int32_t, nb::c_contig, nb::device::cpu>& ranks, int32_t n_chains,
                         const Matrix& out, const Matrix& margin_values, int n_threads) {
  CoalitionTask task = task_of(forest, rows, background, 0, 1);
  if (forest.forest().is_linear()) throw nb::value_error("equations of leaves have no chains");
  const size_t n_numbers = first.size() * size_t(forest.n_players());
  if (ranks.size() != n_numbers * size_t(n_chains)) throw nb::value_error("arrays of the wrong size");
  task.ranks = ranks.data(), task.n_chains = n_chains;
  task.margins = out.data();
  if (margin_values.size() == n_numbers * size_t(forest.n_outputs())) task.margin_values = margin_values.data();
  run_pairs(task, pairs, first, n_threads, kernels().chains);
}

// Cubes of coalitions, [row][response][coalition]: of all players that the forest asks for.
static void check_cubes(const CoalitionForest& forest, const MaskedRows& rows, int64_t n_responses, const Matrix& out) {
  if (forest.n_used() > kMostPlayers || int64_t(out.size()) != rows.masks.n_rows * n_responses << forest.n_used())
    throw nb::value_error("arrays of the wrong size");
}

static void write_averages(const CoalitionForest& forest, const MaskedRows& rows, const MaskedRows& background,
                           const Vector<double>& share, int32_t response, double scale, const Matrix& out,
                           int n_threads) {
  CoalitionTask task = task_of(forest, rows, background, forest.n_used(), forest.n_outputs());
  check_cubes(forest, rows, task.n_responses, out);
  if (int64_t(share.size()) != background.masks.n_rows) throw nb::value_error("arrays of the wrong size");
  task.share = share.data(), task.response = CoalitionResponse(response), task.scale = scale;
  if (task.response == CoalitionResponse::kLogLoss || task.response == CoalitionResponse::kSoftmaxLoss)
    throw nb::value_error("losses follow from the means of outputs");
  task.margins = out.data();
  run(task, rows.masks.n_rows, n_threads, kernels().averages);
}

// Calls `use` with the masks of a row, of their type.
template <class Use>
static void with_masks(const CoalitionForest& forest, const MaskedRows& rows, int64_t row, const Use& use) {
  const void* const masks = rows.masks.masks.data() + row * forest.n_leaves() * forest.mask_bytes();
  if (forest.mask_bytes() == 1) use(static_cast<const uint8_t*>(masks));
  if (forest.mask_bytes() == 2) use(static_cast<const uint16_t*>(masks));
  if (forest.mask_bytes() == 4) use(static_cast<const uint32_t*>(masks));
  if (forest.mask_bytes() == 8) use(static_cast<const uint64_t*>(masks));
}

static void write_path_averages(const CoalitionForest& forest, const MaskedRows& rows, const Matrix& out,
                                int n_threads) {
  check_cubes(forest, rows, forest.n_outputs(), out);
  if (forest.forest().is_linear()) throw nb::value_error("equations of leaves have no path-dependent cubes");
  const PathAverages averages = forest.path_averages();
  const int64_t size = int64_t(1) << forest.n_used();
  run_interruptibly([&] {
    const BorrowedTeam threads(useful_threads(double(rows.masks.n_rows), n_threads));
    std::vector<std::vector<double>> number(n_threads, std::vector<double>(size));
    std::vector<std::vector<int32_t>> set(n_threads, std::vector<int32_t>(size));
    share_out(threads.team(), rows.masks.n_rows, [&](int64_t row, int32_t thread) {
      with_masks(forest, rows, row, [&](const auto* masks) {
        averages.write(masks, forest.n_used(), out.data() + row * forest.n_outputs() * size, number[thread].data(),
                       set[thread].data());
      });
    });
  });
}

static void write_path_chains(const CoalitionForest& forest, const MaskedRows& rows,
                              const nb::ndarray<const int32_t, nb::c_contig, nb::device::cpu>& ranks, int64_t n_chains,
                              const Matrix& out, int n_threads) {
  const int64_t n_rows = rows.masks.n_rows, of_row = n_chains * forest.n_players(), n_steps = forest.n_used() + 1;
  const int64_t out_of_row = n_chains * n_steps * forest.n_outputs();
  if (int64_t(ranks.size()) != n_rows * of_row || int64_t(out.size()) != n_rows * out_of_row)
    throw nb::value_error("arrays of the wrong size");
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks.data()[i] >= forest.n_used() ||
        (ranks.data()[i] < 0) != (forest.player_bit()[i % forest.n_players()] < 0))
      throw nb::value_error("ranks do not order the players");
  if (forest.forest().is_linear()) throw nb::value_error("equations of leaves have no path-dependent chains");
  const PathAverages averages = forest.path_averages();
  run_interruptibly([&] {
    const BorrowedTeam threads(useful_threads(double(n_rows), n_threads));
    share_out(threads.team(), n_rows, [&](int64_t row, int32_t) {
      with_masks(forest, rows, row, [&](const auto* masks) {
        averages.write_chains(masks, ranks.data() + row * of_row, n_chains, forest.n_players(), n_steps,
                              out.data() + row * out_of_row);
      });
    });
  });
}

void bind_coalitions(nb::module_& module) {
  using R = CoalitionResponse;
  for (const auto& [name, response] : {std::pair{"RESPONSE_MARGIN", R::kMargin},
                                       {"RESPONSE_LOGISTIC", R::kLogistic},
                                       {"RESPONSE_SOFTMAX", R::kSoftmax},
                                       {"RESPONSE_EXP", R::kExp},
                                       {"RESPONSE_LOG_LOSS", R::kLogLoss},
                                       {"RESPONSE_SOFTMAX_LOSS", R::kSoftmaxLoss}})
    module.attr(name) = int32_t(response);
  nb::class_<MaskedRows>(module, "CoalitionRows", "Rows with the conditions that they do not meet at each leaf.")
      .def_prop_ro("n_bytes", [](const MaskedRows& rows) { return rows.masks.masks.size(); });
  nb::class_<CoalitionForest>(module, "CoalitionForest", "A forest laid out for the margins of all coalitions.")
      .def(
          "__init__",
          [](CoalitionForest* self, nb::handle forest, const Vector<int32_t>& player_of) {
            ForestView given = view_of(forest);
            Players players = players_of(view(player_of), given.n_features);
            new (self) CoalitionForest(std::move(given), std::move(players));
          },
          nb::arg("forest"), nb::arg("player_of"), nb::keep_alive<1, 2>())
      .def_prop_ro("n_used", &CoalitionForest::n_used, "Players that any split or equation asks for.")
      .def_prop_ro(
          "row_bytes", [](const CoalitionForest& forest) { return forest.n_leaves() * forest.mask_bytes(); },
          "Bytes of a row's masks.")
      .def("gpu_plan", &gpu_plan, nb::arg("column"), nb::arg("rank"), nb::arg("is_short"),
           "Leaves with conditions of the codes of glasswood.cuda.codes, and values in units of 32 or 64 bits; of more "
           "than 32 players, whose bits are places of the leaf's path, also the player of each place.")
      .def(
          "rows",
          [](const CoalitionForest& forest, const RowMatrix& rows, int n_threads) {
            MaskedRows result{{}, rows_of(rows, forest.forest().n_features)};
            run_interruptibly([&] {
              const BorrowedTeam threads(n_threads);
              result.masks = forest.masks_of(result.source, threads.team());
            });
            return result;
          },
          nb::arg("rows"), nb::arg("n_threads"), nb::keep_alive<0, 2>())
      .def("sums", &write_sums, nb::arg("rows"), nb::arg("background"), nb::arg("share"), nb::arg("response"),
           nb::arg("scale"), nb::arg("labels"), nb::arg("numbers"), nb::arg("kind"), nb::arg("most"),
           nb::arg("n_responses"), nb::arg("out"), nb::arg("n_differ"), nb::arg("squares"), nb::arg("moments"),
           nb::arg("n_threads"),
           "Indices of responses (n, entries, n_responses), summed over the background; pairs that differ on more than "
           "`most` players are left out, n_differ (n, m) tells. With squares (m,), sums of the pairs' values and "
           "squared values times these are added to moments (4, n, entries, n_responses), and the least and largest "
           "value "
           "kept.")
      .def(
          "bit_players",
          [](const CoalitionForest& forest) { return to_numpy(std::vector<int32_t>(forest.bit_player())); },
          "The player of each bit of a coalition\'s number.")
      .def("averages", &write_averages, nb::arg("rows"), nb::arg("background"), nb::arg("share"), nb::arg("response"),
           nb::arg("scale"), nb::arg("out"), nb::arg("n_threads"),
           "Means of responses over the background (n, responses, coalitions of all used players).")
      .def("path_averages", &write_path_averages, nb::arg("rows"), nb::arg("out"), nb::arg("n_threads"),
           "Path-dependent margins (n, outputs, coalitions of all used players).")
      .def("path_chains", &write_path_chains, nb::arg("rows"), nb::arg("ranks"), nb::arg("n_chains"), nb::arg("out"),
           nb::arg("n_threads"),
           "Path-dependent margins (n, chains, used players that have joined, outputs), where player p is the "
           "ranks[row, chain, p]-th to join, -1 for those that are not used.")
      .def("differing", &differing, nb::arg("rows"), nb::arg("background"), nb::arg("n_threads"),
           "Players on which each pair of rows differs, n * m of them.")
      .def("players", &players_of_pairs, nb::arg("rows"), nb::arg("background"), nb::arg("pairs"), nb::arg("first"),
           nb::arg("n"), nb::arg("n_threads"), "Players on which each pair differs, from first[pair] on.")
      .def("chains", &write_chains, nb::arg("rows"), nb::arg("background"), nb::arg("pairs"), nb::arg("first"),
           nb::arg("ranks"), nb::arg("n_chains"), nb::arg("out"), nb::arg("margin_values"), nb::arg("n_threads"),
           "Margins (chain, players that have joined, output) from first[pair] on, where player p is the ranks[pair, "
           "chain, p]-th to join; and the margin's values (pair, player, output), unless that is empty.")
      .def("margins", &write_margins, nb::arg("rows"), nb::arg("background"), nb::arg("pairs"), nb::arg("first"),
           nb::arg("most"), nb::arg("out"), nb::arg("n_threads"),
           "Margins (coalition, output) of pairs (row, background row), from first[pair] on.")
      .def("pair_sums", &write_pair_sums, nb::arg("rows"), nb::arg("background"), nb::arg("pairs"), nb::arg("first"),
           nb::arg("responses"), nb::arg("numbers"), nb::arg("kind"), nb::arg("most"), nb::arg("n_responses"),
           nb::arg("out"), nb::arg("n_threads"), "Indices (pair, entries, n_responses) of responses of these margins.");
}

}  // namespace glasswood
