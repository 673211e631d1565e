"""Neighbouring columns that are nearly collinear: where their differences are the signal, and where they are noise."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.linear_model import RidgeCV

import glasswood
from glasswood.grow import estimator
from glasswood.grow.search import growing

FAST = {"n_jobs": 1, "verbose": False, "time_limit": None, "alternatives": 0, "generations": 40}
pytestmark = pytest.mark.usefixtures("unjudged")


def spectrum(seed, n_rows=300, n_columns=60):
    """Smooth curves, on which a narrow peak stands whose height is the amount."""
    rng, place = np.random.default_rng(seed), np.linspace(0, 1, n_columns)
    smooth = rng.normal(size=(n_rows, 6)) @ rng.normal(size=(6, n_columns))
    amount = rng.gamma(3, 2, size=n_rows)
    peak = 0.02 * amount[:, None] * np.exp(-((place - 0.6) ** 2) / 0.01)
    X = 3 + 0.01 * np.cumsum(np.cumsum(smooth, axis=1), axis=1) + peak + 0.005 * rng.normal(size=(n_rows, n_columns))
    return X, amount + 0.3 * rng.normal(size=n_rows)


def error(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


@pytest.mark.parametrize("seed", [5, 7, 9])
def test_differences_of_columns_are_the_signal(seed, monkeypatch):
    monkeypatch.setattr(estimator, "shrunk", lambda _model, growth, _given: growth)
    X, y = spectrum(seed)
    tree = glasswood.ModelTreeRegressor(**FAST).fit(X[:150], y[:150])
    ridge = RidgeCV(np.logspace(-8, 2, 11)).fit(X[:150], y[:150])
    assert error(tree, X[150:], y[150:]) < 1.4 * error(ridge, X[150:], y[150:])
    monkeypatch.setattr(growing, "DECISIVE", 0)
    priced = glasswood.ModelTreeRegressor(**FAST).fit(X[:150], y[:150])
    assert error(tree, X[150:], y[150:]) < 0.8 * error(priced, X[150:], y[150:])


@pytest.mark.parametrize("seed", range(3))
def test_one_of_columns_that_measure_the_same_stays(seed):
    """As thermometers side by side: their differences are noise."""
    rng = np.random.default_rng(seed)
    level = rng.normal(size=(300, 3))
    X = np.repeat(level, 3, axis=1) + 0.05 * rng.normal(size=(300, 9))
    y = level @ [3.0, -2.0, 1.0] + 0.5 * rng.normal(size=300)
    tree = glasswood.ModelTreeRegressor(**FAST, max_leaves=1).fit(X, y)
    used = [int(name[1:]) // 3 for name in tree.leaves_["feature"] if name != "(intercept)"]
    assert sorted(used) == [0, 1, 2]
