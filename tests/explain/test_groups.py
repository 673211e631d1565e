"""Groups of features as players, of both games, against sums over all coalitions."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given

from silva import Explainer
from tests.example_forests import with_linear_leaves
from tests.explain.tolerance import assert_close
from tests.oracles import evaluate, players
from tests.strategies import Options, forests_and_rows, full_forest, random_forest

GROUPS = {"a": [4, 1], "b": [3]}
PLAYER_OF = np.array([2, 0, 3, 1, 0])
"""Players of five features: a, b, then the features 0 and 2."""


def check(forest, X, background=None, weight=None):
    game = (
        players.path_dependent(forest, X, PLAYER_OF)
        if background is None
        else players.interventional(forest, X, background, PLAYER_OF, weight)
    )
    game = game - game[:, :1]
    for dtype in ("float32", "float64"):
        explainer = Explainer(forest, background, background_weight=weight, dtype=dtype, groups=GROUPS)
        assert_close(explainer.shap_values(X), players.values(game), forest, dtype)
        assert_close(explainer.shap_interaction_values(X), players.interactions(game), forest, dtype)
        third = players.by_features.index(game, 3)[0, 1, 3]
        assert_close(explainer.interaction_index(X, [(0, 1, 3)]), third[:, None], forest, dtype)


@given(example=forests_and_rows(min_rows=1, max_rows=8, n_features=5))
def test_groups_of_any_forest(example):
    forest, X = example
    check(forest, X)
    background = X[len(X) // 2 :]
    check(forest, X, background, 1.0 + np.arange(len(background)) % 3)


def named_forest():
    forest = full_forest(0, n_trees=5, depth=5, n_features=5)
    return dataclasses.replace(forest, feature_names=("lat", "lon", "age", "rooms", "income"))


def test_names_of_players():
    forest = named_forest()
    explainer = Explainer(forest, groups={"place": ["lon", "lat"]})
    assert explainer.players == ("place", "age", "rooms", "income")
    assert explainer.groups == {"place": [1, 0]}
    assert Explainer(forest).players == forest.feature_names
    assert Explainer(forest).groups is None
    without = dataclasses.replace(forest, feature_names=None)
    assert Explainer(without, groups={"place": [1, 0]}).players == ("place", "x2", "x3", "x4")


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of shap's plots
@pytest.mark.parametrize("has_background", [True, False])
def test_all_that_an_explainer_does_knows_groups(tmp_path, has_background):
    forest = named_forest()
    X = np.random.default_rng(1).normal(size=(60, 5))
    explainer = Explainer(forest, X[:40] if has_background else None, groups={"place": ["lon", "lat"]}, n_jobs=2)
    phi = explainer.shap_values(X, check_additivity=True)
    assert phi.shape == (60, 4)
    explanation = explainer(X)
    np.testing.assert_array_equal(explanation.values, phi)
    assert list(explanation.feature_names) == list(explainer.players)
    np.testing.assert_array_equal(explanation.data[:, 1:], X[:, 2:])
    assert np.isnan(explanation.data[:, 0]).all()
    pairs = explainer.shap_interaction_values(X, features=["rooms", "place"])
    np.testing.assert_allclose(pairs.sum(axis=2), phi[:, [2, 0]], atol=1e-6)
    np.testing.assert_array_equal(explainer.row()(X[3]), phi[3])
    order, values = explainer.row(top=9)(X[3])
    np.testing.assert_array_equal(values, phi[3][order])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).shap_values(X), phi)
    explainer.save(tmp_path / "explainer.silva")
    loaded = Explainer.load(tmp_path / "explainer.silva")
    assert loaded.players == explainer.players
    np.testing.assert_array_equal(loaded.shap_values(X), phi)


def test_a_group_of_all_features_has_the_margin():
    forest = named_forest()
    X = np.random.default_rng(1).normal(size=(20, 5))
    explainer = Explainer(forest, X, groups={"all": range(5)}, dtype="float64")
    total = explainer.shap_values(X)[:, 0] + explainer.expected_value
    np.testing.assert_allclose(total, evaluate.margins(forest, X)[:, 0], atol=1e-12)


def test_groups_of_single_features_are_features():
    forest = random_forest(3, Options(n_trees=8, n_features=5, n_outputs=2, categorical=True))
    X = np.random.default_rng(1).normal(size=(20, 5))
    single = {str(f): [f] for f in (3, 1, 0)}
    for background in (None, X):
        found = Explainer(forest, background, groups=single).shap_values(X)
        plain = Explainer(forest, background, table_bytes=0).shap_values(X)
        np.testing.assert_array_equal(found, plain[:, [3, 1, 0, 2, 4]])


def test_linear_leaves_by_groups():
    """Terms of a group are known with it: groups of one feature are features, the group of all has the margin."""
    forest = with_linear_leaves(full_forest(0, n_trees=4, depth=3, n_features=5))
    X = np.random.default_rng(1).normal(size=(20, 5))
    plain = Explainer(forest, dtype="float64").shap_values(X)
    found = Explainer(forest, dtype="float64", groups={"a": [2], "b": [4]}).shap_values(X)
    np.testing.assert_allclose(found, plain[:, [2, 4, 0, 1, 3]], atol=1e-12)
    whole = Explainer(forest, dtype="float64", groups={"all": range(5)})
    margin = forest.predict(X, output="margin")
    np.testing.assert_allclose(whole.shap_values(X)[:, 0] + whole.expected_value, margin, atol=1e-10)


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ({"place": ["lat", "street"]}, ValueError, "no feature is called 'street'"),
        ({"place": [0, 7]}, ValueError, "group 'place' holds 7, expected 0 to 4"),
        ({"place": ["lat"], "home": ["rooms", "lat"]}, ValueError, "feature 'lat' is in the groups 'place' and 'home'"),
        ({"place": ["lat", "lat"]}, ValueError, "feature 'lat' is in group 'place' twice"),
        ({"place": []}, ValueError, "group 'place' has no features; name at least one"),
        ({"place": "lat"}, TypeError, "group 'place' is 'lat', expected a list of features"),
        ({"rooms": ["lat", "lon"]}, ValueError, "group 'rooms' is called like a feature that is not in it"),
        ({}, TypeError, "expected a dict of a name to a list of features"),
        ([["lat", "lon"]], TypeError, "expected a dict of a name to a list of features"),
    ],
)
def test_groups_that_do_not_fit_are_refused_in_a_sentence(groups, error, message):
    with pytest.raises(error, match=message):
        Explainer(named_forest(), groups=groups)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "tables"}, "algorithm='tables' has no groups of features; pass algorithm='auto'"),
        ({"device": "cuda"}, "groups run on the CPU only; pass device='cpu', not 'cuda'"),
    ],
)
def test_what_has_no_groups_is_refused_in_a_sentence(options, message):
    with pytest.raises(NotImplementedError, match=message):
        Explainer(named_forest(), groups={"place": ["lat", "lon"]}, **options)
