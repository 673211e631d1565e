"""Predictions are as large as the targets on average where a loss promises it, for rare and frequent events."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.linear_model import GammaRegressor, LinearRegression, PoissonRegressor, TweedieRegressor

import glasswood

FAST = {"n_iter_no_change": 5, "n_jobs": 1, "time_limit": None, "verbose": False}
pytestmark = pytest.mark.usefixtures("unjudged")

POWERS = {"squared": 1, "poisson": 1, "tweedie": 1.5, "gamma": 2}  # of squares the score is that of Poisson's
RATES = [0.001, 0.01, 0.05, 0.15, 0.5]


def drawn(loss, rate, n_rows=3000, steep=2.0):
    rng = np.random.default_rng(round(1 / rate))
    X = rng.random((n_rows, 2))
    mean = rate * np.exp(steep * (X[:, 0] - 0.5))
    weight = rng.uniform(0.1, 3, n_rows)
    if loss == "gamma":
        return X, rng.gamma(0.3, mean / 0.3) + 1e-9 * rate, weight
    if loss == "tweedie":
        y = np.array([rng.gamma(2, 0.5, n).sum() for n in rng.poisson(mean)])
        y[0] += not y.any()
        return X, y, weight
    y = rng.poisson(mean).astype(float)
    y[0] += not y.any()
    return X, y, weight


def calibration(loss, y, predicted, weight):
    """Return 1 where the score of the intercept, the sum of (y - m) m^(1 - p), is 0."""
    share = weight * predicted ** (1.0 - POWERS[loss])
    return (share @ y) / (share @ predicted)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("loss", ["poisson", "tweedie", "gamma"])
@pytest.mark.parametrize("options", [
    {"max_leaves": 1}, {"max_leaves": 6, "penalty": 0.2}, {"max_leaves": 6, "leaf_model": "constant"},
    {"monotonic_cst": [1, 0], "max_leaves": 2}, {"coefficient_signs": [0, -1], "max_leaves": 1},
])  # fmt: skip
def test_one_tree_is_as_large_as_the_targets(loss, rate, options):
    X, y, weight = drawn(loss, rate)
    for own in (np.ones(len(y)), weight):
        tree = glasswood.ModelTreeRegressor(loss=loss, **options, **FAST).fit(X, y, sample_weight=own)
        assert tree.leaf_summary_["highest"].max() < 10 * y.max() + 10
        at = np.ones(len(y), bool)
        if loss == "tweedie":  # leaves without an amount end at the smallest mean, which this score feels
            at = (tree.leaf_summary_["n_clipped"] == 0)[tree.apply(X)]
            assert at.any() or (y > 0).sum() < 5
        if at.any():
            assert calibration(loss, y[at], tree.predict(X)[at], own[at]) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("loss", "oracle"), [("poisson", PoissonRegressor), ("gamma", GammaRegressor),
                                              ("tweedie", partial(TweedieRegressor, power=1.5, link="log")),
                                              ("squared", LinearRegression)])  # fmt: skip
def test_scores_are_those_of_generalised_linear_models_with_exposures(loss, oracle, weighted):
    """The score that is 0 is also theirs; sums of predictions are the targets' where the link is the natural one."""
    X, y, weight = drawn(loss, 0.5)
    exposure = np.random.default_rng(1).uniform(0.2, 4, len(y))
    own = weight if weighted else np.ones(len(y))
    tree = glasswood.ModelTreeRegressor(loss=loss, max_leaves=1, penalty=0, clip="none", log_terms=False, **FAST)
    tree.fit(X, y, own, **({} if loss == "squared" else {"exposure": exposure}))
    rates, total = (y, own) if loss == "squared" else (y / exposure, own * exposure ** (2 - POWERS[loss]))
    settings = {} if loss == "squared" else {"alpha": 0, "tol": 1e-10, "max_iter": 10_000}
    other = oracle(**settings).fit(X, rates, sample_weight=total)
    for predicted in (tree.predict(X), other.predict(X)):
        assert calibration(loss, rates, predicted, total) == pytest.approx(1, abs=1e-5)
        if loss in {"squared", "poisson"}:
            assert total @ predicted == pytest.approx(total @ rates, rel=1e-5)
    np.testing.assert_allclose(tree.predict(X), other.predict(X), rtol=1e-4)


@pytest.mark.parametrize("rate", [0.01, 0.5])
@pytest.mark.parametrize("loss", ["poisson", "tweedie", "gamma"])
@pytest.mark.parametrize("kind", ["glass box", "tree and curves"])
def test_curves_are_as_large_as_the_targets(loss, rate, kind):
    """Their mean over folds is one of logarithms, which alone would be below the targets."""
    X, y, weight = drawn(loss, rate)
    exposure = np.random.default_rng(1).uniform(0.2, 4, len(y))
    for own, exposed in ((np.ones(len(y)), None), (weight, exposure)):
        if kind == "glass box":
            model = glasswood.AdditiveRegressor(loss=loss, n_jobs=1, interactions=0)
        else:
            model = glasswood.ModelTreeRegressor(loss=loss, curves=True, max_leaves=2, alternatives=0, **FAST)
        model.fit(X, y, own, **({} if exposed is None else {"exposure": exposed}))
        rates = y if exposed is None else y / exposed
        total = own if exposed is None else own * exposed ** (2 - POWERS[loss])
        assert calibration(loss, rates, model.predict(X), total) == pytest.approx(1, abs=1e-5)


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
