"""Values against background rows on a GPU: every kernel and launch against the oracle, emulated and on a GPU."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given

import glasswood.cuda.per_gpu
import glasswood.explain.cuda.leaf_games
import glasswood.explain.cuda.tables
from glasswood import Explainer
from glasswood.plans import plan_of
from tests.conftest import examples
from tests.explain.tolerance import assert_close
from tests.oracles import interventional
from tests.strategies import Options, chain_forest, forests_and_rows, full_forest, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")
few = examples(20)


def check(forest, X, background, weight=None, dtype="float64", **options):
    expected = interventional.values_by_pair(forest, X, background, weight)
    explainer = Explainer(forest, background, background_weight=weight, dtype=dtype, device="cuda", **options)
    assert_close(explainer.shap_values(X), expected, forest, dtype)
    assert explainer.algorithm_ == "tables" or forest.n_leaves == forest.n_trees
    return explainer


def rows(n, n_features, seed=1):
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(example=forests_and_rows(min_rows=2, max_rows=9))
@few
def test_values_match_the_oracle(dtype, example):
    forest, X = example
    background = X[len(X) // 2 :]
    check(forest, X, background, 1.0 + np.arange(len(background)) % 3, dtype)


@pytest.mark.parametrize(("n_features", "is_weighted"), [(4, False), (30, True)])
def test_parts_of_many_rows_are_counted_side_by_side(limits, n_features, is_weighted):
    limits(fewest_counted=100, states_in_flight=2_000_000)
    forest = full_forest(3, n_trees=8, depth=6, n_features=n_features)
    background = rows(900, n_features)
    weight = np.random.default_rng(2).integers(0, 9, len(background)) / 7 if is_weighted else None
    check(forest, rows(5, n_features, 2), background, weight)


@pytest.mark.parametrize("vector_leaves", [False, True])
def test_outputs_and_categories(vector_leaves):
    options = Options(n_trees=7, n_features=9, n_outputs=3, vector_leaves=vector_leaves, categorical=True)
    forest = random_forest(3, options)
    X = random_rows(4, forest, 60)
    check(forest, X[:20], X[20:])


def test_tables_beyond_the_budget_are_built_for_each_call():
    forest = full_forest(7, n_trees=8, depth=7, n_features=6)
    X, background = rows(20, 6), rows(60, 6, 2)
    explainer = check(forest, X, background, dtype="float32")
    whole = plan_of(explainer, "cuda").job("values").plan
    part = check(forest, X, background, dtype="float32", table_bytes=whole.n_bytes // 2)
    plan = plan_of(part, "cuda").job("values").plan
    assert len(plan.batches) > 2
    assert plan.n_bytes <= whole.n_bytes // 2


def test_workspaces_too_large_for_shared_memory_lie_in_global_memory(monkeypatch):
    limits = glasswood.cuda.per_gpu.Limits(4, 16 * 1024, 16 * 1024, 2**34)
    monkeypatch.setattr(glasswood.explain.cuda.tables, "gpu_limits", lambda: limits)
    check(full_forest(6, n_trees=3, depth=7, n_features=6), rows(9, 6), rows(50, 6, 2))


def test_the_same_bits_in_any_order_of_background_rows():
    forest, background = full_forest(1, n_trees=9, depth=6, n_features=5), rows(300, 5)
    X = rows(40, 5, 2)
    values = [Explainer(forest, some, device="cuda").shap_values(X) for some in (background, background[::-1])]
    np.testing.assert_array_equal(*values)


def test_rows_and_background_on_a_gpu():
    import cupy

    forest, background, X = full_forest(1, n_trees=9, depth=6, n_features=5), rows(300, 5), rows(40, 5, 2)
    expected = Explainer(forest, background, device="cuda").shap_values(X)
    found = Explainer(forest, cupy.asarray(background)).shap_values(cupy.asarray(X))
    np.testing.assert_array_equal(cupy.asnumpy(found), expected)
    if cupy.cuda.runtime.getDeviceCount() > 1:
        with cupy.cuda.Device(1):
            elsewhere = cupy.asarray(background)
        found = Explainer(forest, elsewhere, device="cuda:0").shap_values(cupy.asarray(X))
        np.testing.assert_array_equal(cupy.asnumpy(found), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_background_on_a_gpu_stays_there_and_is_the_callers_no_more(weighted, tmp_path):
    import cupy

    forest, background, X = full_forest(4, n_trees=9, depth=5, n_features=6), rows(500, 6), rows(40, 6, 2)
    background[::7, 2] = np.nan
    weight = np.random.default_rng(3).integers(0, 4, len(background)) / 3 if weighted else None
    expected = Explainer(forest, background, background_weight=weight, device="cpu")
    theirs = cupy.asarray(background)
    explainer = Explainer(forest, theirs, background_weight=weight)
    theirs[:] = 0
    found = explainer.shap_values(cupy.asarray(X))
    np.testing.assert_allclose(cupy.asnumpy(found), expected.shap_values(X), rtol=1e-5, atol=1e-6)
    assert "rows" not in explainer.game.background.__dict__
    assert explainer.expected_value == expected.expected_value
    for name, written in (("host", expected), ("gpu", explainer)):
        written.save(tmp_path / f"{name}.glasswood")
    with glasswood.config_context(device="cpu"):
        host, gpu = (Explainer.load(tmp_path / f"{name}.glasswood") for name in ("host", "gpu"))
    np.testing.assert_array_equal(gpu.shap_values(X), host.shap_values(X))
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(explainer)).game.background.rows, expected.game.background.rows
    )


def test_a_background_on_a_gpu_is_checked_there():
    import cupy

    forest = full_forest(4, n_trees=2, depth=3, n_features=6)
    with pytest.raises(ValueError, match=r"background: X has shape \(9, 5\), expected \(rows, 6\)"):
        Explainer(forest, cupy.asarray(rows(9, 5)))
    with pytest.raises(ValueError, match=r"background has no rows"):
        Explainer(forest, cupy.asarray(rows(0, 6)))
    refusing = dataclasses.replace(forest, nan_allowed=False)
    background = rows(9, 6)
    background[3, 3] = np.nan
    with pytest.raises(ValueError, match=r"background: X holds NaN"):
        Explainer(refusing, cupy.asarray(background))
    whole_numbers = (10 * rows(50, 6)).astype(np.int32)
    explainer = Explainer(forest, cupy.asarray(whole_numbers))
    expected = Explainer(forest, whole_numbers, device="cpu")
    assert explainer.expected_value == expected.expected_value
    found = explainer.shap_values(cupy.asarray(rows(5, 6)))
    np.testing.assert_allclose(cupy.asnumpy(found), expected.shap_values(rows(5, 6)), rtol=1e-5, atol=1e-6)


def test_trees_without_tables_have_patterns():
    forest, X = chain_forest(30, 1e-3), rows(6, 30)
    explainer = Explainer(forest, X, device="cuda", dtype="float64")
    assert_close(explainer.shap_values(X), interventional.values_by_pair(forest, X, X), forest, "float64")
    assert explainer.algorithm_ == "patterns"
