"""Losses that rows far off must not decide: outliers of any size, and noise of heavy tails."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.linear_model import HuberRegressor

import glasswood

FAST = {"max_leaves": 8, "n_iter_no_change": 10, "n_jobs": 1, "time_limit": None, "verbose": False}


@pytest.mark.sizes("each")
@pytest.mark.parametrize("size", [1e2, 1e4, 1e6, -1e8])
@pytest.mark.parametrize("share", [0.01, 0.05])
@pytest.mark.parametrize("options", [{"loss": "huber"}, {"loss": "quantile"}, {"loss": "huber", "honest": 0.5}])
def test_rows_far_off_change_nothing(size, share, options):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (600, 3))
    middle = np.where(X[:, 2] > 0.3, 2 * X[:, 0], -X[:, 1])
    far = rng.random(600) < share
    y = np.where(far, size, middle + 0.1 * rng.normal(size=600))
    predicted = glasswood.ModelTreeRegressor(**options, **FAST).fit(X, y).predict(X)
    limit = 0.2 if "honest" in options else 0.08
    assert np.sqrt(np.mean((predicted - middle)[~far] ** 2)) < limit


@pytest.mark.parametrize("size", [1e2, 1e4, 1e6])
def test_one_equation_is_as_good_as_a_robust_regression(size):
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (600, 3))
    middle = 2 * X[:, 0] - X[:, 1]
    y = np.where(np.arange(600) < 20, size, middle + 0.1 * rng.normal(size=600))
    ours, theirs = (
        np.sqrt(np.mean((model.fit(X, y).predict(X) - middle)[20:] ** 2))
        for model in (glasswood.ModelTreeRegressor(loss="huber", **FAST), HuberRegressor(max_iter=1000))
    )
    assert ours < 1.2 * theirs


@pytest.mark.sizes("each")
@pytest.mark.parametrize("spread", [1, 2, 3])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantiles_of_heavy_tails_hold_their_share(spread, level):
    def drawn(seed, n):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (n, 3))
        return X, np.where(X[:, 0] > 0, 2 * X[:, 1], 5.0) + np.exp(spread * rng.normal(size=n))

    X, y = drawn(0, 2000)
    X_test, y_test = drawn(1, 4000)
    tree = glasswood.ModelTreeRegressor(loss="quantile", quantile=level, **FAST).fit(X, y)
    assert np.mean(y <= tree.predict(X)) == pytest.approx(level, abs=0.01)
    assert np.mean(y_test <= tree.predict(X_test)) == pytest.approx(level, abs=0.03)


@pytest.mark.parametrize("method", ["mean", "boosting"])
def test_quantiles_of_ensembles_hold_about_their_share(method):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (1500, 2))
    y = np.where(X[:, 0] > 0, 2 * X[:, 1], 5.0) + np.exp(2 * rng.normal(size=1500))
    tree = glasswood.ModelTreeRegressor(generations=5, population_size=8, max_leaves=4)
    model = glasswood.ModelTreeEnsembleRegressor(
        tree, 2, method=method, loss="quantile", quantile=0.1, max_trees=20, learning_rate=0.3, n_jobs=1
    )
    assert np.mean(y <= model.fit(X, y).predict(X)) == pytest.approx(0.1, abs=0.03)
