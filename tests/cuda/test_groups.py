"""Groups of features on a GPU, emulated and real: both games against sums over all coalitions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasswood import Explainer
from glasswood.plans import plan_of
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
    half = X[len(X) // 2 :]
    games = (
        (None, players.path_dependent(forest, X, player_of)),
        (half, players.interventional(forest, X, half, player_of)),
    )
    for background, game in games:
        explainer = explain(forest, background, groups)
        assert_close(explainer.shap_values(X), players.values(game - game[:, :1]), forest, "float64")
        assert_close(explainer.shap_interaction_values(X), players.interactions(game - game[:, :1]), forest, "float64")


@given(example=forests_and_rows(min_rows=1, max_rows=8, n_features=5), of=st.permutations([0, 0, 1, 1, 2]))
@examples(10)
def test_a_walk_of_players_matches_the_oracle(example, of):
    (forest, X), player_of = example, np.array(of)
    groups = {name: np.flatnonzero(player_of == p).tolist() for p, name in enumerate("abc")}
    game = players.path_dependent(forest, X, player_of)
    explainer = explain(forest, None, groups, algorithm="quadrature")
    assert_close(explainer.shap_values(X), players.values(game - game[:, :1]), forest, "float64")
    assert_close(explainer.shap_interaction_values(X), players.interactions(game - game[:, :1]), forest, "float64")


@pytest.mark.parametrize("has_background", [False, True])
@pytest.mark.parametrize("n_features", [7, 12, 40])
def test_many_subtrees_give_what_the_cores_do(n_features, has_background):
    """Few players, sets of slots and wide chunks."""
    forest = random_forest(5, Options(n_trees=30, n_features=n_features, categorical=True, n_outputs=2))
    X = random_rows(4, forest, 60)
    groups = {"a": [0, 3, 6], "b": [1, 2]}
    background = X[20:] if has_background else None
    found, expected = explain(forest, background, groups), Explainer(forest, background, groups=groups, dtype="float64")
    assert_close(found.shap_values(X), expected.shap_values(X), forest, "float64")
    chosen = ["a", "x4"]
    pairs = (each.shap_interaction_values(X[:9], features=chosen) for each in (found, expected))
    assert_close(next(pairs), next(pairs), forest, "float64")


def test_probabilities_and_losses_of_groups():
    forest = dataclasses.replace(full_forest(3, n_trees=4, depth=4, n_features=6), link="logistic")
    X, y = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32), np.arange(20) % 2
    for output, labels in (("probability", {}), ("log_loss", {"y": y})):
        about = {"output": output, "rule": "rescale"}
        found = explain(forest, X, {"a": [5, 1]}, **about).shap_values(X, **labels)
        expected = Explainer(forest, X, groups={"a": [5, 1]}, **about, dtype="float64").shap_values(X, **labels)
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"table_bytes": 0}, {"algorithm": "quadrature"}])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_players_without_tables_are_walked(dtype, options):
    """Features of a group lie above and below others of it; tapes of few and of many splits."""
    for forest in (chain_forest(30, 1e-3), full_forest(7, n_trees=12, depth=7, n_features=30)):
        X = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)
        groups = {"a": [5, 1, 20, 17], "b": [3, 4]}
        found = Explainer(forest, groups=groups, device="cuda", dtype=dtype, **options)
        expected = Explainer(forest, groups=groups, device="cpu", dtype="float64", algorithm="quadrature")
        assert_close(found.shap_values(X), expected.shap_values(X)[..., None], forest, dtype)
        pairs = (each.shap_interaction_values(X[:3], features=["b", "x7"]) for each in (found, expected))
        assert_close(next(pairs), next(pairs)[..., None], forest, dtype)


def test_a_walk_of_groups_above_and_below_each_other():
    forest = full_forest(8, n_trees=3, depth=6, n_features=9)
    X = np.random.default_rng(0).normal(size=(9, 9)).astype(np.float32)
    player_of = np.array([0, 1, 0, 2, 0, 1, 3, 4, 5])
    groups = {"a": [0, 2, 4], "b": [1, 5]}
    game = players.path_dependent(forest, X, player_of)
    explainer = explain(forest, None, groups, algorithm="quadrature")
    assert_close(explainer.shap_values(X), players.values(game - game[:, :1]), forest, "float64")
    assert_close(explainer.shap_interaction_values(X), players.interactions(game - game[:, :1]), forest, "float64")


def test_tables_beyond_the_budget_are_built_for_each_call():
    forest = full_forest(7, n_trees=12, depth=7, n_features=6)
    X, groups = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32), {"a": [0, 3], "b": [1, 2]}
    whole = explain(forest, None, groups)
    expected = whole.shap_values(X)
    small = explain(forest, None, groups, table_bytes=plan_of(whole, "cuda").job("values").plan.n_bytes // 2)
    np.testing.assert_allclose(small.shap_values(X), expected, atol=1e-12)
    assert len(plan_of(small, "cuda").job("values").plan.batches) > 2
