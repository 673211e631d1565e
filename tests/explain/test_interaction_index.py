"""Interaction indices of sets of features, of both games, against sums over all coalitions."""

from __future__ import annotations

import dataclasses
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given

from glasswood import Explainer
from tests.example_forests import with_linear_leaves
from tests.explain.tolerance import assert_close
from tests.oracles import interventional, players
from tests.strategies import chain_forest, forests_and_rows, full_forest

N_FEATURES = 5
SETS = [tuple(s) for order in (1, 2, 3, 4) for s in itertools.combinations(range(N_FEATURES), order)]


def expected_indices(game, kind):
    """Of the game less its empty coalition, whose level rounds."""
    game = game - game[:, :1]
    by_set = {}
    for order in (1, 2, 3, 4):
        by_set |= interventional.index(game, order, kind)
    return np.stack([by_set[s] for s in SETS], axis=1)


@pytest.mark.parametrize("kind", ["shapley", "banzhaf"])
@given(example=forests_and_rows(min_rows=1, max_rows=8, n_features=N_FEATURES))
def test_indices_of_any_forest(kind, example):
    """Orders 1 to 4: categories, missing values and several outputs included."""
    forest, X = example
    background = X[len(X) // 2 :]
    weight = 1.0 + np.arange(len(background)) % 3
    by_path = players.path_dependent(forest, X, range(N_FEATURES))
    against = players.interventional(forest, X, background, range(N_FEATURES), weight)
    for dtype in ("float32", "float64"):
        plain = Explainer(forest, dtype=dtype)
        assert_close(plain.interaction_index(X, SETS, kind), expected_indices(by_path, kind), forest, dtype)
        explainer = Explainer(forest, background, background_weight=weight, dtype=dtype)
        assert_close(explainer.interaction_index(X, SETS, kind), expected_indices(against, kind), forest, dtype)


@pytest.mark.parametrize("has_background", [True, False])
def test_first_and_second_order_are_values_and_interactions(has_background):
    forest = full_forest(2, n_trees=6, depth=7, n_features=9)
    X = np.random.default_rng(1).normal(size=(400, 9))
    explainer = Explainer(forest, X[:300] if has_background else None, dtype="float64")
    found = explainer.interaction_index(X, [(j,) for j in range(9)])
    assert_close(found, explainer.shap_values(X)[..., None], forest, "float64")
    i, j = np.triu_indices(9, 1)
    pairs = explainer.shap_interaction_values(X)[:, i, j]
    assert_close(explainer.interaction_index(X, zip(i, j, strict=True)) / 2, pairs[..., None], forest, "float64")


@pytest.mark.parametrize("d", [70, 150])
@pytest.mark.parametrize("has_background", [True, False])
def test_paths_of_more_features_than_a_word_has_bits(d, has_background):
    """Of order 2, against the matrices; a set's order does not matter."""
    forest = chain_forest(d, 1e-3)
    X = (np.random.default_rng(0).random((30, d)) < 0.97).astype(float)
    explainer = Explainer(forest, X[10:] if has_background else None, dtype="float64")
    pairs = explainer.shap_interaction_values(X[:10], features=[3, d - 1])
    found = explainer.interaction_index(X[:10], [(3, d - 1), (d - 1, 3), (3, 64), (d - 1, 64)])
    expected = np.stack([pairs[:, 0, d - 1], pairs[:, 0, d - 1], pairs[:, 0, 64], pairs[:, 1, 64]], axis=1)
    assert_close(found / 2, expected[..., None], forest, "float64")


@pytest.mark.parametrize("has_background", [True, False])
def test_same_bits_for_any_share(has_background):
    forest = full_forest(0, n_trees=10, depth=5, n_features=6)
    rng = np.random.default_rng(1)
    X, background = rng.normal(size=(700, 6)), rng.normal(size=(300, 6))
    sets = list(itertools.combinations(range(6), 3))
    expected = None
    for n_jobs in (1, 2):
        rows = background[rng.permutation(300)] if has_background else None
        explainer = Explainer(forest, rows, n_jobs=n_jobs)
        for size in (41, 700):
            parts = [explainer.interaction_index(X[at : at + size], sets) for at in range(0, 700, size)]
            expected = np.concatenate(parts) if expected is None else expected
            np.testing.assert_array_equal(np.concatenate(parts), expected)
    again = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(again.interaction_index(X[:9], sets), expected[:9])


def test_probabilities_have_indices():
    """Of order 2 twice the matrix's entry."""
    forest = dataclasses.replace(full_forest(0, n_trees=4, depth=4, n_features=5), link="logistic")
    X = np.random.default_rng(1).normal(size=(20, 5))
    explainer = Explainer(forest, X[10:], output="probability", rule="rescale", dtype="float64")
    pairs = explainer.shap_interaction_values(X)
    np.testing.assert_allclose(explainer.interaction_index(X, [(0, 3)])[:, 0], 2 * pairs[:, 0, 3], atol=1e-13)


@pytest.mark.parametrize(
    ("sets", "index", "error", "message"),
    [
        ([(0, 1)], "owen", ValueError, "index is 'owen', expected 'shapley' or 'banzhaf'"),
        ("ab", "shapley", TypeError, "expected a list of sets of features"),
        ([0, 1], "shapley", TypeError, "sets holds 0, expected sets of 1 to 4 features, a tuple each"),
        ([()], "shapley", ValueError, "of 0 features, expected 1 to 4"),
        ([(0, 1, 2, 3, 4)], "shapley", ValueError, "of 5 features, expected 1 to 4"),
        ([(0, 5)], "shapley", ValueError, "sets holds 5, expected 0 to 4"),
        ([(0, "a")], "shapley", ValueError, "no feature is called 'a'"),
        ([(0, 0)], "shapley", ValueError, "names a feature twice"),
    ],
)
def test_what_is_no_set_is_refused_in_a_sentence(sets, index, error, message):
    with pytest.raises(error, match=message):
        Explainer(full_forest(0, n_trees=2, depth=2, n_features=5)).interaction_index(np.zeros((3, 5)), sets, index)


def test_linear_leaves_and_gpus_are_refused():
    forest = full_forest(0, n_trees=2, depth=2, n_features=5)
    with pytest.raises(NotImplementedError, match="linear leaves are not supported yet in interaction indices"):
        Explainer(with_linear_leaves(forest)).interaction_index(np.zeros((3, 5)), [(0, 1)])
    with pytest.raises(NotImplementedError, match="interaction indices of margins run on the CPU only"):
        Explainer(forest, device="cuda").interaction_index(np.zeros((3, 5)), [(0, 1)])
