"""Tweedie's loss: amounts of which some are 0, against scikit-learn's equations and the deviance of its metrics."""

import numpy as np
import pytest
from sklearn.linear_model import TweedieRegressor
from sklearn.metrics import mean_tweedie_deviance

import glasswood
from glasswood.grow.losses import PowerLoss

FAST = {"n_jobs": 1, "verbose": False, "alternatives": 0}


def claims(n_rows=1500, seed=0):
    """Sums of a Poisson number of gamma amounts, whose mean is log-linear on each side of 0.5."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n_rows, 2))
    mean = np.where(X[:, 0] < 0.5, 0.5, 2.0) * np.exp(X[:, 1])
    number = rng.poisson(mean)
    return X, np.array([rng.gamma(2, 0.5, n).sum() for n in number]), mean


def smooth(n_rows=1500, seed=0):
    """As `claims`, with one equation for all rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n_rows, 2))
    mean = np.exp(X @ [1.5, -1.0])
    return X, np.array([rng.gamma(2, 0.5, n).sum() for n in rng.poisson(mean)]), mean


def deviance(y, mean, power):
    """The formula of XGBoost's and LightGBM's documentation, of logarithms f: -y e^((1-p) f) / (1-p) + ..."""
    f = np.log(mean)
    return -y * np.exp((1 - power) * f) / (1 - power) + np.exp((2 - power) * f) / (2 - power)


@pytest.mark.parametrize("power", [1.1, 1.5, 1.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_leaf_is_the_equation_of_scikit_learn(power, weighted):
    X, y, _ = smooth()
    weight = np.random.default_rng(2).uniform(0.5, 2, len(y)) if weighted else None
    options = {"max_leaves": 1, "log_terms": False, "clip": "none", "penalty": 0}
    model = glasswood.ModelTreeRegressor(loss="tweedie", tweedie_power=power, **options, **FAST)
    model.fit(X, y, weight)
    table = dict(zip(model.leaves_["feature"], model.leaves_["coefficient"], strict=True))
    other = TweedieRegressor(power=power, link="log", alpha=0, tol=1e-10, max_iter=10_000).fit(X, y, weight)
    np.testing.assert_allclose(table["(intercept)"], other.intercept_, atol=1e-5)
    np.testing.assert_allclose([table["x0"], table["x1"]], other.coef_, atol=1e-5)
    assert (model.forest_.ensemble.link, model.forest_.objective) == ("exp", f"tweedie {power:g}")


def models(**options):
    few = {"n_jobs": 1, "time_limit": None}
    step = glasswood.ModelTreeRegressor(max_leaves=4, generations=5, population_size=8, n_jobs=1)
    return {
        "tree": glasswood.ModelTreeRegressor(generations=30, **options, **FAST),
        "mean": glasswood.ModelTreeEnsembleRegressor(step, n_estimators=3, **options, **few),
        "boosted": glasswood.ModelTreeEnsembleRegressor(
            method="boosting", n_estimators=1, max_trees=30, **options, **few
        ),
        "curves": glasswood.AdditiveRegressor(n_jobs=1, **options),
        "bent": glasswood.ModelTreeRegressor(generations=10, curves=True, **options, **FAST),
    }


@pytest.mark.parametrize("kind", ["tree", "mean", "boosted", "curves", "bent"])
def test_predictions_are_nearly_the_means(kind):
    X, y, _ = claims()
    model = models(loss="tweedie")[kind].fit(X, y)
    X_test, y_test, mean = claims(seed=1)
    predicted = model.predict(X_test)
    assert predicted.min() > 0
    ours, best, constant = (
        mean_tweedie_deviance(y_test, guess, power=1.5) for guess in (predicted, mean, np.full(len(mean), y.mean()))
    )
    assert ours - best < 0.1 * (constant - best)


def test_the_loss_is_the_deviance_of_the_libraries():
    _X, y, mean = claims(200)
    rng = np.random.default_rng(3)
    weight, margins = rng.uniform(0.5, 2, len(y)), np.log(mean)[:, None] + rng.normal(0, 0.3, (len(y), 1))
    for power in (1.05, 1.5, 1.95):
        loss = PowerLoss(power)
        expected = mean_tweedie_deviance(y, np.exp(margins[:, 0]), sample_weight=weight, power=power)
        assert loss.deviance(y, margins, weight) / weight.sum() == pytest.approx(expected, rel=1e-9)
        by_formula = weight @ (deviance(y, np.exp(margins[:, 0]), power) - deviance(y, mean, power))
        difference = loss.total(y, margins, weight) - loss.total(y, np.log(mean)[:, None], weight)
        assert difference == pytest.approx(by_formula, rel=1e-9)
        step, h = loss.step(y, margins, weight, 0), 1e-6
        slope = [
            (deviance(y, np.exp(margins[:, 0] + h), power) - deviance(y, np.exp(margins[:, 0] - h), power)) / 2 / h
        ]
        np.testing.assert_allclose(-step[0] * step[1], weight * slope[0], rtol=1e-5, atol=1e-8)
        shift = loss.change(y, margins, weight)
        assert all(
            loss.total(y, margins + shift, weight) < loss.total(y, margins + shift + d, weight) for d in (-1e-3, 1e-3)
        )


@pytest.mark.parametrize(
    ("power", "near"), [(np.nextafter(1.0, 2.0), PowerLoss(1)), (np.nextafter(2.0, 1.0), PowerLoss(2))]
)
def test_powers_at_the_ends_are_those_of_the_neighbouring_losses(power, near):
    _X, y, mean = claims(200)
    y, weight, margins = y + 0.1, np.ones(len(y)), np.log(mean)[:, None]
    loss = PowerLoss(power)
    np.testing.assert_allclose(loss.deviance(y, margins, weight), near.deviance(y, margins, weight), rtol=1e-9)
    for ours, other in zip(loss.step(y, margins, weight, 0), near.step(y, margins, weight, 0), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-12)


@pytest.mark.parametrize("kind", ["tree", "mean", "boosted", "curves"])
def test_exposures_are_offsets(kind):
    """The deviance is homogeneous: weights of rates are the exposures to the power 2 - p."""
    X, y, _ = smooth(600)
    rng, power = np.random.default_rng(4), 1.3
    years, weight = rng.uniform(0.2, 4, len(y)), rng.uniform(0.5, 2, len(y))
    exposed = models(loss="tweedie", tweedie_power=power)[kind].fit(X, y, weight, exposure=years)
    relative = years ** (2 - power)
    rates = models(loss="tweedie", tweedie_power=power)[kind].fit(X, y / years, weight * (relative / relative.mean()))
    np.testing.assert_array_equal(exposed.predict(X), rates.predict(X))
    np.testing.assert_array_equal(exposed.predict(X, exposure=years), exposed.predict(X) * years)


def test_an_equation_beside_exposures_is_that_beside_an_offset():
    """By scipy's solver of the deviance with the offset itself, which knows no weights."""
    from scipy.optimize import minimize

    X, y, _ = smooth(800)
    power, years = 1.3, np.random.default_rng(4).uniform(0.2, 4, 800)
    options = {"max_leaves": 1, "log_terms": False, "clip": "none", "penalty": 0}
    model = glasswood.ModelTreeRegressor(loss="tweedie", tweedie_power=power, **options, **FAST)
    model.fit(X, y, exposure=years)
    design = np.column_stack([np.ones(800), X])
    found = minimize(
        lambda b: deviance(y, years * np.exp(design @ b), power).mean(),
        np.zeros(3),
        method="BFGS",
        options={"gtol": 1e-9},
    )
    table = dict(zip(model.leaves_["feature"], model.leaves_["coefficient"], strict=True))
    np.testing.assert_allclose([table[name] for name in ("(intercept)", "x0", "x1")], found.x, atol=1e-5)


def test_other_units_of_y_and_exposure_are_the_same_model():
    X, y, _ = smooth(500)
    years = np.random.default_rng(4).uniform(0.2, 4, 500)
    tree = lambda: glasswood.ModelTreeRegressor(loss="tweedie", generations=10, **FAST)  # noqa: E731
    own = tree().fit(X, y, exposure=years)
    months, cents = tree().fit(X, y, exposure=12 * years), tree().fit(X, 100 * y, exposure=years)
    np.testing.assert_allclose(12 * months.predict(X), own.predict(X), rtol=1e-5)
    np.testing.assert_allclose(cents.predict(X), 100 * own.predict(X), rtol=1e-5)


def test_exports_and_explanations_are_those_of_the_margin(tmp_path):
    X, y, _ = claims(500)
    model = models(loss="tweedie")["tree"].fit(X, y)
    np.testing.assert_array_equal(model.forest_.predict(X), model.predict(X))
    model.forest_.save(tmp_path / "model.glasswood")
    again = glasswood.load(tmp_path / "model.glasswood")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    explainer = glasswood.Explainer(model)
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, np.log(model.predict(X)), atol=4e-6)
    assert "logarithm" not in glasswood.export_text(model)


def test_what_is_refused():
    X, y, _ = claims(100)
    tree = glasswood.ModelTreeRegressor(loss="tweedie", generations=2, **FAST)
    with pytest.raises(ValueError, match=r"y is -1\.0 in row 3, loss='tweedie' expects numbers of at least 0"):
        tree.fit(X, np.where(np.arange(100) == 3, -1.0, y))
    with pytest.raises(ValueError, match="y is 0 in all rows, loss='tweedie' expects a number above 0"):
        tree.fit(X, np.zeros(100))
    for power in (1, 2, 0.5, np.nan):
        with pytest.raises(ValueError, match=r"tweedie_power is .*, expected a number above 1 and below 2"):
            glasswood.ModelTreeRegressor(loss="tweedie", tweedie_power=power).fit(X, y)
    for model in (tree, models(loss="tweedie")["boosted"], models(loss="tweedie")["curves"]):
        with pytest.raises(ValueError, match="loss='tweedie' has no intervals"):
            model.fit(X, y).predict_interval(X)
