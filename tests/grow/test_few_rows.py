"""Noise, and few rows for the columns: no more coefficients than documented, and intervals that hold."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
import glasswood

QUICK = {"n_iter_no_change": 10, "n_jobs": 1, "time_limit": None}
SEARCH = glasswood.ModelTreeRegressor(generations=5, population_size=8)


def noise(n, p, seed):
    rng = np.random.default_rng([n, p, seed])
    return rng.normal(size=(n, p)), rng.normal(size=n), rng.normal(size=(1000, p)), rng.normal(size=1000)


@pytest.mark.usefixtures("unjudged")
@pytest.mark.sizes("each")
@pytest.mark.parametrize(("n", "p"), [(10, 30), (20, 50), (30, 60), (40, 10)])
@pytest.mark.parametrize("options", [
    {}, {"noise": "uniform", "penalty": 0}, {"loss": "huber"}, {"smoothing": "auto"}, {"loss": "quantile"},
    {"algorithm": "qr", "generations": 10, "population_size": 4},
    {"fitness": "weighted"}, {"noise": "uniform", "penalty": 0.1},
])  # fmt: skip
def test_a_single_leaf_has_rows_for_its_parameters(n, p, options):
    X, y, _, _ = noise(n, p, 0)
    tree = glasswood.ModelTreeRegressor(**{**QUICK, **options}).fit(X, y)
    assert max(np.bincount(tree.leaves_["leaf"])) <= max(1, n / 5)


@pytest.mark.parametrize(("n", "p"), [(12, 30), (20, 50), (40, 60)])
def test_classes_have_rows_for_their_parameters(n, p):
    X, y, _, _ = noise(n, p, 1)
    classes = glasswood.ModelTreeClassifier(**QUICK, penalty=0).fit(X, y > 0)
    assert max(np.bincount(classes.leaves_["leaf"])) <= n / 5


@pytest.mark.sizes("each")
@pytest.mark.parametrize(("n", "p"), [(10, 1), (10, 30), (20, 10), (60, 100), (20, 100), (60, 30), (200, 1), (200, 60)])
@pytest.mark.parametrize("options", [{}, {"smoothing": "auto"}, {"loss": "huber"}])
def test_intervals_of_one_tree_hold(n, p, options):
    shares, errors = [], []
    for seed in range(8 if n * p < 2000 else 4):
        X, y, X_test, y_test = noise(n, p, seed)
        tree = glasswood.ModelTreeRegressor(**options, **QUICK).fit(X, y)
        low, high = tree.predict_interval(X_test, 0.9).T
        shares.append(np.mean((low <= y_test) & (y_test <= high)))
        errors.append(np.mean((tree.predict(X_test) - y_test) ** 2))
    chance = 2 * np.sqrt(0.9 * 0.1 / n / len(shares))  # that 8 draws of n rows hold more or less than they should
    assert 0.85 - chance <= np.mean(shares) <= 0.95 + chance
    assert np.mean(errors) < (1.8 if n < 20 else 1.5 if n < 60 else 1.15)


@pytest.mark.sizes("each")
@pytest.mark.parametrize(("n", "p"), [(20, 1), (20, 30), (60, 30)])
def test_intervals_of_ensembles_hold(n, p):
    shares = []
    for seed in range(6):
        X, y, X_test, y_test = noise(n, p, seed)
        model = glasswood.ModelTreeEnsembleRegressor(SEARCH, n_estimators=5, n_jobs=1)
        low, high = model.fit(X, y).predict_interval(X_test, 0.9).T
        shares.append(np.mean((low <= y_test) & (y_test <= high)))
    assert 0.85 <= np.mean(shares) <= 0.97
