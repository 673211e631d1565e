"""Few rows for the columns: one equation by the lasso where left-out rows are predicted better."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.linear_model import Lasso, LassoCV

import glasswood
from glasswood.grow import estimator
from glasswood.grow.search import shrinkage

FAST = {"n_jobs": 1, "verbose": False, "time_limit": None, "n_iter_no_change": 10}


def rows(seed, n_rows=120, n_columns=60, size=0.25):
    """Many columns of which each says a little."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    return X, X @ (size * rng.normal(size=n_columns)) + rng.normal(size=n_rows)


def error(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


@pytest.mark.parametrize("seed", range(4))
def test_the_path_is_that_of_the_lasso(seed):
    """Beside coordinate descent, for prices between the steps, missing numbers and uneven weights."""
    X, y = rows(seed, 40, 60)
    X[:, 3] *= 1e6
    weight = np.random.default_rng(seed).uniform(0.5, 2, 40)
    share = weight / weight.sum()
    path = shrinkage._path(X, y, weight)
    means = share @ X
    spreads = np.sqrt(share @ (X - means) ** 2)
    for price in path.prices[0] * np.array([0.9, 0.5, 0.2, 0.05]):
        lasso = Lasso(alpha=price * np.abs(y).max(), tol=1e-12, max_iter=100_000)
        lasso.fit((X - means) / spreads, y, sample_weight=weight)
        assert path.at(np.array([price]))[0] * spreads == pytest.approx(lasso.coef_, abs=1e-6)
        expected = lasso.predict((X - means) / spreads)
        assert path.predict(X, np.array([price]))[:, 0] == pytest.approx(expected, abs=1e-5)
    holed = X.copy()
    holed[::7, 5] = np.nan
    filled = holed.copy()
    filled[::7, 5] = np.average(X[:, 5], weights=weight * ~np.isnan(holed[:, 5]))
    assert shrinkage._path(holed, y, weight).prices == pytest.approx(shrinkage._path(filled, y, weight).prices)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("seed", range(6))
def test_equations_of_many_small_effects_are_shrunk(seed, monkeypatch):
    X, y = rows(seed, 1120)
    shrunk = glasswood.ModelTreeRegressor(**FAST).fit(X[:120], y[:120])
    lasso = LassoCV().fit(X[:120], y[:120])
    assert error(shrunk, X[120:], y[120:]) < 1.15 * error(lasso, X[120:], y[120:])
    low, high = shrunk.predict_interval(X[120:]).T
    assert 0.8 < np.mean((low <= y[120:]) & (y[120:] <= high)) < 0.99
    monkeypatch.setattr(estimator, "shrunk", lambda _model, growth, _given: growth)
    tree = glasswood.ModelTreeRegressor(**FAST).fit(X[:120], y[:120])
    assert error(shrunk, X[120:], y[120:]) < 0.95 * error(tree, X[120:], y[120:])


@pytest.mark.parametrize("size", [0.0, 0.5])
def test_noise_and_few_strong_effects_keep_the_tree(size):
    """Least squares on the right columns is better than a shrunk equation."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(120, 60))
    y = size * 6 * X[:, :2].sum(axis=1) + rng.normal(size=120)
    tree = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    assert tree.forest_.ensemble.linear_feature.tolist() == ([0, 1] if size else [])
    assert hasattr(tree, "alternatives_")


def test_more_rows_other_losses_and_signs_keep_the_search():
    X, y = rows(0, 300)
    several = [{"loss": "huber"}, {"leaf_model": "constant"}, {"coefficient_signs": [1] * 60}, {"noise": "uniform"}]
    for options, n_rows in [({}, 300), *((one, 120) for one in several)]:
        tree = glasswood.ModelTreeRegressor(**FAST, **options).fit(X[:n_rows], y[:n_rows])
        errors = tree.leaves_["standard_error"]
        assert options.get("coefficient_signs") or not np.isnan(errors).any()


def test_long_equations_are_explained_exactly():
    """Beyond 16 features a clipped equation would be refused; each value is a coefficient times a distance."""
    X, y = rows(1)
    tree = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    forest = tree.forest_.ensemble
    assert len(forest.linear_feature) > shrinkage.MOST_CLIPPED
    assert not np.isfinite(forest.leaf_range).any()
    values = glasswood.Explainer(tree, X[:30])(X[30:60]).values
    coefficients = np.zeros(60)
    coefficients[forest.linear_feature] = forest.linear_coefficient
    assert values == pytest.approx((X[30:60] - X[:30].mean(axis=0)) * coefficients, abs=1e-5)
    few = glasswood.ModelTreeRegressor(**FAST, max_terms_per_leaf=12).fit(X, y)
    assert len(few.forest_.ensemble.linear_feature) <= 12
    assert np.isfinite(few.forest_.ensemble.leaf_range).all()
    assert not hasattr(tree, "alternatives_")


def test_neither_order_nor_scales_of_weights_matter():
    X, y = rows(2)
    expected = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    order = np.random.default_rng(0).permutation(len(y))
    mixed = glasswood.ModelTreeRegressor(**FAST).fit(X[order], y[order])
    assert mixed.predict(X) == pytest.approx(expected.predict(X), rel=1e-9)
    for unit in (1e-9, 1e9):
        weighted = glasswood.ModelTreeRegressor(**FAST).fit(X, y, sample_weight=np.full(120, unit))
        assert weighted.predict(X) == pytest.approx(expected.predict(X), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_repeated_rows_and_counts_are_one_model(seed):
    X, y = rows(seed, 60, 40)
    once = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    assert not np.isfinite(once.leaves_["standard_error"]).any()  # it is shrunk
    for again, targets, weight in ((np.repeat(X, 2, axis=0), np.repeat(y, 2), None), (X, y, np.full(60, 3))):
        np.testing.assert_array_equal(
            glasswood.ModelTreeRegressor(**FAST).fit(again, targets, weight).predict(X), once.predict(X)
        )
    counts = np.random.default_rng(seed).integers(1, 3, 60)
    weighted = glasswood.ModelTreeRegressor(**FAST).fit(X, y, counts)
    repeated = glasswood.ModelTreeRegressor(**FAST).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(repeated.predict(X), weighted.predict(X), rtol=1e-12)
