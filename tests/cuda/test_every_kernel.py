"""Every kernel of explanations and its forms, on few rows: short enough for compute-sanitizer (benchmarks/gpu.sh)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import glasswood
import glasswood.cuda.launches
import glasswood.cuda.per_gpu
import glasswood.explain.cuda.leaf_games
import glasswood.explain.cuda.table_launches
import glasswood.explain.cuda.tables
from glasswood import Explainer
from tests.cuda import test_coalitions
from tests.example_forests import with_models
from tests.explain.tolerance import assert_close
from tests.strategies import Options, full_forest, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")
NATIVE = Path(glasswood.__file__).parent / "native"
TABLES = "explain/cuda/tables/"
ROWS = {"common/cuda/encode_rows", f"{TABLES}find_keys", "explain/cuda/sum_slots"}
PAIRS = ROWS | {f"{TABLES}add_pairs", "explain/cuda/close_diagonal"}
COUNTED = {f"{TABLES}count_states", f"{TABLES}build_background"}
KERNELS = {
    "values": ROWS | {f"{TABLES}add_tables", f"{TABLES}build_tables"},
    "values of deep trees": ROWS | {f"{TABLES}add_points", f"{TABLES}build_tables"},
    "interactions": PAIRS | {f"{TABLES}build_shares"},
    "interactions, the strongest": {
        f"explain/cuda/{name}" for name in ("select_pairs", "add_magnitudes", "take_entries")
    },
    "values against a background": ROWS | COUNTED | {f"{TABLES}add_tables"},
    "interactions against a background": PAIRS | COUNTED,
    "values by patterns": {f"explain/cuda/{name}" for name in ("collect_patterns", "explain_patterns", "sum_slots")},
    "interactions by patterns": {f"explain/cuda/{name}" for name in ("explain_patterns", "close_diagonal")},
    "values of groups": ROWS | {f"{TABLES}add_tables", f"{TABLES}build_shares"},
    "interactions of groups": PAIRS | {f"{TABLES}build_shares"},
    "values of a probability": {"explain/cuda/weigh_parts", *COUNTED},
    "exact values of a probability": {
        "common/cuda/encode_rows",
        *(f"explain/cuda/coalitions/{name}" for name in ("find_masks", "find_differing", "explain_pairs", "sum_parts")),
    },
    "exact values of a probability, more than 32 features": {"explain/cuda/coalitions/find_players"},
    "values by the walk": {"explain/cuda/explain_rows", "explain/cuda/sum_slots", "common/cuda/encode_rows"},
    "interactions by the walk": {"explain/cuda/explain_rows", "explain/cuda/close_diagonal"},
    "values of a small forest": {"explain/cuda/explain_small"},
    "values of linear leaves": {"explain/cuda/explain_leaves", "explain/cuda/sum_slots", "common/cuda/encode_rows"},
    "interactions of linear leaves": {"explain/cuda/explain_leaves", "explain/cuda/close_diagonal"},
    "values by paths": {"reference/explain/cuda/explain_paths", "reference/explain/cuda/read_sums"},
    "interactions by paths": {"reference/explain/cuda/explain_paths", "explain/cuda/close_diagonal"},
}
TABLED = [kind for kind in KERNELS if any(TABLES in kernel and "add_" in kernel for kernel in KERNELS[kind])]


@pytest.fixture
def launched(monkeypatch):
    """Names of the kernels that are launched."""
    names, function = set(), glasswood.cuda.launches._function

    def record(kernel, shared):
        names.add(kernel.source)
        return function(kernel, shared)

    monkeypatch.setattr(glasswood.cuda.launches, "_function", record)
    return names


def explain(kind, forest, X, **options):
    """Results on a GPU beside those of the walk, or of tables against a background, on the CPU."""
    method = "shap_interaction_values" if kind.startswith("interactions") else "shap_values"
    algorithms = {"by the walk": "quadrature", "by paths": "paths", "small forest": "quadrature", "linear": "auto"}
    algorithm = next((found for words, found in algorithms.items() if words in kind), "tables")
    if kind.startswith("exact"):
        test_coalitions.check(dataclasses.replace(forest, link="logistic"), X[:9], X[len(X) // 2 :], **options)
        return
    background = X[len(X) // 2 :] if any(word in kind for word in ("background", "probability", "patterns")) else None
    output = {}
    if "patterns" in kind:
        algorithm, options = "auto", {**options, "table_bytes": 0}
    if "linear" in kind:
        forest = with_models(forest, 4, -1, 1)
    if "probability" in kind:
        forest, output = dataclasses.replace(forest, link="logistic"), {"output": "probability", "rule": "rescale"}
    groups = {"groups": {"a": [0, 3], "b": [1, 2]} if "groups" in kind else None}
    of_exact = "auto" if background is None else "tables"
    exact = Explainer(forest, background, dtype="float64", device="cpu", algorithm=of_exact, **output, **groups)
    explainer = Explainer(forest, background, algorithm=algorithm, device="cuda", **options, **output, **groups)
    found, expected = (getattr(each, method)(X[:9]) for each in (explainer, exact))
    if "strongest" in kind:
        for overall in (False, True):
            _, strongest = explainer.shap_interaction_values(X[:9], top=2, overall=overall)
            assert np.isin(strongest, found).all()
    if "linear" in kind:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
        return
    expected = expected[..., None] if forest.n_outputs == 1 else expected
    assert_close(found, expected, forest, options.get("dtype", "float32"))


def rows(n_features, n=60):
    return np.random.default_rng(1).normal(size=(n, n_features)).astype(np.float32)


@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_of_each_kind_of_result(launched, kind):
    is_small = "small" in kind
    n_trees, depth, n_features = (2, 4, 6) if is_small else (1, 10, 14) if "deep" in kind else (40, 5, 6)
    n_differing, n_features = n_features, 40 if "more than 32" in kind else n_features
    X = rows(n_features)
    X[:, n_differing:] = 0
    explain(kind, full_forest(3, n_trees=n_trees, depth=depth, n_features=n_features), X)
    assert launched >= KERNELS[kind]


def test_no_kernel_is_left_out():
    sources = (path.relative_to(NATIVE).with_suffix("").as_posix() for path in (NATIVE / "explain/cuda").rglob("*.cu"))
    assert set(sources) <= set().union(*KERNELS.values())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", TABLED)
def test_wide_forests_of_several_outputs_categories_and_missing_values(kind, dtype):
    options = Options(n_trees=5, n_features=12, n_outputs=3, vector_leaves=True, categorical=True)
    forest = random_forest(3, options)
    explain(kind, forest, random_rows(4, forest, 40), dtype=dtype)


@pytest.mark.parametrize("kind", TABLED)
def test_tables_of_eight_features_and_those_beyond_shared_memory(monkeypatch, kind):
    """Narrow and wide chunks, entries of two runs; workspaces in global memory, tables read where they lie."""
    explain(kind, full_forest(2, n_trees=2, depth=8, n_features=10), rows(10))
    limits = glasswood.cuda.per_gpu.Limits(4, 20 * 1024, 20 * 1024, 2**34)
    for module in (glasswood.explain.cuda.tables, glasswood.explain.cuda.table_launches):
        monkeypatch.setattr(module, "gpu_limits", lambda: limits)
    explain(kind, full_forest(2, n_trees=2, depth=7, n_features=7), rows(7))


@pytest.mark.parametrize("kind", TABLED)
def test_more_rows_than_a_tile_in_parts(limits, kind):
    """Rows of few and of many blocks, the last tile in part; states counted in parts, with weights."""
    limits(fewest_counted=100)
    forest, X = full_forest(2, n_trees=3, depth=4, n_features=5), rows(5, 1300)
    method = "shap_interaction_values" if kind.startswith("interactions") else "shap_values"
    against = {"background": X, "background_weight": np.arange(1300) % 5} if "background" in kind else {}
    against |= {"groups": {"a": [0, 3]}} if "groups" in kind else {}
    on_gpu = Explainer(forest, algorithm="tables", device="cuda", **against)
    exact = Explainer(forest, algorithm="tables", device="cpu", dtype="float64", **against)
    found, expected = (getattr(each, method)(X) for each in (on_gpu, exact))
    assert_close(found, expected[..., None], forest, "float32")
