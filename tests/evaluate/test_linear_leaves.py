"""Margins of linear leaves, whichever algorithm finds the leaves and however rows lie."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glasswood.evaluate.choice import runnable
from tests.example_forests import with_models
from tests.oracles import evaluate
from tests.strategies import Options, full_forest, random_forest, random_rows

N_ROWS = 1100  # two whole tiles of sorted rows, and one that is not


def linear_forest(seed, kinds=False, means=True, missing=False, bounds=True, depth=None, **options):
    options = {"n_trees": 7, "n_features": 5, **options}
    trees = full_forest(seed, 7, depth, 5) if depth else random_forest(seed, Options(**options))
    forest = with_models(trees, seed, -0.5, 0.75)
    rng, n_terms = np.random.default_rng(seed), len(forest.ensemble.linear_feature)
    is_bound = rng.random((forest.n_leaves, 1)) < (0.5 if bounds else 0)
    changes = {"leaf_range": np.where(is_bound, forest.ensemble.leaf_range, [-np.inf, np.inf])}
    if kinds:
        changes["linear_category"] = rng.integers(-3, 3, n_terms).astype(np.int32)
    if not means:
        changes["linear_mean"] = np.zeros(n_terms)
    if missing:
        changes["leaf_missing"] = rng.normal(size=forest.n_leaves)
    return dataclasses.replace(forest, **changes)


FORESTS = {
    "numbers": {},
    "no means": {"means": False, "missing": True},
    "no bounds": {"means": False, "missing": True, "bounds": False},
    "few terms": {"n_trees": 2, "n_features": 40},
    "complete trees": {"depth": 6, "missing": True},
    "trees of more leaves than lanes distinguish": {"depth": 8},
    "categories": {"kinds": True},
    "constants where a number is missing": {"missing": True, "kinds": True},
    "outputs": {"n_outputs": 3, "weights": "dart"},
    "a marker": {"kinds": True, "missing": True, "meaning": {"missing": 1.0}},
}


@pytest.mark.parametrize("name", FORESTS)
def test_margins_are_the_oracles(name):
    forest = linear_forest(len(name), **FORESTS[name])
    X = random_rows(2, forest, N_ROWS)
    X[np.isinf(X)] = 3.5
    marked = np.where(forest.ensemble.missing == X, np.nan, X).astype(X.dtype)
    expected = evaluate.margins(forest, marked)
    assert len(np.unique(expected)) > N_ROWS / 2
    size = 1 + np.abs(evaluate.tree_values(forest, marked)).sum(axis=0)
    found = forest.predict(X, output="margin").reshape(expected.shape)
    assert (np.abs(found - expected) <= 1e-14 * size * 10).all()


@pytest.mark.parametrize("name", FORESTS)
def test_every_schedule_has_the_same_bits(name):
    """Rows of infinities and NaN among them: sorted by leaf, one by one, from memory of any order."""
    forest = linear_forest(len(name), **FORESTS[name])
    X = random_rows(2, forest, N_ROWS)
    alone = np.stack([forest.predict(row[None], output="margin")[0] for row in X])
    assert np.isnan(X).any()
    assert np.isinf(X).any()
    for algorithm in runnable(forest):
        for rows in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
            np.testing.assert_array_equal(forest.predict(rows, output="margin", algorithm=algorithm), alone)
    predict = forest.predictor("margin")
    np.testing.assert_array_equal([predict(row) for row in X[:50]], alone[:50])


def test_rows_of_the_other_type_keep_their_numbers():
    """A number of a term is not cast to the type of the thresholds."""
    forest = linear_forest(4)
    assert forest.ensemble.threshold.dtype == np.float32
    X = np.random.default_rng(0).normal(size=(200, 5))
    single = X.astype(np.float32)
    np.testing.assert_array_equal(forest.predict(single), forest.predict(single.astype(np.float64)))
    assert (forest.predict(X) != forest.predict(single)).mean() > 0.5
