// Bindings of explain/cuda/tables/plan.h.
#include "common/bindings.h"

#include <cstring>

#include "common/threads/borrowed_team.h"
#include "explain/cuda/tables/plan.h"

namespace glasswood {
namespace {

nb::dict to_dict(GpuTableArrays&& arrays) {
  nb::dict result;
  result["column_feature"] = to_numpy(std::move(arrays.column_feature));
  result["column_offsets"] = to_numpy(std::move(arrays.column_offsets));
  result["column_thresholds"] = to_numpy(std::move(arrays.column_thresholds));
  result["missing_code"] = arrays.missing_code;
  result["is_packed"] = arrays.is_packed;
  result["subtrees"] = to_bytes(std::move(arrays.subtrees));
  result["splits"] = to_bytes(std::move(arrays.splits));
  result["cells"] = to_bytes(std::move(arrays.cells));
  result["factors"] = to_bytes(std::move(arrays.factors));
  result["bits"] = to_numpy(std::move(arrays.bits));
  result["leaves"] = to_numpy(std::move(arrays.leaves));
  result["n_points"] = to_numpy(std::move(arrays.n_points));
  result["build_units"] = to_numpy(std::move(arrays.build_units));
  result["leaves_of"] = to_bytes(std::move(arrays.leaves_of_subtrees));
  result["leaf_lanes"] = to_numpy(std::move(arrays.leaf_lanes));
  result["leaf_shares"] = to_numpy(std::move(arrays.leaf_shares));
  result["unmet"] = to_numpy(std::move(arrays.unmet));
  result["leaf_game_bytes"] = to_numpy(std::move(arrays.leaf_game_bytes));
  result["n_states"] = arrays.n_states;
  result["most_states"] = arrays.most_states;
  result["batches"] = nb::cast(std::move(arrays.batches));
  result["kept_size"] = arrays.kept_size;
  result["built_size"] = arrays.built_size;
  result["heads"] = to_bytes(std::move(arrays.heads));
  result["entries"] = to_bytes(std::move(arrays.entries));
  result["records"] = to_bytes(std::move(arrays.records));
  result["stages"] = to_bytes(std::move(arrays.stages));
  result["chunks"] = to_bytes(std::move(arrays.chunks));
  result["slot_keys"] = to_numpy(std::move(arrays.slot_keys));
  result["walked_trees"] = to_numpy(std::move(arrays.walked_trees));
  result["cut_nodes"] = to_numpy(std::move(arrays.cut_nodes));
  return result;
}

nb::dict plan_gpu_tables(nb::handle forest, const Vector<int32_t>& player_of, int64_t table_bytes, int32_t real_bytes,
                         bool forced, bool of_pairs, bool has_background, bool is_roomy, int n_threads) {
  const ForestView view = view_of(forest);
  const Players players = players_of(glasswood::view(player_of), view.n_features);
  const bool has_groups = players.n < view.n_features;
  const TableGame game = has_background           ? TableGame::kBackground
                         : has_groups || of_pairs ? TableGame::kLeafCovers
                                                  : TableGame::kCovers;
  GpuTableArrays arrays;
  {
    const Released release;
    const BorrowedTeam threads(n_threads);
    arrays = GpuTableWriter(view, players,
                            {table_bytes, real_bytes, forced, of_pairs, has_groups || has_background, is_roomy, game},
                            threads.team())
                 .take();
  }
  return to_dict(std::move(arrays));
}

}  // namespace

void bind_gpu_tables(nb::module_& module) {
  nb::class_<TableBatch>(module, "TableBatch", "Subtrees whose keys are found together.")
      .def_ro("first_subtree", &TableBatch::first_subtree)
      .def_ro("n_subtrees", &TableBatch::n_subtrees)
      .def_ro("first_chunk", &TableBatch::first_chunk)
      .def_ro("n_chunks", &TableBatch::n_chunks)
      .def_ro("is_kept", &TableBatch::is_kept, "Whether the tables are kept.")
      .def_ro("is_narrow", &TableBatch::is_narrow)
      .def_ro("n_quads", &TableBatch::n_quads)
      .def_ro("n_points", &TableBatch::n_points)
      .def_ro("most_stage_numbers", &TableBatch::most_stage_numbers)
      .def_ro("most_stage_subtrees", &TableBatch::most_stage_subtrees)
      .def_ro("most_slots", &TableBatch::most_slots)
      .def("__getstate__",
           [](const TableBatch& self) { return nb::bytes(reinterpret_cast<const char*>(&self), sizeof self); })
      .def("__setstate__", [](TableBatch* self, const nb::bytes& state) {
        if (state.size() != sizeof(TableBatch)) throw std::invalid_argument("not the state of a TableBatch");
        std::memcpy(new (self) TableBatch{}, state.c_str(), sizeof(TableBatch));
      });
  module.def("plan_gpu_tables", &plan_gpu_tables, nb::arg("forest"), nb::arg("player_of"), nb::arg("table_bytes"),
             nb::arg("real_bytes"), nb::arg("forced"), nb::arg("of_pairs"), nb::arg("has_background"),
             nb::arg("is_roomy"), nb::arg("n_threads"),
             "Subtree tables of a forest as the kernels of explain/cuda/tables read them.");
}

}  // namespace glasswood
