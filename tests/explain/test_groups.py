"""Groups of features as players, of both games, against sums over all coalitions."""

from __future__ import annotations

import dataclasses
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasswood import Explainer
from tests.example_forests import with_linear_leaves
from tests.explain.tolerance import assert_close
from tests.oracles import evaluate, players
from tests.strategies import Options, forests_and_rows, full_forest, random_forest

GROUPS = {"a": [4, 1], "b": [3]}
PLAYER_OF = np.array([2, 0, 3, 1, 0])
"""Players of five features: a, b, then the features 0 and 2."""


TABLES, WALK = {"algorithm": "tables"}, {"table_bytes": 0}


def check(forest, X, player_of, background=None, weight=None):
    game = (
        players.path_dependent(forest, X, player_of)
        if background is None
        else players.interventional(forest, X, background, player_of, weight)
    )
    game = game - game[:, :1]
    groups = {str(p): np.flatnonzero(player_of == p).tolist() for p in range(player_of.max() + 1)}
    for dtype, settings in itertools.product(("float32", "float64"), (TABLES, WALK)):
        explainer = Explainer(forest, background, background_weight=weight, dtype=dtype, groups=groups, **settings)
        assert_close(explainer.shap_values(X), players.values(game), forest, dtype)
        assert_close(explainer.shap_interaction_values(X), players.interactions(game), forest, dtype)
        for three in itertools.combinations(range(len(groups)), 3):
            third = players.by_features.index(game, 3)[three]
            assert_close(explainer.interaction_index(X, [three]), third[:, None], forest, dtype)


@given(example=forests_and_rows(min_rows=1, max_rows=8, n_features=5), of=st.permutations([0, 0, 1, 1, 2]))
def test_groups_of_any_forest(example, of):
    forest, X = example
    check(forest, X, np.array(of))
    background = X[len(X) // 2 :]
    check(forest, X, np.array(of), background, 1.0 + np.arange(len(background)) % 3)


@given(example=forests_and_rows(min_rows=1, max_rows=8, n_features=5), with_others=st.booleans())
def test_a_group_beside_single_features(example, with_others):
    forest, X = example
    check(forest, X, PLAYER_OF if with_others else np.array([0, 0, 0, 1, 0]))


@pytest.mark.parametrize("has_background", [False, True])
@pytest.mark.parametrize("options", [Options(), Options(categorical=True, n_outputs=3, row_type="float64")])
def test_tables_and_walk_agree_on_forests_of_many_subtrees(options, has_background):
    forest = random_forest(5, dataclasses.replace(options, n_trees=60, n_features=20))
    X = np.random.default_rng(1).normal(size=(300, 20))
    groups = {"a": [0, 7, 13], "b": [2, 3], "c": range(14, 20)}
    made = {
        name: Explainer(forest, X[:100] if has_background else None, dtype="float64", groups=groups, **settings)
        for name, settings in (("tables", TABLES), ("walk", WALK))
    }
    assert made["tables"].algorithm_ == "tables"
    assert made["walk"].algorithm_ == ("patterns" if has_background else "quadrature")
    for of_pairs in (False, True):
        found = {n: e.shap_interaction_values(X) if of_pairs else e.shap_values(X) for n, e in made.items()}
        walk = found["walk"] if forest.n_outputs > 1 else found["walk"][..., None]
        assert_close(found["tables"], walk, forest, "float64")


@pytest.mark.parametrize("has_background", [False, True])
def test_bits_of_groups_do_not_depend_on_threads_or_batches(has_background):
    forest = random_forest(5, Options(n_trees=40, n_features=12))
    X = np.random.default_rng(1).normal(size=(700, 12)).astype(np.float32)
    background = X[:300] if has_background else None
    groups = {"a": [0, 7, 11], "b": [2, 3]}
    whole = Explainer(forest, background, groups=groups, algorithm="tables", n_jobs=1).shap_values(X)
    turned = None if background is None else background[::-1]
    other = Explainer(forest, turned, groups=groups, algorithm="tables", n_jobs=2)
    parts = [other.shap_values(part) for part in (X[:1], X[1:40], X[40:])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(other.row()(X[3]), whole[3])


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
    explainer.save(tmp_path / "explainer.glasswood")
    loaded = Explainer.load(tmp_path / "explainer.glasswood")
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
        plain = Explainer(forest, background).shap_values(X)
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
        ({"place": np.array([[0, 1]])}, TypeError, r"group 'place' holds array\(\[0, 1\]\), expected indices or names"),
        ({"place": []}, ValueError, "group 'place' has no features; name at least one"),
        ({"place": "lat"}, TypeError, "group 'place' is 'lat', expected a list of features"),
        ({"rooms": ["lat", "lon"]}, ValueError, "group 'rooms' has the name of a feature that is not in it"),
        ({}, TypeError, "expected a dict of a name to a list of features"),
        ([["lat", "lon"]], TypeError, "expected a dict of a name to a list of features"),
    ],
)
def test_groups_that_do_not_fit_are_refused_in_a_sentence(groups, error, message):
    with pytest.raises(error, match=message):
        Explainer(named_forest(), groups=groups)


def test_paths_have_no_groups():
    with pytest.raises(
        NotImplementedError, match="algorithm='paths' does not support groups of features; pass algorithm='auto'"
    ):
        Explainer(named_forest(), groups={"place": ["lat", "lon"]}, algorithm="paths")
