"""SHAP values where leaves hold linear models."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glasswood import Explainer, ModelTreeRegressor
from tests.example_forests import with_models
from tests.explain import linear_cases
from tests.explain.linear_cases import rows_of
from tests.oracles import linear_shapley
from tests.strategies import full_forest


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_explanations_match_the_oracle(seed, row_type, dtype):
    forest, X = linear_cases.plain(seed, row_type)
    for kind in ("values", "interactions"):
        linear_cases.check(Explainer(forest, dtype=dtype), X, kind)


@pytest.mark.parametrize("case", linear_cases.CASES[1:])
@pytest.mark.parametrize("seed", range(4))
def test_special_leaves(seed, case):
    forest, X = case(seed)
    explainer = Explainer(forest, dtype="float64")
    for kind in ("values", "interactions"):
        linear_cases.check(explainer, X, kind)
    explainer.shap_values(X, check_additivity=True)


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


def test_interactions_of_groups_and_of_some_features():
    forest = with_models(full_forest(7, n_trees=4, depth=3, n_features=6), 8, -1, 1)
    X = rows_of(forest, 9, 20)
    whole = Explainer(forest, dtype="float64").shap_interaction_values(X)
    some = Explainer(forest, dtype="float64").shap_interaction_values(X, features=[4, 1])
    np.testing.assert_array_equal(some, whole[:, [4, 1]])
    grouped = Explainer(forest, dtype="float64", groups={"a": [0, 3], "b": [5, 2]})
    expected = linear_shapley.interactions(forest, X, [[0, 3], [5, 2], [1], [4]])[..., 0]
    found = grouped.shap_interaction_values(X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_what_is_not_supported_says_so():
    forest = with_models(full_forest(1, n_trees=1, depth=2, n_features=3), 2)
    X = rows_of(forest, 3, 4)
    with pytest.raises(NotImplementedError, match="linear leaves are not supported yet in interactions against a back"):
        Explainer(forest, X).shap_interaction_values(X)
    with pytest.raises(NotImplementedError, match="leave algorithm='auto'"):
        Explainer(forest, algorithm="paths")
