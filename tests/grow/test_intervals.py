"""Intervals of one tree's predictions."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from glasswood import ModelTreeEnsembleRegressor, ModelTreeRegressor
from glasswood.grow.search import selection
from glasswood.grow.tree import intervals
from glasswood.grow.tree.refit import fit_leaf


def piecewise(n_rows, seed=0):
    """Two equations; the noise of one half of the rows is five times that of the other."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 5, (n_rows, 3))
    noise = np.where(X[:, 0] < 2, 0.2, 1.0) * rng.standard_normal(n_rows)
    return X, np.where(X[:, 0] < 2, 3 * X[:, 1], 10 - X[:, 0]) + noise


@pytest.fixture(scope="module")
def tree():
    return ModelTreeRegressor(n_jobs=1, n_iter_no_change=50).fit(*piecewise(1500))


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_hold_as_many_new_rows_as_they_say(tree, coverage):
    X, y = piecewise(20_000, 1)
    low, high = tree.predict_interval(X, coverage).T
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(coverage, abs=0.02)
    np.testing.assert_allclose((low + high) / 2, tree.predict(X), rtol=1e-9)


def test_noisier_leaves_have_wider_intervals(tree):
    low, high = tree.predict_interval([[1.0, 1.0, 1.0], [4.0, 1.0, 1.0]]).T
    assert (high - low)[1] > 3 * (high - low)[0]


def test_predictions_without_the_own_row_are_those_of_a_fit_without_it():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    weight = rng.uniform(0.5, 2, 30)
    without = intervals.without_own_row(fit_leaf(X, y, weight, np.arange(2), 1.0), X, y, weight)
    for row in (0, 17):
        others = np.delete(np.arange(30), row)
        model = fit_leaf(X[others], y[others], weight[others], np.arange(2), 1.0)
        assert without[row] == pytest.approx(model.predict(X[[row]])[0], rel=1e-9)


def test_a_sample_of_rows_is_left_out_of_all(limits):
    X, y = piecewise(1200)
    all_of_them = ModelTreeRegressor(n_jobs=1, n_iter_no_change=20).fit(X, y)
    limits(most_left_out=300)
    some = ModelTreeRegressor(n_jobs=1, n_iter_no_change=20).fit(X, y)
    widths = [np.ptp(model.predict_interval(X[:50]), axis=1) for model in (all_of_them, some)]
    np.testing.assert_allclose(widths[1], widths[0], rtol=0.25)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, float("nan")])
def test_coverage_is_a_probability(tree, coverage):
    with pytest.raises(ValueError, match="expected a probability above 0 and below 1"):
        tree.predict_interval(np.zeros((1, 3)), coverage)


def test_trees_that_are_not_grown_have_none():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        ModelTreeRegressor().predict_interval(np.zeros((1, 3)))


def test_leaves_without_noise():
    X, _ = piecewise(200)
    low, high = ModelTreeRegressor(n_jobs=1, n_iter_no_change=20).fit(X, np.ones(200)).predict_interval(X).T
    np.testing.assert_array_equal(low, 1)
    np.testing.assert_array_equal(high, 1)


@pytest.mark.parametrize(
    "model",
    [
        ModelTreeRegressor(n_jobs=1, n_iter_no_change=5),
        ModelTreeEnsembleRegressor(ModelTreeRegressor(n_iter_no_change=5), n_estimators=2, n_jobs=1, random_state=1),
        ModelTreeEnsembleRegressor(
            n_estimators=2, max_trees=5, learning_rate=0.7, method="boosting", n_jobs=1, random_state=2
        ),
    ],
    ids=["tree", "trees", "boosted"],
)
def test_intervals_of_large_targets_are_those_of_small_ones(model):
    X, y = piecewise(400)
    unit = 2.0**996  # above 1e299: its square is no float64
    small = model.fit(X, y).predict_interval(X)
    low, high = (model.fit(X, y * unit).predict_interval(X) / unit).T
    np.testing.assert_allclose(np.column_stack([low, high]), small, rtol=1e-6)
    assert 0.85 <= np.mean((low <= y) & (y <= high)) <= 0.97
    assert np.ptp(y) / 50 < np.median(high - low) < np.ptp(y) / 2


def chosen_from_noise(n_rows, seed):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(n_rows, 8)), rng.standard_normal(n_rows)


def held(model, X, y, coverage=0.9):
    low, high = model.predict_interval(X, coverage).T
    return np.mean((low <= y) & (y <= high))


def noise_tree(**changed):
    """Makes ten leaves and more of 600 rows of noise."""
    settings = {"penalty": 0.3, "noise": "uniform", "n_iter_no_change": 20, "n_jobs": 1, **changed}
    return ModelTreeRegressor(**settings)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_know_that_splits_were_chosen(limits, coverage):
    new = chosen_from_noise(20_000, 3)
    tree = noise_tree().fit(*chosen_from_noise(600, 0))
    assert held(tree, *new, coverage) == pytest.approx(coverage, abs=0.04)
    limits(selection_rows=599)
    assert held(noise_tree().fit(*chosen_from_noise(600, 0)), *new, coverage) < coverage - 0.07


def test_unseen_rows_of_other_trees_count_half():
    ones, scores = np.ones(50), np.linspace(1, 2, 99)
    for factor in (1, 3):  # of what the choice costs trees on parts
        parts = intervals.LeftOutRows(ones, factor * ones, ones, ones, 1.0)
        for unseen, expected in ((4 * factor * scores, 2 * factor), (0 * scores, factor)):
            np.testing.assert_allclose(parts.widened(scores, unseen), expected * scores, rtol=0.02)


def many_columns(n_rows, seed):
    """Columns that nearly repeat each other, of which few rows make long equations."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((n_rows, 6))
    X = hidden @ np.random.default_rng(99).standard_normal((6, 60)) + 0.1 * rng.standard_normal((n_rows, 60))
    return X, hidden[:, 0] + hidden[:, 1] ** 2 + 0.3 * rng.standard_normal(n_rows)


def test_few_rows_of_many_columns():
    new = many_columns(5000, 1)
    tree = ModelTreeRegressor(n_jobs=1, n_iter_no_change=20).fit(*many_columns(120, 3))
    assert 0.86 < held(tree, *new) < 0.96  # by what the choice costs trees on parts alone 0.78


def test_rows_that_nothing_was_chosen_on_need_no_other_trees(monkeypatch):
    monkeypatch.setattr(selection, "fit_tree", None)
    new = chosen_from_noise(20_000, 3)
    shares = [held(noise_tree(honest=0.5).fit(*chosen_from_noise(2000, seed)), *new) for seed in range(4)]
    assert np.mean(shares) == pytest.approx(0.9, abs=0.02)


def test_scores_of_some_trees_become_those_of_all():
    rng = np.random.default_rng(0)
    noise, trees = rng.standard_normal(20_000), 0.8 * rng.standard_normal((20_000, 5))
    chosen = rng.uniform(size=trees.shape) < 0.3
    some = chosen.any(axis=1)
    noise, trees, chosen = noise[some], trees[some], chosen[some]
    mean = (trees * chosen).sum(axis=1) / chosen.sum(axis=1)
    scores, expected = np.abs(noise - mean), np.abs(noise - trees.mean(axis=1))
    found = intervals.of_all_trees(scores, trees - mean[:, None], chosen)
    for level in (0.5, 0.9, 0.99):
        assert np.quantile(found, level) == pytest.approx(np.quantile(expected, level), rel=0.02)
        assert np.quantile(scores, level) > 1.1 * np.quantile(expected, level)


def test_scores_stay_where_no_two_trees_can_be_compared():
    scores, one_each = np.arange(4.0), np.eye(4, dtype=bool)
    np.testing.assert_array_equal(intervals.of_all_trees(scores, np.ones((4, 4)), one_each), scores)
    nothing = np.zeros(4)
    np.testing.assert_array_equal(intervals.of_all_trees(nothing, np.zeros((4, 2)), np.ones((4, 2), bool)), nothing)


def test_many_rows_need_no_other_trees(monkeypatch, tree):
    monkeypatch.setattr(selection, "fit_tree", None)
    again = ModelTreeRegressor(n_jobs=1, n_iter_no_change=50).fit(*piecewise(1500))
    np.testing.assert_array_equal(again.predict_interval([[1.0, 1.0, 1.0]]), tree.predict_interval([[1.0, 1.0, 1.0]]))


def test_intervals_depend_on_neither_threads_nor_the_order_of_rows_nor_copies():
    X, y = chosen_from_noise(300, 1)
    order = np.random.default_rng(0).permutation(300)
    low_high = noise_tree().fit(X, y).predict_interval(X)
    np.testing.assert_array_equal(noise_tree(n_jobs=2).fit(X[order], y[order]).predict_interval(X), low_high)
    doubled = noise_tree().fit(np.repeat(X, 2, axis=0), np.repeat(y, 2)).predict_interval(X)
    np.testing.assert_allclose(doubled, low_high, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("n_rows", [2, 9, 10, 11])
def test_few_rows(n_rows):
    X, y = chosen_from_noise(n_rows, 0)
    low, high = noise_tree().fit(X, y).predict_interval(X).T
    assert (low <= high).all()


def test_rows_of_one_part_may_have_categories_of_their_own():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(size=60), np.arange(60) // 2]).astype(object)
    X[:, 1] = [f"level {level:.0f}" for level in X[:, 1]]
    tree = noise_tree(categorical_features=[1]).fit(X, rng.standard_normal(60))
    assert np.isfinite(tree.predict_interval(X)).all()


def test_scores_next_to_0_widen_no_others():
    """Rows that regressions hit, but trees that have not seen them miss, say nothing about the others."""
    scores = np.concatenate([np.full(20, 0.05), np.linspace(0.1, 2, 180)])
    within = np.concatenate([np.full(20, 1e-15), np.linspace(0.1, 2, 180)])
    outside = np.concatenate([np.full(20, 0.5), np.linspace(0.5, 2, 180)])
    parts = intervals.LeftOutRows(within, outside, np.ones(200), np.ones(200), 1.0)
    wider = parts.widened(scores, np.zeros(200))
    assert (np.diff(wider) >= 0).all()
    assert wider[-20:] == pytest.approx(scores[-20:], rel=0.05)
