"""SHAP values where leaves hold linear models."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from silva import Explainer, ModelTreeRegressor
from tests.example_forests import with_models
from tests.oracles import linear_shapley, shapley
from tests.strategies import Options, chain_forest, full_forest, random_forest


def rows_of(forest, seed, n):
    X = np.random.default_rng(seed).normal(size=(n, forest.n_features))
    if forest.nan_allowed:
        X[::3, 0] = np.nan
    return X.astype(forest.threshold.dtype)


def check(forest, X, dtype="float64"):
    expected = linear_shapley.values(forest, X)
    size = shapley.leaf_spread(forest) + np.abs(expected).sum(axis=1).max(axis=0)
    found = Explainer(forest, dtype=dtype).shap_values(X).reshape(expected.shape)
    assert (np.abs(found - expected) <= (1e-12 if dtype == "float64" else 2e-6) * size).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_values_match_the_oracle(seed, row_type, dtype):
    options = Options(n_trees=3, n_features=5, n_outputs=1 + seed % 3, weights="dart", row_type=row_type)
    forest = with_models(random_forest(seed, options), seed)
    check(forest, rows_of(forest, seed, 37), dtype)


@pytest.mark.parametrize("seed", range(4))
def test_clipped_leaves_share_what_they_return(seed):
    forest = with_models(random_forest(seed, Options(n_trees=2, n_features=4)), seed, -0.5, 0.3)
    check(forest, rows_of(forest, seed, 40))


@pytest.mark.parametrize("seed", range(4))
def test_leaves_whose_value_lies_beyond_their_range(seed):
    """Smoothing makes such leaves. At the means, so where all is missing, they return the end of the range."""
    forest = with_models(random_forest(seed, Options(n_trees=2, n_features=4)), seed, 0.1, 0.6)
    X = rows_of(forest, seed, 40)
    check(forest, X)
    X[::2] = np.nan
    check(forest, X)
    Explainer(forest, dtype="float64").shap_values(X, check_additivity=True)


@pytest.mark.parametrize("seed", range(4))
def test_terms_of_categories_and_of_missing_values(seed):
    """Several terms of a feature, on the path and off it, and rows without a value."""
    forest = with_models(random_forest(seed, Options(n_trees=3, n_features=4, categorical=True)), seed, -2, 2)
    repeated = np.repeat(np.arange(len(forest.linear_feature)), 2)
    rng = np.random.default_rng(seed)
    forest = dataclasses.replace(
        forest,
        linear_offsets=2 * forest.linear_offsets,
        linear_feature=forest.linear_feature[repeated],
        linear_category=rng.integers(-2, 4, len(repeated)).astype(np.int32),
        linear_coefficient=rng.normal(size=len(repeated)),
        linear_mean=rng.uniform(size=len(repeated)),
    )
    X = rng.integers(0, 5, (40, 4)).astype(forest.threshold.dtype)
    X[rng.random(X.shape) < 0.2] = np.nan
    check(forest, X)


@pytest.mark.parametrize("seed", range(4))
def test_missing_numbers_that_take_leaves_back_to_constants(seed):
    forest = with_models(random_forest(seed, Options(n_trees=3, n_features=4)), seed)
    forest = dataclasses.replace(forest, leaf_missing=np.random.default_rng(seed).normal(size=forest.n_leaves))
    X = rows_of(forest, seed, 40)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    check(forest, X)
    Explainer(forest, dtype="float64").shap_values(X, check_additivity=True)


def test_deep_paths_and_many_points():
    forest = with_models(chain_forest(9, 1e-3), 0)
    check(forest, rows_of(forest, 1, 20))


@pytest.mark.parametrize("shape", ["bushy", "leaf"])
def test_values_add_up_to_the_margin(shape):
    forest = full_forest(4, n_trees=6, depth=0 if shape == "leaf" else 7, n_features=30)
    forest = with_models(forest, 5, -1, 1)
    X = rows_of(forest, 6, 300)
    explainer = Explainer(forest, dtype="float64")
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, forest.predict(X, output="margin", device="cpu"), rtol=0, atol=1e-9)


def test_zero_coefficients_give_the_values_of_constant_leaves():
    constant = full_forest(7, n_trees=4, depth=5, n_features=6)
    forest = dataclasses.replace(
        with_models(constant, 8), linear_coefficient=np.zeros(len(with_models(constant, 8).linear_mean))
    )
    X = rows_of(forest, 9, 50)
    expected = Explainer(constant, dtype="float64").shap_values(X)
    np.testing.assert_allclose(Explainer(forest, dtype="float64").shap_values(X), expected, rtol=0, atol=1e-13)


def test_a_grown_model_tree_is_explained():
    X = np.random.default_rng(0).uniform(-1, 1, size=(400, 3))
    y = np.where(X[:, 0] > 0, 2 * X[:, 1] + 1, -X[:, 2])
    tree = ModelTreeRegressor(generations=20, random_state=0).fit(X, y)
    explainer = Explainer(tree, dtype="float64")
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, tree.predict(X), rtol=0, atol=1e-9)


def test_what_is_not_supported_says_so():
    forest = with_models(full_forest(1, n_trees=1, depth=2, n_features=3), 2)
    X = rows_of(forest, 3, 4)
    with pytest.raises(NotImplementedError, match="linear leaves are not supported yet in interactions"):
        Explainer(forest).shap_interaction_values(X)
    with pytest.raises(NotImplementedError, match="use algorithm='quadrature'"):
        Explainer(forest, algorithm="paths")
    with pytest.raises(NotImplementedError, match="device='cpu'"):
        Explainer(forest, device="cuda").shap_values(X)
