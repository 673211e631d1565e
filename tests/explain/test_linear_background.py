"""Values against background rows where leaves hold linear models, by the margins of all mixed rows."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from glasswood import Explainer, ModelTreeRegressor
from tests.example_forests import with_models
from tests.explain.linear_cases import of_categories, rows_of
from tests.oracles import linear_shapley, players, shapley
from tests.strategies import Options, full_forest, random_forest

N_ROWS, N_BACKGROUND = 4, 6


def check(forest, X, groups=None, player_of=None):
    X, background = X[:N_ROWS], X[N_ROWS : N_ROWS + N_BACKGROUND]
    weight = 1.0 + np.arange(len(background)) % 3
    player_of = range(forest.n_features) if player_of is None else player_of
    game = linear_shapley.interventional(forest, X, background, player_of, weight)
    expected = players.values(game - game[:, :1])
    size = shapley.leaf_spread(forest) + np.abs(expected).sum(axis=1).max(axis=0) + np.abs(game).max()
    for dtype, error in (("float64", 1e-12), ("float32", 1e-6)):
        explainer = Explainer(forest, background, background_weight=weight, dtype=dtype, groups=groups)
        found = explainer.shap_values(X, check_additivity=True).reshape(expected.shape)
        assert (np.abs(found - expected) <= error * size).all()
        np.testing.assert_allclose(explainer.expected_value, game[0, 0].squeeze(), rtol=1e-12, atol=1e-12 * size.max())
    assert explainer.algorithm_ == "patterns"


@pytest.mark.parametrize("row_type", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_values_match_the_oracle(seed, row_type):
    options = Options(n_trees=3, n_features=5, n_outputs=1 + seed % 3, weights="dart", row_type=row_type)
    forest = with_models(random_forest(seed, options), seed)
    check(forest, rows_of(forest, seed, 10))


@pytest.mark.parametrize("bounds", [(-0.5, 0.3), (0.1, 0.6), (-1, np.inf), (-3, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_clipped_leaves(seed, bounds):
    """Mixed rows are clipped, too; where the value at the means lies beyond the range as well."""
    forest = with_models(random_forest(seed, Options(n_trees=2, n_features=5)), seed, *bounds)
    check(forest, rows_of(forest, seed, 10))


@pytest.mark.parametrize("row_type", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(3))
def test_a_huge_background_value_leaves_the_others_as_they_are(seed, row_type):
    """Beside 1e38 in a sum all else is lost, though a clip makes of it no more than the end of the range."""
    forest = with_models(random_forest(seed, Options(n_trees=2, n_features=5, row_type=row_type)), seed, -1, 2)
    X = rows_of(forest, seed, 10)
    X[N_ROWS, 2], X[N_ROWS + 1, 3] = 1e38, -3e38
    check(forest, X)


@pytest.mark.parametrize("bounds", [(), (-2, 2)])
def test_groups_know_the_terms_of_their_features(bounds):
    forest = with_models(random_forest(1, Options(n_trees=3, n_features=5)), 1, *bounds)
    check(forest, rows_of(forest, 1, 10), {"a": [4, 1], "b": [3]}, [2, 0, 3, 1, 0])


@pytest.mark.parametrize("seed", range(4))
def test_terms_of_categories_and_of_missing_values(seed):
    check(*of_categories(seed))


@pytest.mark.parametrize("bounds", [(), (-1, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_missing_numbers_that_take_leaves_back_to_constants(seed, bounds):
    forest = with_models(random_forest(seed, Options(n_trees=2, n_features=4)), seed, *bounds)
    forest = dataclasses.replace(forest, leaf_missing=np.random.default_rng(seed).normal(size=forest.n_leaves))
    X = rows_of(forest, seed, 10)
    check(forest, X)
    X[np.random.default_rng(seed).random(X.shape) < 0.3] = np.nan
    check(forest, X)


def test_linear_trees_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nansum(X, axis=1) + X[:, 0].clip(0) ** 2
    y[np.isnan(y)] = 0
    settings = {"linear_tree": True, "num_leaves": 8, "verbose": -1, "num_threads": 1, "objective": "regression"}
    model = lightgbm.train(settings, lightgbm.Dataset(X, y), 5)
    explainer = Explainer(model, X[:100], dtype="float64")
    np.testing.assert_allclose(explainer.expected_value, model.predict(X[:100]).mean(), rtol=1e-9)
    total = explainer.shap_values(X[300:]).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, model.predict(X[300:]), atol=1e-9)


def test_trees_without_splits():
    forest = with_models(full_forest(4, n_trees=2, depth=0, n_features=5), 5, -1, 1)
    check(forest, rows_of(forest, 6, 10))


@pytest.mark.parametrize("bounds", [(), (-1, 1)])
def test_same_bits_for_any_share_order_and_file(tmp_path, bounds):
    forest = with_models(full_forest(0, n_trees=3, depth=3, n_features=6), 1, *bounds)
    X = rows_of(forest, 2, 500)
    rng = np.random.default_rng(3)
    weight, expected = rng.random(200), None
    for n_jobs in (1, 2):
        order = rng.permutation(200)
        explainer = Explainer(forest, X[300:][order], background_weight=weight[order], n_jobs=n_jobs)
        for size in (41, 300):
            found = np.concatenate([explainer.shap_values(X[at : min(at + size, 300)]) for at in range(0, 300, size)])
            expected = found if expected is None else expected
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).shap_values(X[:300]), expected)
    explainer.save(tmp_path / "explainer.glasswood")
    loaded = Explainer.load(tmp_path / "explainer.glasswood")
    np.testing.assert_array_equal(loaded.shap_values(X[:300]), expected)
    np.testing.assert_array_equal(loaded.expected_value, explainer.expected_value)


def test_zero_coefficients_give_the_values_of_constant_leaves():
    constant = full_forest(7, n_trees=4, depth=5, n_features=6)
    models = with_models(constant, 8)
    forest = dataclasses.replace(models, linear_coefficient=np.zeros(len(models.linear_mean)))
    X = rows_of(forest, 9, 80)
    expected = Explainer(constant, X[50:], dtype="float64").shap_values(X[:50])
    found = Explainer(forest, X[50:], dtype="float64").shap_values(X[:50])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_a_grown_model_tree_is_explained():
    X = np.random.default_rng(0).uniform(-1, 1, size=(400, 3))
    y = np.where(X[:, 0] > 0, 2 * X[:, 1] + 1, -X[:, 2])
    tree = ModelTreeRegressor(generations=20, random_state=0).fit(X, y)
    explainer = Explainer(tree, X, dtype="float64")
    np.testing.assert_allclose(explainer.expected_value, tree.predict(X).mean(), rtol=1e-12)
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, tree.predict(X), rtol=0, atol=1e-9)


def test_a_clip_of_too_many_features_is_refused_in_a_sentence():
    forest = full_forest(4, n_trees=1, depth=1, n_features=20)
    everything = np.tile(np.arange(20, dtype=np.int32), 2)
    forest = dataclasses.replace(
        with_models(forest, 5, -0.1, 0.1),
        linear_offsets=np.array([0, 20, 40]),
        linear_feature=everything,
        linear_category=np.full(40, -1, np.int32),
        linear_coefficient=np.ones(40),
        linear_mean=np.zeros(40),
    )
    X = rows_of(forest, 6, 10)
    with pytest.raises(NotImplementedError, match=r"16 features of two rows mix; explain without a background$"):
        Explainer(forest, X).shap_values(X)


def test_interactions_are_refused():
    forest = with_models(full_forest(1, n_trees=1, depth=2, n_features=3), 2)
    X = rows_of(forest, 3, 4)
    with pytest.raises(NotImplementedError, match="linear leaves are not supported yet in interactions"):
        Explainer(forest, X).shap_interaction_values(X)


@pytest.mark.parametrize("bad", [[np.inf], [-np.inf], [np.inf, -np.inf], [1e308, 1e308]])
def test_backgrounds_of_infinite_margins_are_refused(bad):
    """Leaves that extrapolate without end; clipped ones have a mean."""
    forest = full_forest(2, 3, 1, 3)
    rows = np.zeros((5, 3))
    rows[: len(bad)] = np.array(bad)[:, None]
    with pytest.raises(ValueError, match=r"background: margins of its rows reach (inf|nan|[0-9.e+]+), and their sum"):
        Explainer(with_models(forest, 0), rows)
    assert np.isfinite(Explainer(with_models(forest, 0, -1, 1), rows).expected_value)
