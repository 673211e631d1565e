"""Explanations hold the rows as their user gave them."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from glasswood.inputs.shown import own_values

pandas = pytest.importorskip("pandas")
shap = pytest.importorskip("shap")
N = 60
WORK = np.array(["Gov", "Private", "Self"])


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    work = pandas.Categorical(rng.choice(WORK, N))
    result = pandas.DataFrame({"age": rng.integers(18, 90, N), "work": work, "height": rng.normal(size=N)})
    result.loc[3, "work"] = np.nan
    result.loc[4, "height"] = np.nan
    return result


@pytest.fixture(scope="module")
def y(frame):
    return np.where(frame.work == "Private", 5, 0) + 0.1 * frame.age


def xgboost_model(frame, y):
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=3, enable_categorical=True).fit(frame, y)


def lightgbm_model(frame, y):
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=5, verbose=-1).fit(frame, y)


def catboost_model(frame, y):
    catboost = pytest.importorskip("catboost")
    filled = frame.assign(work=frame.work.astype(object).fillna("missing"))
    settings = {"iterations": 3, "one_hot_max_size": 10, "allow_writing_files": False, "verbose": False}
    return catboost.CatBoostRegressor(**settings).fit(filled, y, cat_features=["work"])


def sklearn_model(frame, y):
    ensemble = pytest.importorskip("sklearn.ensemble")
    return ensemble.HistGradientBoostingRegressor(max_iter=3, categorical_features=["work"]).fit(frame, y)


def grown(frame, y):
    pytest.importorskip("sklearn")
    return glasswood.ModelTreeRegressor(max_leaves=2, n_iter_no_change=5, n_jobs=1).fit(frame, y)


@pytest.mark.parametrize("make", [xgboost_model, lightgbm_model, catboost_model, sklearn_model, grown])
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_source(frame, y, make, library):
    model = make(frame, y)
    rows = frame.assign(work=frame.work.astype(object).fillna("missing")) if make is catboost_model else frame
    rows = rows[["height", "age", "work"]]
    if library != "pandas":
        frames = pytest.importorskip(library)
        rows = frames.from_pandas(rows) if library == "polars" else frames.Table.from_pandas(rows)
    if make is grown:
        model = model.forest_  # by name
    data = glasswood.Explainer(model)(rows).data
    assert data[0].tolist() == [frame.age[0], frame.work[0], frame.height[0]]
    assert data[3, 1] == "missing"
    assert np.isnan(data[4, 2])
    assert set(data[:, 1]) == {*WORK, "missing"}


def test_codes_in_arrays_are_looked_up(frame, y):
    forest = glasswood.load(xgboost_model(frame, y))
    codes = np.array([[30.0, 1.0, 0.5], [31.0, np.nan, np.nan], [32.0, 7.0, 0.1], [33.0, -1.0, 0.1]])
    data = own_values(codes, forest.ensemble)
    assert data[:, 0].tolist() == [30, 31, 32, 33]
    assert data[:, 1].tolist() == ["Private", "missing", "missing", "missing"]


def test_numbers_stay_numbers():
    X = np.array([[1, 2**40 + 1], [3, 4]])
    forest = glasswood.load(pytest.importorskip("sklearn.tree").DecisionTreeRegressor().fit(X, [0, 1]))
    assert own_values(X, forest.ensemble).tolist() == X.tolist()
    assert own_values(X.tolist(), forest.ensemble).dtype == np.float64
    named = pandas.DataFrame(X, columns=["a", "b"])
    assert own_values(named, forest.ensemble).tolist() == X.tolist()
    mixed = named.assign(a=[1.5, None])
    assert own_values(mixed, forest.ensemble).dtype == np.float64


def test_rows_of_text_arrays_are_read_by_value(frame, y):
    pytest.importorskip("sklearn")
    tree = grown(frame[["age", "work"]], y)
    mixed = [[36, "Private"], [50, None]]
    by_numpy = np.array([[36, "Private"], [50, "Gov"]])
    assert by_numpy.dtype.kind == "U"
    assert tree.predict(by_numpy)[0] == tree.predict(mixed)[0] == tree.forest_.predict(by_numpy)[0]
    assert glasswood.Explainer(tree)(by_numpy).data[0, 1] == "Private"
    with pytest.raises(TypeError, match=r"'age' of X holds text \('old'\)"):
        tree.predict(np.array([["old", "Private"]]))


def test_classes_name_the_outputs():
    xgboost = pytest.importorskip("xgboost")
    sklearn = pytest.importorskip("sklearn.datasets")
    X, y = sklearn.load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    model = pytest.importorskip("sklearn.ensemble").RandomForestClassifier(3).fit(X, names[y])
    explanation = glasswood.Explainer(model)(X)
    assert list(explanation.output_names) == names.tolist()
    np.testing.assert_array_equal(explanation[:, :, "versicolor"].values, explanation.values[:, :, 1])
    assert isinstance(explanation, shap.Explanation)
    assert glasswood.Explainer(xgboost.XGBRegressor(n_estimators=2).fit(X, y))(X).output_names is None


@pytest.mark.parametrize("plot", ["beeswarm", "bar", "waterfall", "heatmap", "scatter", "colored"])
def test_plots_of_shap_take_categories(frame, y, plot):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    explanation = glasswood.Explainer(xgboost_model(frame, y))(frame)
    if plot in {"scatter", "colored"}:
        extra = {"color": explanation[:, "work"]} if plot == "colored" else {}
        shap.plots.scatter(explanation[:, "age" if extra else "work"], show=False, **extra)
        if plot == "scatter":
            labels = {label.get_text() for label in matplotlib.pyplot.gca().get_xticklabels()}
            assert {*WORK, "missing"} <= labels
    else:
        getattr(shap.plots, plot)(explanation[0] if plot == "waterfall" else explanation, show=False)
        if plot == "waterfall":
            text = " ".join(label.get_text() for label in matplotlib.pyplot.gcf().axes[0].get_yticklabels())
            assert frame.work[0] in text
    matplotlib.pyplot.close("all")
