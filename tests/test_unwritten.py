"""No answer depends on memory that nobody has written."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest

import glasswood
from tests.poison import BYTE, filled_with
from tests.test_kept_rows import MAKERS, Given, assert_same

SOURCE = Path(glasswood.__file__).parent

READ = {
    "cuda/buffers.py": ["Buffers.make"],
    "cuda/encoder.py": ["CodeTables.empty", "CodeTables.encode"],
    "cuda/kept_calls.py": ["Calls.answer"],
    "cuda/rows.py": ["_Memory.fit", "_map_on_gpu", "map_rows"],
    "dask/mapping.py": ["_map_blocks"],
    "display/report/source.py": ["SourceColumns.codes", "SourceColumns.texts"],
    "evaluate/cpu.py": [
        "CpuEvaluator.leaves",
        "CpuEvaluator.margins",
        "CpuEvaluator.margins_on_grid",
        "CpuEvaluator.moved_margins",
        "CpuEvaluator.statistic_margins",
        "CpuEvaluator.sums_on_grid",
    ],
    "evaluate/cuda/evaluator.py": ["CudaEvaluator._respond"],
    "evaluate/cuda/node_walks.py": ["NodeWalks._by_sets", "NodeWalks.walk"],
    "evaluate/cuda/packing.py": ["pack_trees"],
    "evaluate/cuda/tiles.py": ["Tiles.leaves"],
    "explain/cpu.py": ["checked_result"],
    "explain/cuda/coalitions.py": [
        "CoalitionJob._differing",
        "CoalitionJob._explain",
        "CoalitionJob._queue",
        "CoalitionPlan.masks_of",
    ],
    "explain/cuda/divided.py": ["DividedJob._queue"],
    "explain/cuda/explainer.py": ["CudaExplainer.reduced.compute"],
    "explain/cuda/job.py": ["Job.compute"],
    "explain/cuda/leaf_games.py": ["_count"],
    "explain/cuda/leaf_tapes.py": ["LeafGames.__init__"],
    "explain/cuda/patterns.py": ["Patterns._encode", "Patterns._keep"],
    "explain/cuda/responses.py": ["ResponseJob._queue", "with_labels"],
    "explain/cuda/tables.py": ["Tables.__init__"],
    "explain/responses/pair_sums.py": ["PairSums.__call__", "PairSums._by_function"],
    "explain/responses/permutations.py": ["_chains"],
    "explain/scores/score.py": ["_ScoreGame._outputs"],
    "explain/scores/estimates.py": ["Chains._of_pairs", "Chains._path_dependent"],
    "explain/sparse.py": ["_result_on_gpu"],
    "explain/strongest.py": ["HostPairs._chunks", "HostPairs.strongest"],
    "grow/cuda/rows.py": ["GpuMemory.place_padded", "split_order"],
    "grow/cuda/sorting.py": ["GpuSorter.empty", "_places", "_ranked", "sent"],
    "grow/data/rows.py": ["_ranked_columns.begin", "arranged", "gathered", "rank_zones"],
    "grow/data/sorting.py": ["KnownRanks.of", "KnownRanks.of.rank", "Sorter.empty", "Sorter.rearrange"],
    "grow/likelihood.py": ["_fitted", "candidate_of", "refitted"],
    "grow/logistic.py": ["fit_logistic_leaf"],
    "grow/search/reweighted.py": ["_constants", "_fitted"],
    "grow/search/robust.py": ["residuals_of"],
    "grow/tree/assembly.py": ["_monotone", "grown_tree"],
    "grow/tree/refit.py": ["Design.triangle"],
    "grow/tree/smoothing.py": ["_best_strength"],
    "inputs/arrays.py": ["objects_to_floats"],
    "inputs/categories.py": ["columns_to_rows"],
    "inputs/encoder.py": ["RowEncoder._encode"],
    "inputs/shown.py": ["_beside", "_looked_up"],
    "inputs/sparse.py": ["dense_chunks", "made_dense"],
    "inputs/statistics.py": [
        "StatisticRows.__init__",
        "StatisticRows.chunks",
        "StatisticRows.ranked_chunks",
        "StatisticRows.whole",
        "_keys_of",
    ],
    "inspection/dependence.py": ["responses_of"],
    "inspection/importance.py": ["_sources"],
    "inspection/ranks.py": ["Ranks.rows"],
    "inspection/rows.py": ["ChangingRows.values_of"],
    "model/storage.py": ["_read"],
    "neighbors/conformal.py": ["jackknife_plus"],
    "neighbors/cuda.py": ["CudaShares._keys"],
    "neighbors/index.py": [
        "LeafIndex.nearest",
        "LeafIndex.positions",
        "LeafIndex.squares",
        "TargetIndex.below",
        "TargetIndex.quantiles",
    ],
    "neighbors/neighbors.py": ["Neighbors._distribution", "Neighbors.sample"],
    "neighbors/outliers.py": ["outlier_scores"],
    "neighbors/similar.py": ["SimilarRows.kneighbors"],
    "readers/lightgbm/nodes.py": ["Layout.join"],
    "readers/quantile_forest.py": ["_leaf_means"],
}
"""Functions that ask for memory as it is: each has been read, and writes all of it or hands it to a kernel that does.

Whoever adds one says in the review what writes it whole; indices that scatter over it must be a permutation by
construction, or checked. Tests run all but ten of them with their memory filled (`tests/poison.py` notes which, also
what the emulator of GPUs is asked for). The ten are written by column (SourceColumns.codes, texts), by slices that
cover all rows (made_dense, Job.compute), in blocks before each is read (place_padded), by kernels that write all
(_by_function, _chains, _ranked_columns.begin), or where they are read: _best_strength reads the rows of leaves from the
nodes above them, which have these rows too. CodeTables.encode asks CodeTables.empty.
"""


def unwritten(node, name=""):
    """Names of the functions in which arrays are made that hold what their memory held."""
    for child in ast.iter_child_nodes(node):
        inner = f"{name}.{child.name}".strip(".") if isinstance(child, ast.FunctionDef | ast.ClassDef) else name
        makes = isinstance(child, ast.Call) and ast.unparse(child.func).rpartition(".")[2] in {"empty", "empty_like"}
        if makes and child.args and ast.unparse(child.args[0]) != "0":
            yield inner
        yield from unwritten(child, inner)


def test_all_places_have_been_read():
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if names := sorted(set(unwritten(ast.parse(path.read_text())))):
            found[path.relative_to(SOURCE).as_posix()] = names
    assert found == READ


@pytest.mark.parametrize("name", [name for name in MAKERS if "Ensemble" not in name and name != "distill"])
def test_answers_do_not_depend_on_what_memory_held(name, monkeypatch):
    answers = []
    for byte in (0x00, 0x7F, 0xFF):
        for function in ("empty", "empty_like"):
            monkeypatch.setattr(np, function, filled_with(byte, getattr(np, function)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers.append(MAKERS[name](Given("array"))())
        monkeypatch.undo()
    assert_same(answers[1], answers[0])
    assert_same(answers[2], answers[0])


def test_memory_that_is_not_written_is_found(monkeypatch):
    monkeypatch.setattr(np, "empty", filled_with(0x7F, np.empty))
    assert np.empty(3, np.int32)[0] == 0x7F7F7F7F


def test_memory_is_filled_in_all_tests():
    """What the package asks for holds the byte, what others ask for is theirs."""
    asked = {"__name__": "glasswood.made_up", "np": np}
    exec("one, other = np.empty(5), np.empty_like(np.zeros(3, np.int32))", asked)
    assert (asked["one"].view(np.uint8) == BYTE).all()
    assert (asked["other"].view(np.uint8) == BYTE).all()
    assert np.empty(2, object).tolist() == [None, None]
