"""Groups of features against background rows on a GPU, emulated and real: against sums over all coalitions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva import Explainer
from tests.conftest import examples
from tests.explain.tolerance import assert_close
from tests.oracles import players
from tests.strategies import Options, chain_forest, forests_and_rows, full_forest, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")


def explain(forest, background, groups, **options):
    return Explainer(forest, background, groups=groups, device="cuda", dtype="float64", **options)


@given(example=forests_and_rows(min_rows=2, max_rows=8, n_features=5), of=st.permutations([0, 0, 1, 1, 2]))
@examples(10)
def test_values_and_interactions_match_the_oracle(example, of):
    (forest, X), player_of = example, np.array(of)
    groups = {name: np.flatnonzero(player_of == p).tolist() for p, name in enumerate("abc")}
    background = X[len(X) // 2 :]
    game = players.interventional(forest, X, background, player_of)
    explainer = explain(forest, background, groups)
    assert_close(explainer.shap_values(X), players.values(game - game[:, :1]), forest, "float64")
    assert_close(explainer.shap_interaction_values(X), players.interactions(game - game[:, :1]), forest, "float64")


@pytest.mark.parametrize("n_features", [7, 12, 40])
def test_many_subtrees_give_what_the_cores_do(n_features):
    """Few players, sets of slots and wide chunks."""
    forest = random_forest(5, Options(n_trees=30, n_features=n_features, categorical=True, n_outputs=2))
    X = random_rows(4, forest, 60)
    groups = {"a": [0, 3, 6], "b": [1, 2]}
    found, expected = explain(forest, X[20:], groups), Explainer(forest, X[20:], groups=groups, dtype="float64")
    assert_close(found.shap_values(X), expected.shap_values(X), forest, "float64")
    chosen = ["a", "Feature 4"]
    pairs = (each.shap_interaction_values(X[:9], features=chosen) for each in (found, expected))
    assert_close(next(pairs), next(pairs), forest, "float64")


def test_probabilities_and_losses_of_groups():
    forest = dataclasses.replace(full_forest(3, n_trees=4, depth=4, n_features=6), link="logistic")
    X, y = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32), np.arange(20) % 2
    for output, labels in (("probability", {}), ("log_loss", {"y": y})):
        found = explain(forest, X, {"a": [5, 1]}, output=output).shap_values(X, **labels)
        expected = Explainer(forest, X, groups={"a": [5, 1]}, output=output, dtype="float64").shap_values(X, **labels)
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_forests_without_tables_are_refused_by_name():
    forest, X = chain_forest(30, 1e-3), np.zeros((3, 30), np.float32)
    with pytest.raises(NotImplementedError, match="1 of 1 trees have no tables of values against a background"):
        explain(forest, X, {"a": [5, 1]}).shap_values(X)
