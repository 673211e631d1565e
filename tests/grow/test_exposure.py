"""Rates of counts and amounts: exposures against weights, offsets of statsmodels, and the means of what was counted."""

import numpy as np
import pytest
from sklearn.linear_model import PoissonRegressor

import glasswood

FAST = {"n_jobs": 1, "verbose": False}


def claims(n_rows=500, seed=0):
    rng = np.random.default_rng(seed)
    X, years = rng.uniform(0, 1, (n_rows, 2)), rng.uniform(0.1, 5, n_rows)
    rate = np.where(X[:, 0] < 0.5, 0.5, 1.5) * np.exp(X[:, 1])
    return X, years, rate, rng.poisson(rate * years).astype(float)


def models(loss):
    few = {"n_jobs": 1, "time_limit": None}
    return [
        glasswood.ModelTreeRegressor(loss=loss, generations=10, **FAST),
        glasswood.ModelTreeEnsembleRegressor(loss=loss, method="boosting", n_estimators=1, max_trees=3, **few),
        glasswood.AdditiveRegressor(loss=loss, n_jobs=1),
    ]


@pytest.mark.sizes("each")
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_counts_of_exposures_are_weighted_rates(loss, place):
    X, years, rate, counts = claims()
    y = counts if loss == "poisson" else rate * years * np.random.default_rng(1).gamma(2, 0.5, len(years))
    weight = np.random.default_rng(2).uniform(0.5, 2, len(years))
    relative = weight * (years / years.mean()) if loss == "poisson" else weight
    exposed = models(loss)[place].fit(X, y, weight, exposure=years)
    weighted = models(loss)[place].fit(X, y / years, relative)
    np.testing.assert_array_equal(exposed.predict(X), weighted.predict(X))
    np.testing.assert_array_equal(exposed.predict(X, exposure=years), exposed.predict(X) * years)


def test_one_equation_is_that_of_generalised_linear_models():
    X, years, _, counts = claims(2000)
    counts = np.random.default_rng(3).poisson(years * np.exp(X @ [2.0, -1.0])).astype(float)
    model = glasswood.ModelTreeRegressor(loss="poisson", max_leaves=1, log_terms=False, clip="none", **FAST)
    model.fit(X, counts, exposure=years)
    table = dict(zip(model.leaves_["feature"], model.leaves_["coefficient"], strict=True))
    other = PoissonRegressor(alpha=0, tol=1e-10, max_iter=1000).fit(X, counts / years, sample_weight=years)
    np.testing.assert_allclose(table["(intercept)"], other.intercept_, atol=1e-5)
    np.testing.assert_allclose([table["x0"], table["x1"]], other.coef_, atol=1e-5)
    statsmodels = pytest.importorskip("statsmodels.api")
    design = statsmodels.add_constant(X)
    glm = statsmodels.GLM(counts, design, family=statsmodels.families.Poisson(), exposure=years).fit()
    np.testing.assert_allclose([table[name] for name in ("(intercept)", "x0", "x1")], glm.params, atol=1e-5)


def test_what_is_predicted_adds_up_to_what_was_counted():
    X, years, _, counts = claims()
    for model in models("poisson")[:1]:
        model.fit(X, counts, exposure=years)
        assert model.predict(X, exposure=years).sum() == pytest.approx(counts.sum(), rel=1e-3)


def test_shap_values_add_up_to_the_logarithm_of_the_rate():
    X, years, _, counts = claims()
    model = models("poisson")[0].fit(X, counts, exposure=years)
    explainer = glasswood.Explainer(model.forest_)
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    assert total.dtype == np.float32
    expected = np.log(model.predict(X, exposure=years))
    np.testing.assert_allclose(total + np.log(years), expected, atol=4 * np.finfo(np.float32).eps)


def test_long_exposures_are_no_repeated_rows():
    X, _, _, counts = claims()
    short = glasswood.ModelTreeRegressor(loss="poisson", generations=10, **FAST).fit(X, counts, exposure=np.ones(500))
    long = glasswood.ModelTreeRegressor(loss="poisson", generations=10, **FAST).fit(
        X, counts, exposure=np.full(500, 12)
    )
    assert long.n_leaves_ == short.n_leaves_
    np.testing.assert_allclose(12 * long.predict(X), short.predict(X), rtol=1e-6)


def test_what_is_refused():
    X, years, _, counts = claims()
    for model in (glasswood.ModelTreeRegressor(), glasswood.AdditiveRegressor(loss="squared")):
        with pytest.raises(
            ValueError, match="exposure is for rates, which loss='poisson', loss='gamma' and loss='tweedie' predict"
        ):
            model.fit(X, counts, exposure=years)
    model = glasswood.ModelTreeRegressor(loss="poisson", generations=2, **FAST)
    years[3] = 0
    with pytest.raises(ValueError, match="exposure is 0 in row 3, expected numbers above 0"):
        model.fit(X, counts, exposure=years)
    with pytest.raises(ValueError, match=r"exposure has shape \(2,\), expected \(500,\): one for each row"):
        model.fit(X, counts, exposure=[1, 2])
    model.fit(X, counts)
    with pytest.raises(ValueError, match=r"exposure has shape \(1,\), expected \(500,\)"):
        model.predict(X, exposure=[1.0])


@pytest.mark.sizes("each")
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_exposures_of_any_size_are_right_or_refused(loss):
    """Trees, ensembles and glass boxes: rates are those of other units, or a sentence names the exposure."""
    X, years, rate, _ = claims(200)
    y = rate * years * np.random.default_rng(1).gamma(2, 0.5, 200)
    one = np.where(np.arange(200) == 3, 1.0, 0.0)
    units = [
        (years * 1e-100, None), (years * 1e100, None), (years * 2e307, "too large to divide y by"),
        (years * 1e-308, "too small to divide y by"), (years + 1e308 * one, "too large to divide y by"),
        (years + 1e20 * one, r"in row \d+ and 1e\+20 in row 3, too far apart to add up"),
        (10.0 ** np.linspace(-140, 140, 200), "too far apart"),
    ]  # fmt: skip
    for place, model in enumerate(models(loss)):
        before = models(loss)[place].fit(X, y, exposure=years)
        for exposure, message in units:
            if message:
                with pytest.raises(ValueError, match=f"exposure is .*{message}"):
                    model.fit(X, y, exposure=exposure)
                continue
            predicted = model.fit(X, y, exposure=exposure).predict(X, exposure=exposure)
            if place == 0:
                np.testing.assert_allclose(predicted, before.predict(X, exposure=years), rtol=1e-9)
            share = 1 if loss == "poisson" else years ** {"tweedie": -0.5, "gamma": -1.0}[loss]
            assert (share * predicted).sum() == pytest.approx((share * y).sum(), rel=0.05 if place == 0 else 1e-6)
        most = X[[before.predict(X).argmax()]]
        with pytest.raises(ValueError, match=r"exposure is 1e\+308 in row 0, too large to multiply the rate of"):
            before.predict(most, exposure=[1e308])


@pytest.mark.parametrize("loss", ["poisson", "gamma", "quantile"])
def test_leaves_are_summed_up_in_units_of_y(loss):
    X, years, rate, counts = claims()
    y = counts if loss == "poisson" else rate * np.random.default_rng(1).gamma(2, 0.5, len(years))
    model = glasswood.ModelTreeRegressor(loss=loss, generations=10, **FAST)
    model.fit(X, y, **({"exposure": years} if loss == "poisson" else {}))
    y, weight = (y / years, years) if loss == "poisson" else (y, np.ones(len(y)))
    leaves, predictions = model.apply(X), model.predict(X)
    for leaf in range(model.n_leaves_):
        at, summary = leaves == leaf, {name: values[leaf] for name, values in model.leaf_summary_.items()}
        off = np.average((y - predictions)[at] ** 2, weights=weight[at])
        assert summary["rmse"] == pytest.approx(np.sqrt(off))
        assert (summary["low"], summary["high"]) == pytest.approx((y[at].min(), y[at].max()))
        assert summary["lowest"] <= predictions[at].min() * (1 + 1e-12)
        assert predictions[at].max() <= summary["highest"] * (1 + 1e-12)
        if loss != "quantile":
            assert summary["mean"] == pytest.approx(np.average(y[at], weights=weight[at]))


@pytest.mark.parametrize("place", range(3))
def test_scores_compare_counts_with_counts(place):
    X, years, _, counts = claims()
    model = models("poisson")[place].fit(X, counts, exposure=years)
    with pytest.raises(ValueError, match="fitted with exposure and predicts rates"):
        model.score(X, counts)
    residual, spread = counts - model.predict(X) * years, counts - counts.mean()
    assert model.score(X, counts, exposure=years) == pytest.approx(1 - (residual @ residual) / (spread @ spread))
    rates = models("poisson")[place].fit(X, counts / years, sample_weight=years)
    assert rates.score(X, counts / years) == model.score(X, counts / years, exposure=np.ones(len(years)))
