"""Forests with linear leaves and rows for them, for every device."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.example_forests import with_models
from tests.oracles import linear_shapley, shapley
from tests.strategies import Options, chain_forest, random_forest


def rows_of(forest, seed, n):
    X = np.random.default_rng(seed).normal(size=(n, forest.n_features))
    if forest.ensemble.nan_allowed:
        X[::3, 0] = np.nan
    return X.astype(forest.ensemble.threshold.dtype)


def check(explainer, X, kind="values"):
    """Compare values or interactions with their definition."""
    expected = getattr(linear_shapley, kind)(explainer.forest, X)
    phi = expected if kind == "values" else expected.sum(axis=2)
    size = shapley.leaf_spread(explainer.forest) + np.abs(phi).sum(axis=1).max(axis=0)
    explain = explainer.shap_values if kind == "values" else explainer.shap_interaction_values
    found = explain(X).reshape(expected.shape)
    assert (np.abs(found - expected) <= (1e-12 if explainer.settings.dtype == "float64" else 2e-6) * size).all()


def plain(seed, row_type="float64"):
    options = Options(n_trees=3, n_features=5, n_outputs=1 + seed % 3, weights="dart", row_type=row_type)
    forest = with_models(random_forest(seed, options), seed)
    return forest, rows_of(forest, seed, 37)


def clipped(seed):
    forest = with_models(random_forest(seed, Options(n_trees=2, n_features=4)), seed, -0.5, 0.3)
    return forest, rows_of(forest, seed, 40)


def beyond_their_range(seed):
    """Leaves that smoothing makes. At the means, so where all is missing, they return the end of the range."""
    forest = with_models(random_forest(seed, Options(n_trees=2, n_features=4)), seed, 0.1, 0.6)
    X = rows_of(forest, seed, 40)
    if seed % 2:
        X[::2] = np.nan
    return forest, X


def of_categories(seed):
    """Several terms of a feature, on the path and off it, and rows without a value."""
    forest = with_models(random_forest(seed, Options(n_trees=3, n_features=4, categorical=True)), seed, -2, 2)
    repeated = np.repeat(np.arange(len(forest.ensemble.linear_feature)), 2)
    rng = np.random.default_rng(seed)
    forest = dataclasses.replace(
        forest,
        linear_offsets=2 * forest.ensemble.linear_offsets,
        linear_feature=forest.ensemble.linear_feature[repeated],
        linear_category=rng.integers(-3, 4, len(repeated)).astype(np.int32),
        linear_coefficient=rng.normal(size=len(repeated)),
        linear_mean=rng.uniform(size=len(repeated)),
    )
    X = rng.integers(0, 5, (40, 4)).astype(forest.ensemble.threshold.dtype)
    X[rng.random(X.shape) < 0.2] = np.nan
    return forest, X


def constants_where_numbers_are_missing(seed):
    """Logarithms are missing where their numbers are not positive, too."""
    forest, rng = with_models(random_forest(seed, Options(n_trees=3, n_features=4)), seed), np.random.default_rng(seed)
    kinds = rng.choice(np.array([-1, -3], np.int32), len(forest.ensemble.linear_feature))
    forest = dataclasses.replace(forest, leaf_missing=rng.normal(size=forest.n_leaves), linear_category=kinds)
    X = rows_of(forest, seed, 40)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    return forest, X


def deep(seed):
    """More points than one pass has."""
    forest = with_models(chain_forest(9, 1e-3), seed)
    return forest, rows_of(forest, seed, 20)


CASES = [plain, clipped, beyond_their_range, of_categories, constants_where_numbers_are_missing, deep]
