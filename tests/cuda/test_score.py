"""Shapley values of scores on a GPU beside the cores', emulated and on a GPU."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import glasswood
import glasswood.explain.cuda.score
from glasswood.explain.scores import score
from tests.cuda.test_coalitions import normal, two_classes
from tests.strategies import Options, full_forest, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")


def on(device, *arguments, **options):
    """Values of a score by this device."""
    with glasswood.config_context(device=device):
        return glasswood.score_values(*arguments, **options)


def check(forest, X, y, background, **options):
    on_gpu, on_cpu = (
        on(device, forest, X, y, background=background, per_row=True, **options) for device in ("cuda", "cpu")
    )
    np.testing.assert_allclose(on_gpu.rows, on_cpu.rows, rtol=0, atol=1e-10 * max(1.0, np.abs(on_cpu.rows).max()))
    assert on_gpu.baseline == pytest.approx(on_cpu.baseline, rel=1e-12)
    assert np.abs(on_cpu.rows).max() > 1e-4
    return on_gpu


@pytest.mark.parametrize("loss", ["squared", "absolute", "poisson", "callable"])
def test_losses_of_numbers(loss):
    forest = dataclasses.replace(full_forest(0, n_trees=5, depth=4, n_features=6), link="exp")
    X = normal(20, 6)
    y = np.arange(8) % 3
    check(forest, X[:8], y, X[8:], loss=(lambda t, f: (t - f) ** 4) if loss == "callable" else loss)


@pytest.mark.parametrize("vector_leaves", [None, False, True])
def test_losses_of_classes_with_groups_and_equal_rows(vector_leaves):
    """Pairs without a difference count; weights, categories and missing values; batches of rows."""
    if vector_leaves is None:
        forest, n = two_classes(link_scale=0.7), 2
        X = normal(24, 6)
    else:
        kind = {"categorical": True, "meaning": {"link": "softmax"}, "vector_leaves": vector_leaves}
        forest, n = random_forest(5, Options(n_trees=7, n_features=5, n_outputs=3, **kind)), 3
        X = random_rows(4, forest, 24)
    background = np.concatenate([np.repeat(X[9:], 1 + np.arange(len(X) - 9) % 3, axis=0), X[:3]])
    whole = check(forest, X[:9], np.arange(9) % n, background, groups={"pair": [0, 3]})
    assert whole.loss == "log_loss"


def test_large_pairs_and_batches(monkeypatch):
    """Teams of 32, 128 and 512 threads, cubes in global memory, and some rows at a time."""
    monkeypatch.setattr(glasswood.explain.cuda.score, "MOST_ROWS", 2)
    forest, X = full_forest(2, n_trees=14, depth=1, n_features=14), normal(8, 14)
    background = np.where(np.arange(14) < np.array([2, 10, 13, 14])[:, None], X[4:8], X[0])
    check(forest, X[:3], np.zeros(3), background, loss="squared")
    once, again = (on("cuda", forest, X[:3], np.ones(3), background=background) for _ in "ab")
    np.testing.assert_array_equal(once.values, again.values)


def test_what_gpus_do_not_compute(monkeypatch):
    forest, X = full_forest(0, n_trees=2, depth=3, n_features=4), normal(9, 4)
    for options in ({}, {"background": X}):
        if options:
            monkeypatch.setattr(score, "MOST", 2)
        with pytest.raises(NotImplementedError, match="GPUs compute exact values of a score against a background"):
            on("cuda", forest, X, np.zeros(9), **options)
