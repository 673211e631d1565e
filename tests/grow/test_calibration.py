"""Predictions are as large as the targets on average where a loss promises it, for rare and frequent events."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.linear_model import GammaRegressor, LinearRegression, PoissonRegressor, TweedieRegressor

import glasswood
from glasswood.grow.balance import balance

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


STEP = {"max_leaves": 3, "generations": 3, "population_size": 4}
KINDS = ["mean", "boosting", "glass box", "tree and curves"]


def sum_of_parts(kind, loss):
    """A model of several trees, or of curves, of a loss; or of classes."""
    options, shared = ({}, "Classifier") if loss == "classes" else ({"loss": loss}, "Regressor")
    if kind == "glass box":
        return getattr(glasswood, f"Additive{shared}")(n_jobs=1, interactions=1, **options)
    if kind == "tree and curves":
        return getattr(glasswood, f"ModelTree{shared}")(curves=True, max_leaves=2, alternatives=0, **options, **FAST)
    step = {name: value for name, value in STEP.items() if name != "population_size" or kind == "boosting"}
    tree = glasswood.ModelTreeRegressor if kind == "boosting" or loss != "classes" else glasswood.ModelTreeClassifier
    ensemble = getattr(glasswood, f"ModelTreeEnsemble{shared}")
    return ensemble(tree(**step), 2, method=kind, max_trees=8, time_limit=None, n_jobs=1, **options)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("rate", [0.02, 0.5])
@pytest.mark.parametrize("loss", ["squared", "poisson", "tweedie", "gamma"])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_predict_as_much_as_there_was(kind, loss, rate):
    """Parts of the rows have other means, and means of logarithms are geometric: a constant makes up for it."""
    X, y, weight = drawn(loss, rate, 800)
    exposure = np.random.default_rng(1).uniform(0.2, 4, len(y))
    y = y - (loss == "squared")  # amounts of at least 0 are kept there: below
    for own, exposed in ((np.ones(len(y)), None), (weight, None if loss == "squared" else exposure)):
        model = sum_of_parts(kind, loss).fit(X, y, own, **({} if exposed is None else {"exposure": exposed}))
        rates = y if exposed is None else y / exposed
        total = own if exposed is None else own * exposed ** (2 - POWERS[loss])
        assert (total * model.predict(X)).sum() == pytest.approx((total * rates).sum(), rel=1e-9)
        assert model.forest_.predict(X).sum() == pytest.approx(model.predict(X).sum(), rel=1e-12)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_of_sums_are_the_shares(kind, n_classes):
    X, _, weight = drawn("poisson", 0.5, 600)
    rare = np.random.default_rng(2).random(600) < 0.3 + 0.5 * X[:, 0]
    y = np.array(["a", "b", "c"])[rare.astype(int) + (n_classes == 3) * (X[:, 1] > 0.9)]
    for own in (np.ones(600), weight):
        model = sum_of_parts(kind, "classes").fit(X, y, own)
        shares = [own[y == label].sum() / own.sum() for label in model.classes_]
        np.testing.assert_allclose((own[:, None] * model.predict_proba(X)).sum(0) / own.sum(), shares, atol=1e-9)


def test_amounts_of_a_mean_of_trees_stay_above_0():
    """Whose constant is left out where equations predict 0 for some rows already, and too much for all together."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    y = np.maximum(3 * X[:, 0] - 1 + rng.normal(size=600), 0)
    tree = glasswood.ModelTreeRegressor(max_leaves=1, log_terms=False)
    for sign in (1, -1):
        model = glasswood.ModelTreeEnsembleRegressor(tree, 2, n_jobs=1).fit(X, sign * y)
        assert sign * model.predict(X).mean() > y.mean() * 1.01
        assert (sign * model.predict(np.vstack([X, 100 * X])) >= 0).all()


def test_constants_are_the_roots_of_their_definitions():
    """By scipy's solver, which shares nothing with them."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    margins, weight, y = rng.normal(size=(300, 3)), rng.uniform(0.1, 2, 300), rng.integers(0, 3, 300)

    def loss(change):
        moved = margins + np.append(0, change)
        return weight @ (np.log(np.exp(moved).sum(axis=1)) - moved[np.arange(300), y])

    found = balance("softmax", y.astype(float), margins, weight)
    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-10}).x
    np.testing.assert_allclose(found[1:] - found[0], best, atol=1e-7)
    sure = 40.0 * np.where(y == 1, 1, -1)[:, None]
    change = balance("logistic", (y == 1).astype(float), sure, weight)
    assert np.isfinite(change).all()
    assert balance("logistic", np.zeros(5), np.zeros((5, 1)), np.ones(5))[0] < -10  # a class without weight
    assert balance("exp", np.ones(4), np.full((4, 1), 1000.0), np.ones(4)) == pytest.approx(-1000)
    assert balance("identity", np.full(4, 1e308), np.zeros((4, 1)), np.ones(4)) == pytest.approx(1e308)


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


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5])
def test_probabilities_are_as_large_as_the_share(rate):
    X, y, _ = drawn("poisson", rate, 4000)
    y = y > 0
    tree = glasswood.ModelTreeClassifier(**FAST).fit(X, y)
    assert tree.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=0.01)


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
