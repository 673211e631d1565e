"""`Explainer.importance`: a frame of mean magnitudes, shares, directions and errors."""

import dataclasses

import numpy as np
import pytest

import glasswood
from tests.strategies import Options, full_forest, random_forest

pandas = pytest.importorskip("pandas")

NAMES = ("a", "b", "c", "d")
COLUMNS = ["feature", "mean_abs", "share", "direction", "standard_error"]


def make_forest(**options):
    forest = random_forest(0, Options(n_trees=6, n_features=4, row_type="float64", **options))
    return dataclasses.replace(forest, feature_names=NAMES)


def rows_of(n, seed=0):
    return pandas.DataFrame(np.random.default_rng(seed).normal(size=(n, 4)), columns=list(NAMES))


def test_columns_are_those_of_the_values():
    forest, X = make_forest(), rows_of(500)
    explainer = glasswood.Explainer(forest, dtype="float64")
    found = explainer.importance(X)
    assert found.columns.tolist() == COLUMNS
    magnitude = pandas.DataFrame(np.abs(explainer.shap_values(X)), columns=list(NAMES))
    expected = magnitude.mean().sort_values(ascending=False, kind="stable")
    assert found["mean_abs"].is_monotonic_decreasing
    by_name = found.set_index("feature")
    np.testing.assert_allclose(by_name["mean_abs"][expected.index], expected, rtol=1e-12)
    np.testing.assert_allclose(by_name["standard_error"][list(NAMES)], magnitude.sem()[list(NAMES)], rtol=1e-9)
    assert found["share"].sum() == pytest.approx(1)
    np.testing.assert_allclose(by_name["share"], by_name["mean_abs"] / magnitude.mean().sum())


def test_batches_do_not_matter(limits):
    explainer, X = glasswood.Explainer(make_forest(), dtype="float64"), rows_of(700)
    whole = explainer.importance(X)
    limits(importance_together=90)
    pandas.testing.assert_frame_equal(explainer.importance(X), whole)


def test_directions():
    """A forest that adds up steps: up with a, down with b, up and down with c, nothing of d."""
    X = rows_of(400)
    y = X["a"] - X["b"] + 2 * (X["c"].abs() < 1)
    tree = pytest.importorskip("sklearn.ensemble").HistGradientBoostingRegressor(max_iter=60).fit(X[["a", "b", "c"]], y)
    found = glasswood.Explainer(tree).importance(X[["a", "b", "c"]]).set_index("feature")["direction"]
    assert found.to_dict() == {"a": "rising", "b": "falling", "c": "mixed"}


def test_categories_missing_values_and_groups():
    X = pandas.DataFrame({"n": np.arange(300.0), "city": pandas.Categorical(np.resize(["x", "y", "z"], 300))})
    X.loc[::5, "n"] = np.nan
    model = pytest.importorskip("sklearn.ensemble").HistGradientBoostingRegressor(
        max_iter=10, categorical_features="from_dtype", min_samples_leaf=5
    )
    model.fit(X, X["n"].fillna(0) + 50 * X["city"].cat.codes)
    found = glasswood.Explainer(model).importance(X).set_index("feature")["direction"]
    assert found.to_dict() == {"n": "rising", "city": "categories"}
    grouped = glasswood.Explainer(make_forest(), groups={"both": ["a", "b"]}).importance(rows_of(50))
    assert set(grouped["feature"]) == {"both", "c", "d"}
    assert grouped.set_index("feature")["direction"]["both"] == ""


def test_outputs_are_a_column():
    forest = dataclasses.replace(
        random_forest(0, Options(n_trees=6, n_features=4, n_outputs=3, row_type="float64")), feature_names=NAMES
    )
    found = glasswood.Explainer(forest).importance(rows_of(50))
    assert found.columns.tolist() == ["output", *COLUMNS]
    assert found["output"].tolist() == [str(k) for k in range(3) for _ in range(4)]


def test_frames_of_other_libraries(limits):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    explainer, X = glasswood.Explainer(make_forest()), rows_of(300)
    limits(importance_together=100)
    expected = explainer.importance(X)
    assert isinstance(found := explainer.importance(polars.from_pandas(X)), polars.DataFrame)
    assert found["feature"].to_list() == expected["feature"].tolist()
    assert isinstance(found := explainer.importance(pyarrow.Table.from_pandas(X)), pyarrow.Table)
    assert found.column("mean_abs").to_pylist() == expected["mean_abs"].tolist()
    pandas.testing.assert_frame_equal(explainer.importance(X.to_numpy()), expected)


def test_labels_and_refusals():
    X = rows_of(60)
    forest = dataclasses.replace(full_forest(0, 5, 2, 4, "float64"), link="logistic", feature_names=NAMES)
    explainer = glasswood.Explainer(forest, X[:10], output="log_loss")
    y = np.arange(60) % 2
    expected = np.abs(explainer.shap_values(X, y)).mean(axis=0)
    np.testing.assert_allclose(sorted(explainer.importance(X, y)["mean_abs"]), sorted(expected), rtol=1e-5)
    with pytest.raises(ValueError, match="X has no rows"):
        glasswood.Explainer(make_forest()).importance(X[:0])
    extra = X.assign(id=1)
    pandas.testing.assert_frame_equal(
        glasswood.Explainer(glasswood.load(make_forest(), columns="subset")).importance(extra),
        glasswood.Explainer(make_forest()).importance(X),
    )
