"""SHAP interactions against the oracle, and their own identities."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glasswood import Explainer
from tests.explain.tolerance import DTYPES, assert_all_close, tolerance
from tests.oracles import shapley
from tests.strategies import chain_forest, forests_and_rows, full_forest


@given(example=forests_and_rows())
def test_interactions_match_the_sum_over_coalitions(example):
    forest, X = example
    expected = shapley.interactions(forest, shapley.sides(forest, X))
    assert_all_close(lambda explainer: explainer.shap_interaction_values(X), forest, expected)


@pytest.mark.parametrize("shape", ["bushy", "chain"])
@given(data=st.data())
@settings(max_examples=5)
def test_interactions_match_the_oracle_where_paths_hold_many_features(shape, data):
    forest, X = data.draw(forests_and_rows(shape=shape, n_features=25, n_trees=1, max_rows=3))
    expected = shapley.interactions_by_leaf(forest, shapley.sides(forest, X))
    assert_all_close(lambda explainer: explainer.shap_interaction_values(X), forest, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [2, 17, 40])
def test_interactions_of_a_chain_are_all_the_same(algorithm, d, dtype):
    """Half of (1 - z)^2 times the integral of (z + (1 - z) t)^(d - 2), where z^d is the share of the last leaf."""
    forest, z = chain_forest(d, 1e-3), 1e-3 ** (1 / d)
    found = Explainer(forest, algorithm=algorithm, dtype=dtype).shap_interaction_values(np.ones((1, d)))[0]
    pair = (1 - z) * (1 - z ** (d - 1)) / (2 * (d - 1))
    off_diagonal = found[~np.eye(d, dtype=bool)]
    assert np.abs(off_diagonal - pair).max() <= tolerance(forest, dtype)[0]


@pytest.mark.parametrize("dtype", DTYPES)
@given(example=forests_and_rows())
def test_interactions_are_symmetric_and_add_up_to_the_values(algorithm, dtype, example):
    forest, X = example
    explainer = Explainer(forest, algorithm=algorithm, dtype=dtype)
    shape = (len(X), forest.n_features, forest.n_features, forest.n_outputs)
    pairs = explainer.shap_interaction_values(X).reshape(shape).astype(np.float64)
    phi = explainer.shap_values(X).reshape(shape[0], shape[1], shape[3])
    assert (np.abs(pairs - pairs.swapaxes(1, 2)) <= tolerance(forest, dtype)).all()
    assert (np.abs(pairs.sum(axis=2) - phi) <= tolerance(forest, dtype)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("features", [[0], [3, 1], [4, 0, 2], list(range(5)), np.array([2, 3], np.int32), []])
def test_features_restrict_the_full_result(algorithm, dtype, features):
    forest = full_forest(0, n_trees=20, depth=5, n_features=5)
    X = np.random.default_rng(1).normal(size=(19, 5))
    explainer = Explainer(forest, algorithm=algorithm, dtype=dtype)
    part = explainer.shap_interaction_values(X, features=features)
    whole = explainer.shap_interaction_values(X)
    assert part.shape == (19, len(features), 5)
    assert np.abs(part - whole[:, np.asarray(features, int)]).max(initial=0) <= tolerance(forest, dtype)[0]


def test_features_may_be_names():
    names = ("age", "rooms", "income", "area", "floor")
    forest = dataclasses.replace(full_forest(0, n_trees=2, depth=3, n_features=5), feature_names=names)
    explain, X = Explainer(forest).shap_interaction_values, np.ones((1, 5))
    np.testing.assert_array_equal(explain(X, features=["floor", "income"]), explain(X, features=[4, 2]))


@given(example=forests_and_rows(n_features=5))
def test_features_restrict_every_forest(algorithm, example):
    forest, X = example
    explainer = Explainer(forest, algorithm=algorithm, dtype="float64")
    shape = (len(X), -1, 5, forest.n_outputs)
    part = explainer.shap_interaction_values(X, features=[4, 1]).reshape(len(X), 2, 5, forest.n_outputs)
    whole = explainer.shap_interaction_values(X).reshape(len(X), 5, 5, forest.n_outputs)
    assert part.shape[1:] == (2, *shape[2:])
    assert (np.abs(part - whole[:, [4, 1]]) <= tolerance(forest, "float64")).all()


@pytest.mark.parametrize("features", [[5], [-6], [1, 1], [0.5], ["a"], [[0]], 2.5, 2, "income"])
def test_wrong_features_are_refused(features):
    forest = full_forest(0, n_trees=1, depth=2, n_features=5)
    with pytest.raises((ValueError, TypeError), match="feature"):
        Explainer(forest).shap_interaction_values(np.ones((1, 5)), features=features)
