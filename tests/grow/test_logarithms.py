"""Logarithms of features in the equations of leaves."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import glasswood
from glasswood.grow.data.columns import numeric_columns
from glasswood.grow.data.derived import with_derived
from glasswood.model.ensemble import LOGARITHM

FAST = {"n_iter_no_change": 20, "n_jobs": 1, "log_terms": True}


def frame_of(n):
    rng = np.random.default_rng(0)
    area, rooms = np.exp(rng.normal(4, 1, n)), rng.integers(1, 9, n)
    y = 30 * np.log(area) + 2.0 * rooms + rng.standard_normal(n)
    return pd.DataFrame({"area": area, "rooms": rooms.astype(float)}), y


@pytest.fixture(scope="module")
def fitted():
    X, y = frame_of(600)
    return glasswood.ModelTreeRegressor(**FAST).fit(X, y)


def test_one_equation_has_the_logarithm(fitted):
    assert fitted.n_leaves_ == 1
    coefficients = dict(zip(fitted.leaves_["feature"], fitted.leaves_["coefficient"], strict=True))
    assert set(coefficients) == {"(intercept)", "log area", "rooms"}
    assert coefficients["log area"] == pytest.approx(30, abs=0.3)
    assert "30 log area" in glasswood.export_text(fitted, digits=2, style="equation")
    assert "area (rising, +" in glasswood.export_text(fitted, digits=2)
    X, y = frame_of(2000)
    assert np.sqrt(np.mean((fitted.predict(X) - y) ** 2)) < 1.1


def test_huge_and_tiny_numbers_have_logarithms():
    X = np.exp(np.random.default_rng(0).normal(size=(500, 1)))
    for scale in (1e-307, 1e300):
        assert columns_of(X * scale, True) == [(0, LOGARITHM)]
    assert columns_of(np.full((500, 1), 1.7e308), True) == []


def test_what_has_no_logarithm_counts_as_the_mean(fitted):
    X, _ = frame_of(600)
    middle = X.assign(area=np.exp(np.log(X["area"]).mean()))
    for absent in (0.0, -0.0, -3.0, np.nan):
        np.testing.assert_allclose(fitted.predict(X.assign(area=absent)), fitted.predict(middle), rtol=1e-12)


def test_explanations_add_up(fitted):
    X, _ = frame_of(50)
    X.loc[:3, "area"] = [0.0, -1.0, np.nan, 1e-300]
    for background in (None, X[10:20]):
        explainer = glasswood.Explainer(fitted, background)
        sums = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
        np.testing.assert_allclose(sums, fitted.predict(X), rtol=1e-5)


def columns_of(X, log_terms):
    found = with_derived(numeric_columns(X), X[:, 0], np.ones(len(X)), log_terms)
    return [(column.source, column.category) for column in found.derived]


def test_skewed_positive_features_have_logarithms():
    rng = np.random.default_rng(0)
    skewed = np.exp(rng.normal(size=500))
    gaps = np.where(rng.random(500) < 0.2, np.nan, skewed)
    X = np.column_stack([skewed, skewed - 1, rng.uniform(1, 9, 500), 100 + skewed, gaps])
    found = [source for source, category in columns_of(X, True) if category == LOGARITHM]
    assert found == [0, 4]
    assert columns_of(X, "auto") == columns_of(X, True)
    assert columns_of(np.full((500, 1), np.nan), True) == []
    assert LOGARITHM not in dict(columns_of(X[:499], "auto")).values()
    assert LOGARITHM not in dict(columns_of(X, False)).values()


def test_a_sample_of_many_rows_tells_which_are_skewed(limits):
    """The smallest value counts in all rows."""
    limits(derived_values=100)
    skewed = np.exp(np.random.default_rng(0).normal(size=2000))
    negative, rare = np.where(np.arange(2000) == 7, -1.0, skewed), np.where(np.arange(2000) % 20, np.nan, skewed)
    never = np.where(np.arange(2000) % 20, skewed, np.nan)
    X = np.column_stack([skewed, negative, rare, never])
    assert [source for source, category in columns_of(X, True) if category == LOGARITHM] == [0, 2]


def test_the_logarithm_is_one_with_its_feature():
    """All terms of a feature count as one, where some of its values are missing too."""
    X, y = frame_of(600)
    X.loc[::7, "area"] = np.nan
    tree = glasswood.ModelTreeRegressor(**FAST, max_terms_per_leaf=1).fit(X, y)
    ensemble = tree.forest_.ensemble
    terms = np.split(ensemble.linear_feature, ensemble.linear_offsets[1:-1])
    assert max(len(np.unique(features)) for features in terms) == 1
    assert "log area" in tree.leaves_["feature"]


@pytest.mark.parametrize("settings", [{"honest": 0.5}, {"smoothing": "auto"}, {"loss": "huber"}])
def test_with_other_parameters(settings):
    X, y = frame_of(600)
    tree = glasswood.ModelTreeRegressor(**FAST, **settings).fit(X, y)
    assert "log area" in tree.leaves_["feature"]
    assert np.sqrt(np.mean((tree.predict(X) - y) ** 2)) < 1.2


def counts(kind, seed, n):
    """Positive counts, of which targets follow logarithms, the counts themselves, or both."""
    rng = np.random.default_rng(seed)
    X = 1.0 + rng.poisson(rng.gamma(0.8, 6, size=(n, 6)))
    weight = np.array([2, -1, 1.5, 0, 0, 0])
    straight, bent = 0.5 * X @ weight, 4 * np.log1p(X) @ weight
    f = {"logarithms": bent, "counts": straight, "both": (straight + bent) / 2}[kind]
    return X, f + 2 * rng.standard_normal(n)


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize(("kind", "gain"), [("logarithms", 0.93), ("both", 0.96), ("counts", 1.01)])
def test_counts_have_logarithms_where_they_help(kind, gain):
    """By default, from 500 rows on; the noise alone is 2."""
    X, y = counts(kind, 0, 800)
    new, target = counts(kind, 1000, 4000)

    def error(**settings):
        tree = glasswood.ModelTreeRegressor(n_iter_no_change=20, n_jobs=1, alternatives=0, **settings).fit(X, y)
        return np.sqrt(np.mean((tree.predict(new) - target) ** 2))

    default = error()
    assert default < gain * error(log_terms=False)
    assert default < 2.15


def test_classes():
    X, y = frame_of(600)
    tree = glasswood.ModelTreeClassifier(**FAST).fit(X, y > np.median(y))
    assert "log area" in tree.leaves_["feature"]
    assert (tree.predict(X) == (y > np.median(y))).mean() > 0.95


def test_constrained_features_have_none():
    X, y = frame_of(600)
    tree = glasswood.ModelTreeRegressor(**FAST, monotonic_cst={"area": 1}).fit(X, y)
    assert "log area" not in tree.leaves_["feature"]
    glasswood.ModelTreeRegressor(**FAST, monotonic_cst={"rooms": 1}).fit(X, y)


def test_other_values_are_refused():
    with pytest.raises(ValueError, match="log_terms is 'yes', expected True, False or 'auto'"):
        glasswood.ModelTreeRegressor(log_terms="yes").fit(*frame_of(50))
