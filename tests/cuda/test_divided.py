"""Forests of which some trees have no tables on a GPU: sums of parts against oracles of the whole."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import glasswood.cuda.per_gpu
from glasswood import Explainer
from glasswood.explain.cuda.divided import DividedJob
from glasswood.plans import plan_of
from tests.explain.tolerance import assert_close
from tests.oracles import interventional, players
from tests.strategies import Node, flatten

pytestmark = pytest.mark.usefixtures("gpu")


def deep_forest(seed, n_features, depths, n_outputs=1):
    """Trees that go down one side through features of their own, with bushes at the top and the bottom."""
    rng = np.random.default_rng(seed)

    def bush(cover, height):
        if height == 0:
            return Node(cover=cover, value=rng.normal(size=n_outputs))
        share = rng.uniform(0.2, 0.8)
        children = bush(cover * share, height - 1), bush(cover * (1 - share), height - 1)
        return Node(cover, 0.0, int(rng.integers(n_features)), rng.normal(), bool(rng.integers(2)), -1, children)

    def spine(cover, features):
        if not len(features):
            return bush(cover, 2)
        share = rng.uniform(0.5, 0.9)
        children = spine(cover * share, features[1:]), bush(cover * (1 - share), 2)
        return Node(cover, 0.0, int(features[0]), rng.normal() + 1, False, -1, children)

    trees = [spine(1000.0, rng.permutation(n_features)[:depth]) for depth in depths]
    return flatten(trees, n_features, tree_output=np.zeros(len(depths), np.int32))


def rows(n, n_features, seed=1):
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(np.float32)


def parts_of(explainer, kind="values"):
    """How many plans of tables there are, and whether patterns explain a part."""
    job = plan_of(explainer, "cuda").job(kind)
    return (len(job.tables), job.patterns is not None) if isinstance(job, DividedJob) else (1, False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("depths", "parts"), [((3, 4), (1, False)), ((3, 12), (2, False)), ((3, 12, 22), (2, True)), ((20, 22), (2, True))]
)
def test_values_are_those_of_the_whole_forest(depths, parts, dtype):
    forest = deep_forest(0, 24, depths, n_outputs=2 if 12 in depths else 1)
    X, background = rows(7, 24), rows(30, 24, 2)
    for weight in (None, np.arange(30) / 7):
        expected = interventional.values_by_pair(forest, X, background, weight)
        explainer = Explainer(forest, background, background_weight=weight, device="cuda", dtype=dtype)
        assert_close(explainer.shap_values(X), expected, forest, dtype)
        assert parts_of(explainer) == parts
        assert explainer.algorithm_ == "tables"


@pytest.mark.parametrize(("depths", "parts"), [((2, 7), (1, False)), ((2, 11), (1, True))])
def test_interactions_are_those_of_the_whole_forest(depths, parts):
    forest = deep_forest(1, 12, depths)
    X, background = rows(3, 12), rows(4, 12, 2)
    explainer = Explainer(forest, background, device="cuda", dtype="float64")
    expected = interventional.interactions(forest, X, background)
    assert_close(explainer.shap_interaction_values(X), expected, forest, "float64")
    assert_close(explainer.shap_interaction_values(X, features=[7, 2]), expected[:, [7, 2]], forest, "float64")
    assert parts_of(explainer, "pairs") == parts


@pytest.mark.parametrize("has_background", [False, True])
def test_groups_are_those_of_the_whole_forest(has_background):
    n = 20
    forest = deep_forest(2, n, (3, 12, 18))
    player_of = np.arange(n) // 2
    groups = {f"g{p}": [2 * p, 2 * p + 1] for p in range(n // 2)}
    X, background = rows(3, n), rows(4, n, 2) if has_background else None
    if has_background:
        game = players.interventional(forest, X, background, player_of)
    else:
        game = players.path_dependent(forest, X, player_of)
    explainer = Explainer(forest, background, groups=groups, device="cuda", dtype="float64")
    assert_close(explainer.shap_values(X), players.values(game - game[:, :1]), forest, "float64")
    assert_close(explainer.shap_interaction_values(X), players.interactions(game - game[:, :1]), forest, "float64")
    if has_background:
        assert parts_of(explainer) > (1, False)
    else:  # which the walk takes the rest of
        assert len(plan_of(explainer, "cuda").job("values").plan.walked_trees)


def test_counts_beyond_shared_memory(monkeypatch):
    forest, X, background = deep_forest(0, 24, (3, 12)), rows(7, 24), rows(300, 24, 2)
    limits = glasswood.cuda.per_gpu.Limits(4, 20 * 1024, 20 * 1024, 2**34)
    monkeypatch.setattr("glasswood.explain.cuda.leaf_games.gpu_limits", lambda: limits)
    for weight in (None, np.arange(300) / 7):
        expected = interventional.values_by_pair(forest, X, background, weight)
        explainer = Explainer(forest, background, background_weight=weight, device="cuda", dtype="float64")
        assert_close(explainer.shap_values(X), expected, forest, "float64")


def test_rows_in_batches_on_several_gpus_and_on_the_gpu(monkeypatch):
    import cupy

    forest, X, background = deep_forest(3, 24, (3, 12, 22)), rows(400, 24), rows(30, 24, 2)
    explainer = Explainer(forest, background, device="cuda")
    whole = explainer.shap_values(X)
    monkeypatch.setattr("glasswood.explain.cuda.divided.PART_BYTES", 1)
    np.testing.assert_array_equal(explainer.shap_values(X), whole)
    np.testing.assert_array_equal(Explainer(forest, background, device="cuda:all").shap_values(X), whole)
    on_gpu = explainer.shap_values(cupy.asarray(X)[:, ::-1][:, ::-1])
    np.testing.assert_array_equal(cupy.asnumpy(on_gpu), whole)
    again = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(again.shap_values(X), whole)


@pytest.mark.parametrize("share", [2, 8])
def test_parts_share_the_budget(share):
    forest, X, background = deep_forest(4, 24, (3, 5, 12, 22)), rows(9, 24), rows(30, 24, 2)
    roomy = Explainer(forest, background, device="cuda", dtype="float64")
    expected = roomy.shap_values(X)
    n_bytes = sum(job.plan.n_bytes for job in plan_of(roomy, "cuda").job("values").tables)
    tight = Explainer(forest, background, device="cuda", dtype="float64", table_bytes=n_bytes // share)
    np.testing.assert_allclose(tight.shap_values(X), expected, atol=1e-12)
    assert sum(job.plan.n_bytes for job in plan_of(tight, "cuda").job("values").tables) <= n_bytes // share
