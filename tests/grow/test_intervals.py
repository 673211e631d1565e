"""Intervals of one tree's predictions."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from silva import ModelTreeEnsembleRegressor, ModelTreeRegressor
from silva.grow import assembly, intervals
from silva.grow.refit import fit_leaf


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


def test_a_sample_of_rows_is_left_out_of_all(monkeypatch):
    X, y = piecewise(1200)
    all_of_them = ModelTreeRegressor(n_jobs=1, n_iter_no_change=20).fit(X, y)
    monkeypatch.setattr(assembly, "MOST_LEFT_OUT", 300)
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
        ModelTreeEnsembleRegressor(ModelTreeRegressor(n_iter_no_change=5), n_estimators=2, n_jobs=1, random_state=0),
        ModelTreeEnsembleRegressor(
            n_estimators=2, max_trees=5, learning_rate=0.7, method="boosting", n_jobs=1, random_state=0
        ),
    ],
    ids=["tree", "trees", "boosted"],
)
def test_intervals_of_large_targets_are_those_of_small_ones(model):
    X, y = piecewise(400)
    unit = 2.0**996  # above 1e299: its square is no float64
    low, high = (model.fit(X, y * unit).predict_interval(X) / unit).T
    assert 0.85 <= np.mean((low <= y) & (y <= high)) <= 0.97
    assert np.ptp(y) / 50 < np.median(high - low) < np.ptp(y) / 2
