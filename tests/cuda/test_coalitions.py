"""Exact values of responses on a GPU beside the cores' in float64, emulated and on a GPU."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import silva.explain.cuda.coalitions
from silva.cuda.rows import map_rows
from silva.explain.background import make_background
from silva.explain.coalitions import CoalitionExplainer
from silva.explain.cuda.coalitions import CoalitionJob
from silva.explain.cuda.responses import with_labels
from silva.explain.players import make_players
from silva.inputs import as_rows
from tests.strategies import Options, full_forest, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")


def check(forest, X, background, output="probability", dtype="float32", y=None, groups=None, weight=None, most=20):
    rows, players = make_background(background, weight, forest, None), make_players(groups, forest)
    on_cpu = CoalitionExplainer(forest, output, "float64", None, rows, players)
    job = CoalitionJob(forest, on_cpu.response, dtype, on_cpu.background, players, most)
    labels = {} if y is None else {"y": y}
    expected = on_cpu.values(as_rows(X, forest), **labels)
    given = as_rows(X, forest) if y is None else with_labels(as_rows(X, forest), np.asarray(y), 0)
    shape, row_type = (players.n, on_cpu.response.n), forest.threshold.dtype
    found = map_rows(given, (0,), shape, np.dtype(dtype), job.compute, input_type=row_type)
    found = found[..., 0] if found.shape[-1] == 1 else found
    size = max(1.0, float(np.abs(expected).sum(axis=1).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=(1e-6 if dtype == "float32" else 1e-12) * size)
    assert np.abs(found).max() > 0.001
    return found


def two_classes(n_features=6, depth=5, **meaning):
    forest = full_forest(1, n_trees=9, depth=depth, n_features=n_features)
    return dataclasses.replace(forest, leaf_value=forest.leaf_value * 10, **({"link": "logistic"} | meaning))


def normal(n, n_features, seed=1):
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("output", ["probability", "log_loss"])
def test_two_classes(dtype, output):
    forest, X = two_classes(link_scale=0.7), normal(90, 6)
    y = np.arange(12) % 2 if output == "log_loss" else None
    check(forest, X[:12], X[12:], output, dtype, y, weight=1.0 + np.arange(78) % 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vector_leaves", [False, True])
def test_several_classes_categories_and_missing_values(dtype, vector_leaves):
    options = Options(
        n_trees=9, n_features=5, n_outputs=3, vector_leaves=vector_leaves, categorical=True, meaning={"link": "softmax"}
    )
    forest = random_forest(5, options)
    X = random_rows(4, forest, 24)
    check(forest, X[:8], X[8:], "probability", dtype)
    check(forest, X[:8], X[8:], "log_loss", dtype, np.arange(8) % 3)
    check(forest, X[:8], X[8:], "probability", dtype, groups={"a": [0, 3]})


@pytest.mark.parametrize("n_features", [11, 14, 20])
def test_larger_teams_and_wider_masks(n_features):
    forest, X = two_classes(n_features, depth=4), normal(7, n_features)
    check(forest, X[:2], X[2:], "probability", "float32")
    check(
        dataclasses.replace(forest, link="exp", leaf_value=forest.leaf_value / 10), X[:2], X[2:4], "response", "float64"
    )


@pytest.mark.parametrize("name", ["MASK_BYTES", "CUBE_BYTES"])
def test_rows_and_cubes_in_parts(monkeypatch, name):
    forest, X = two_classes(10), normal(30, 10)
    whole = check(forest, X[:12], X[12:])
    monkeypatch.setattr(silva.explain.cuda.coalitions, name, 2**15)
    monkeypatch.setattr(silva.explain.cuda.coalitions, "gpu_limits", lambda: Limits(2**12))
    np.testing.assert_array_equal(check(forest, X[:12], X[12:]), whole)


@dataclasses.dataclass
class Limits:
    shared_per_block: int


def test_forests_without_splits_and_pairs_beyond_the_limit():
    forest, X = two_classes(), normal(20, 6)
    players, background = make_players(None, forest), make_background(X[5:], None, forest, None)
    response = CoalitionExplainer(forest, "probability", "float32", None, background, players).response
    job = CoalitionJob(forest, response, "float32", background, players, 3)
    with pytest.raises(
        NotImplementedError, match="rows differ from background rows on up to 6 features, GPUs are exact"
    ):
        map_rows(X[:5], (0,), (6, 1), np.dtype("float32"), job.compute, input_type=np.float32)
    leaf = dataclasses.replace(random_forest(1, Options(shape="leaf")), link="logistic")
    players, background = make_players(None, leaf), make_background(X[5:, :3], None, leaf, None)
    job = CoalitionJob(leaf, response, "float32", background, players, 20)
    found = map_rows(X[:5, :3], (0,), (3, 1), np.dtype("float32"), job.compute, input_type=np.float32)
    assert not found.any()
