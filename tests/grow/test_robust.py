"""Huber's loss."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import glasswood
from glasswood.grow.search.robust import CORNER, _factors

FAST = {"n_iter_no_change": 50, "n_jobs": 1}


def planes(n, seed=0):
    """Three planes, without noise."""
    X = np.random.default_rng(seed).uniform(0, 5, (n, 3))
    return X, np.select([X[:, 0] < 2, X[:, 1] < 3], [3 * X[:, 1], 10 - X[:, 0]], 2 * X[:, 2] - 8)


def error(tree):
    X, truth = planes(2000, seed=1)
    return np.sqrt(np.mean((tree.predict(X) - truth) ** 2))


def test_outliers_do_not_count():
    """One row of a hundred is off by a hundred standard deviations of the noise."""
    X, truth = planes(2000)
    rng = np.random.default_rng(2)
    y = truth + rng.standard_normal(2000)
    outliers = rng.random(2000) < 0.01
    spoiled = y + outliers * rng.choice([-100, 100], 2000)
    squared, huber, clean = (
        glasswood.ModelTreeRegressor(**FAST, loss=loss).fit(X, values)
        for loss, values in (("squared", spoiled), ("huber", spoiled), ("squared", y))
    )
    assert huber.n_leaves_ == 3
    assert error(huber) < 0.4
    assert error(squared) > 3 * error(huber)
    assert error(glasswood.ModelTreeRegressor(**FAST, loss="huber").fit(X, y)) < 1.2 * error(clean)


def test_noise_of_heavy_tails():
    X, truth = planes(2000)
    y = truth + 0.5 * np.random.default_rng(3).standard_t(2, 2000)
    assert glasswood.ModelTreeRegressor(**FAST, loss="huber").fit(X, y).n_leaves_ == 3


def test_weights_make_absolute_values_of_squares():
    """Where residuals are normal, few are changed; a weighted square beyond the corner is linear."""
    residuals = np.append(np.random.default_rng(4).standard_normal(100_000), [50.0, 100.0])
    factors = _factors(residuals, np.ones(len(residuals)))
    assert np.mean(factors < 1) == pytest.approx(0.18, abs=0.01)
    assert factors[-1] * 100**2 == pytest.approx(2 * factors[-2] * 50**2)
    assert factors[-1] * 100 == pytest.approx(CORNER, rel=0.02)
    assert (_factors(np.zeros(10), np.ones(10)) == 1).all()


def test_a_loss_that_is_not_there():
    with pytest.raises(
        ValueError, match="loss is 'absolute', expected one of squared, huber, poisson, gamma, tweedie, quantile"
    ):
        glasswood.ModelTreeRegressor(loss="absolute").fit([[1.0], [2.0]], [1.0, 2.0])


def test_texts_say_that_predictions_are_no_means():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 1))
    y = np.exp(2 * rng.normal(size=500))
    huber = glasswood.ModelTreeRegressor(**FAST, loss="huber", max_leaves=1).fit(X, y)
    assert huber.predict(X).mean() < 0.7 * y.mean()
    text = glasswood.export_text(huber)
    assert "predictions are no means of y" in text
    assert " mean " not in text.splitlines()[0]
    assert huber.forest_.objective == "Huber's loss"
    squared = glasswood.ModelTreeRegressor(**FAST, max_leaves=1).fit(X, y)
    assert "no means" not in glasswood.export_text(squared)
    assert " mean " in glasswood.export_text(squared).splitlines()[0]
