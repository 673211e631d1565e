"""Categories and missing values in the equations of leaves, and what sets of categories cost."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import glasswood
from glasswood.grow.data.columns import categorical_columns
from glasswood.grow.data.derived import MISSING, MOST_LEVELS, NUMBER, with_derived

FAST = {"n_iter_no_change": 20, "n_jobs": 1}


def frame_of(n, n_cities=40):
    rng = np.random.default_rng(0)
    kind = rng.choice(list("abcde"), n)
    city = rng.integers(0, n_cities, n)
    x, z = rng.normal(size=(2, n))
    effects = np.select([kind == "b", kind == "d"], [3.0, -2.0], 0.0) + 2 * np.sin(city)
    missing = rng.random(n) < 0.2
    y = 2 * x + effects + np.where(missing, 1.5, z) + 0.3 * rng.standard_normal(n)
    cities = np.array([f"c{i}" for i in range(n_cities)])[city]
    return pd.DataFrame({"x": x, "kind": kind, "city": cities, "z": np.where(missing, np.nan, z)}), y


@pytest.fixture(scope="module")
def data():
    return frame_of(1500)


@pytest.fixture(scope="module")
def fitted(data):
    X, y = data
    return glasswood.ModelTreeRegressor(**FAST).fit(X[:1000], y[:1000])


def test_one_equation_has_them_all(fitted, data):
    X, y = data
    assert fitted.n_leaves_ == 1
    assert np.sqrt(np.mean((fitted.predict(X[1000:]) - y[1000:]) ** 2)) < 0.36
    coefficients = dict(zip(fitted.leaves_["feature"], fitted.leaves_["coefficient"], strict=True))
    assert coefficients["kind = b"] - coefficients.get("kind = a", 0) == pytest.approx(3, abs=0.15)
    assert coefficients["z missing"] == pytest.approx(1.5, abs=0.15)
    errors = dict(zip(fitted.leaves_["feature"], fitted.leaves_["standard_error"], strict=True))
    assert 0 < errors["kind = b"] < 0.1
    assert np.isnan(errors["city = c1"])
    assert coefficients["city = c1"] - coefficients["city = c4"] == pytest.approx(2 * (np.sin(1) - np.sin(4)), abs=0.4)


def test_the_table_is_what_predicts(fitted, data):
    X, _ = data
    expected = np.zeros(len(X))
    means = dict(zip(fitted.leaves_["feature"], fitted.leaves_["mean"], strict=True))
    for name, coefficient in zip(fitted.leaves_["feature"], fitted.leaves_["coefficient"], strict=True):
        feature, _, category = name.partition(" = ")
        if name == "(intercept)":
            expected += coefficient
        elif name.endswith(" missing"):
            expected += coefficient * X[name.removesuffix(" missing")].isna()
        else:
            expected += coefficient * ((X[feature] == category) if category else X[name].fillna(means[name]))
    expected = np.clip(expected, *fitted.forest_.ensemble.leaf_range[0])
    np.testing.assert_allclose(fitted.predict(X), expected, rtol=1e-9, atol=1e-9)


def test_texts_name_them(fitted):
    text = glasswood.export_text(fitted)
    assert " if z missing" in text
    assert " kind (" in text
    assert " city (c" in text


def test_files_and_explanations(fitted, data, tmp_path):
    X, _ = data
    fitted.forest_.save(tmp_path / "tree.glasswood")
    np.testing.assert_array_equal(glasswood.load(tmp_path / "tree.glasswood").predict(X), fitted.predict(X))
    explainer = glasswood.Explainer(fitted, dtype="float64")
    total = explainer.expected_value + explainer.shap_values(X[:100]).sum(axis=1)
    np.testing.assert_allclose(total, fitted.predict(X[:100]), rtol=1e-9, atol=1e-9)
    assert fitted.feature_importances_.shape == (4,)


def test_categories_that_fit_did_not_see_are_missing(fitted, data):
    X, _ = data
    unseen, missing = X[:20].copy(), X[:20].copy()
    unseen["kind"], unseen["city"] = "new", "new"
    missing["kind"], missing["city"] = None, None
    np.testing.assert_array_equal(fitted.predict(unseen), fitted.predict(missing.astype({"kind": object})))


def test_codes_leave_out_the_rows_own_part():
    """A category a row: every code is the mean of all, none knows its own target."""
    y = np.random.default_rng(1).normal(size=200)
    columns = categorical_columns(pd.DataFrame({"name": [f"n{i}" for i in range(200)]}), y, np.ones(200), None)
    derived = with_derived(columns, y, np.ones(200))
    assert derived.X.shape == (200, 1)  # all codes are one number
    tree = glasswood.ModelTreeRegressor(**FAST).fit(pd.DataFrame({"name": [f"n{i}" for i in range(200)]}), y)
    assert tree.n_leaves_ == 1


def test_columns_by_the_number_of_categories(data):
    X, y = data
    columns = categorical_columns(X, y, np.ones(len(y)), None)
    derived = with_derived(columns, y, np.ones(len(y)))
    found = [(column.source, column.category) for column in derived.derived]
    assert [pair for pair in found if pair[0] == 3] == [(3, MISSING)]
    assert len([pair for pair in found if pair[0] == 1]) == 4
    assert [pair for pair in found if pair[0] == 2] == [(2, NUMBER)]
    assert columns.categories[2].size > MOST_LEVELS
    assert derived.is_testable.tolist() == [True] * 4 + [category >= 0 for _, category in found]
    assert derived.n_features == 4


def test_a_split_of_one_category_is_a_set(data):
    """Where one category has another slope: a test that no order of the categories by their means offers."""
    X, _ = data
    y = np.where(X["kind"] == "c", 3.0, -1.0) * X["x"]
    tree = glasswood.ModelTreeRegressor(**FAST).fit(X[["x", "kind"]], y)
    assert tree.n_leaves_ == 2
    assert "kind = c\n" in glasswood.export_text(tree)
    np.testing.assert_allclose(tree.predict(X[["x", "kind"]]), y, atol=1e-9)


def test_many_categories_of_noise_make_no_leaves():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"x": rng.normal(size=3000), "name": rng.integers(0, 200, 3000).astype(str)})
    y = X["x"] + rng.standard_normal(3000)
    assert glasswood.ModelTreeRegressor(**FAST).fit(X, y).n_leaves_ == 1


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("smoothing", [0, 15])
def test_categories_that_the_path_excludes_have_no_term(smoothing):
    """One city of many has rows of its own kind, so that it is split off."""
    X, y = frame_of(1500)
    is_alone = (X["city"] == X["city"].iloc[0]).to_numpy()
    y = np.where(is_alone, 100 * X["x"], y)
    settings = {"smoothing": smoothing, "n_jobs": 1, "n_iter_no_change": 20}
    model = glasswood.ModelTreeRegressor(**settings).fit(X, y)
    ensemble, city = model.forest_.ensemble, X.columns.get_loc("city")
    comes_to = [set(model.apply(X.assign(city=name)).tolist()) for name in ensemble.categories[city]]
    assert any(len(leaves) < model.n_leaves_ for leaves in comes_to)
    named = {(leaf, int(category)) for leaf, feature, category in _terms(ensemble) if feature == city and category >= 0}
    assert named == {(leaf, category) for leaf, category in named if leaf in comes_to[category]}
    assert named


def _terms(ensemble):
    leaves = np.repeat(np.arange(ensemble.n_leaves), np.diff(ensemble.linear_offsets))
    return zip(leaves.tolist(), ensemble.linear_feature.tolist(), ensemble.linear_category.tolist(), strict=True)
