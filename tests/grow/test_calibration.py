"""Predictions are as large as the targets on average where a loss promises it, for rare and frequent events."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.linear_model import GammaRegressor, PoissonRegressor

import glasswood

FAST = {"n_iter_no_change": 5, "n_jobs": 1, "time_limit": None, "verbose": False}
pytestmark = pytest.mark.usefixtures("unjudged")

RATES = [0.001, 0.01, 0.05, 0.15, 0.5]


def drawn(loss, rate, n_rows=3000, steep=2.0):
    rng = np.random.default_rng(round(1 / rate))
    X = rng.random((n_rows, 2))
    mean = rate * np.exp(steep * (X[:, 0] - 0.5))
    weight = rng.uniform(0.1, 3, n_rows)
    if loss == "gamma":
        return X, rng.gamma(0.3, mean / 0.3) + 1e-9 * rate, weight
    y = rng.poisson(mean).astype(float)
    y[0] += not y.any()
    return X, y, weight


def calibration(loss, y, predicted, weight):
    """Return 1 where the score of the intercept is 0."""
    ratio = y / predicted if loss == "gamma" else predicted / np.average(y, weights=weight)
    return np.average(ratio, weights=weight)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
@pytest.mark.parametrize("options", [
    {"max_leaves": 1}, {"max_leaves": 6, "penalty": 0.2}, {"max_leaves": 6, "leaf_model": "constant"},
    {"monotonic_cst": [1, 0], "max_leaves": 2}, {"coefficient_signs": [0, -1], "max_leaves": 1},
])  # fmt: skip
def test_one_tree_is_as_large_as_the_targets(loss, rate, options):
    X, y, weight = drawn(loss, rate)
    for own in (np.ones(len(y)), weight):
        tree = glasswood.ModelTreeRegressor(loss=loss, **options, **FAST).fit(X, y, sample_weight=own)
        assert calibration(loss, y, tree.predict(X), own) == pytest.approx(1, abs=2e-3)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(("loss", "oracle"), [("poisson", PoissonRegressor), ("gamma", GammaRegressor)])
def test_a_leaf_is_the_generalised_linear_model(loss, oracle, rate):
    X, y, weight = drawn(loss, rate, 20_000)
    tree = glasswood.ModelTreeRegressor(loss=loss, max_leaves=1, penalty=0, log_terms=False, **FAST)
    tree.fit(X, y, sample_weight=weight)
    expected = oracle(alpha=0, tol=1e-10, max_iter=10_000).fit(X, y / rate, sample_weight=weight)
    assert list(tree.leaves_["feature"]) == ["(intercept)", "x0", "x1"]
    np.testing.assert_allclose(tree.leaves_["coefficient"][1:], expected.coef_, atol=5e-3)
    np.testing.assert_allclose(tree.leaves_["coefficient"][0], expected.intercept_ + np.log(rate), atol=5e-3)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("rate", RATES[1:])
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
@pytest.mark.parametrize("method", ["mean", "boosting"])
def test_ensembles_are_about_as_large(loss, rate, method):
    X, y, weight = drawn(loss, rate, 4000, 1.0)
    tree = glasswood.ModelTreeRegressor(max_leaves=3, generations=3, population_size=4)
    model = glasswood.ModelTreeEnsembleRegressor(
        tree, 3, method=method, loss=loss, max_trees=10, time_limit=None, n_jobs=1
    ).fit(X, y, sample_weight=weight)
    few = 2 / np.sqrt(max(y.sum(), 1)) if loss == "poisson" else 0.06  # parts of the rows have another mean
    assert calibration(loss, y, model.predict(X), weight) == pytest.approx(1, abs=0.03 + few / 2)


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5])
def test_probabilities_are_as_large_as_the_share(rate):
    X, y, _ = drawn("poisson", rate, 4000)
    y = y > 0
    tree = glasswood.ModelTreeClassifier(**FAST).fit(X, y)
    assert tree.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=0.01)
    boosted = glasswood.ModelTreeEnsembleClassifier(
        n_estimators=2, method="boosting", max_trees=15, max_samples=1, time_limit=None, n_jobs=1
    ).fit(X, y)
    assert boosted.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=max(0.05, 1 / np.sqrt(y.sum())))


def test_honest_leaves_have_the_link_of_the_loss():
    X, y, _ = drawn("poisson", 0.5)
    tree = glasswood.ModelTreeRegressor(loss="poisson", honest=0.5, max_leaves=3, **FAST).fit(X, y)
    assert tree.predict(X).mean() == pytest.approx(y.mean(), rel=0.1)


def test_predictions_beyond_the_rows_stay_in_the_range_of_counts():
    X, y, _ = drawn("poisson", 0.01)
    tree = glasswood.ModelTreeRegressor(loss="poisson", max_leaves=1, **FAST).fit(X, y)
    far = tree.predict([[-1e3, 0.5], [1e3, 0.5]])
    assert far.max() < 2 * y.max()
    assert far.min() > y.mean() / (3 * len(y))
