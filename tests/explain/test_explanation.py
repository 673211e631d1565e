"""`explainer(X)` is what shap's plots take."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import glasswood
from glasswood import Explainer
from tests.strategies import full_forest

shap = pytest.importorskip("shap")


@pytest.fixture
def pyplot():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.fixture
def forest():
    return dataclasses.replace(full_forest(0, 20, 3, n_features=4), feature_names=("age", "rooms", "income", "area"))


@pytest.fixture(name="X")
def rows():
    return np.random.default_rng(0).normal(size=(50, 4))


def test_explanation_carries_values_data_and_names(forest, X):
    explainer = Explainer(forest)
    explanation = explainer(X)
    assert isinstance(explanation, shap.Explanation)
    np.testing.assert_array_equal(explanation.values, explainer.shap_values(X))
    np.testing.assert_array_equal(explanation.data, X)
    np.testing.assert_array_equal(explanation.base_values, np.full(50, explainer.expected_value))
    assert list(explanation.feature_names) == list(forest.feature_names)


def test_explanation_of_a_frame(forest, X):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=forest.feature_names)[["area", "income", "rooms", "age"]]
    explanation = Explainer(forest)(frame)
    np.testing.assert_array_equal(explanation.values, Explainer(forest)(X).values)
    np.testing.assert_array_equal(explanation.data, X)
    assert list(explanation.feature_names) == list(forest.feature_names)


def test_lightgbms_names_are_spelled_as_in_the_frame(X):
    lightgbm = pytest.importorskip("lightgbm")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["petal length (cm)", "b", "c", "d"])
    model = lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=5, verbose=-1).fit(frame, X[:, 0])
    explanation = Explainer(model)(frame[["d", "petal length (cm)", "c", "b"]])
    assert list(explanation.feature_names) == list(frame.columns)
    np.testing.assert_array_equal(explanation[:, "petal length (cm)"].data, X[:, 0])
    assert Explainer(model)(X).feature_names[0] == "petal_length_(cm)"


def test_explanation_of_columns_by_position(forest, X):
    pandas = pytest.importorskip("pandas")
    placed = Explainer(glasswood.load(forest, columns="position"))
    explanation = placed(pandas.DataFrame(X, columns=list("pqrs")))
    np.testing.assert_array_equal(explanation.values, Explainer(forest)(X).values)
    assert list(explanation.feature_names) == list(forest.feature_names)


def test_explanation_of_several_outputs(X):
    forest = full_forest(0, 20, 3, n_features=4)
    outputs = (np.arange(20) % 2).astype(np.int32)
    forest = dataclasses.replace(forest, base_score=np.array([1.0, 2.0]), tree_output=outputs)
    explanation = Explainer(forest)(X)
    assert explanation.values.shape == (50, 4, 2)
    assert explanation.base_values.shape == (50, 2)
    assert explanation[..., 1].values.shape == (50, 4)


@pytest.mark.parametrize("plot", ["beeswarm", "bar"])
def test_plots_of_many_rows(forest, X, pyplot, plot):
    getattr(shap.plots, plot)(Explainer(forest)(X), show=False)
    labels = [label.get_text() for label in pyplot.gca().get_yticklabels()]
    assert set(forest.feature_names) <= set(labels)


def test_waterfall_plot(forest, X, pyplot):
    shap.plots.waterfall(Explainer(forest)(X)[0], show=False)
    labels = " ".join(label.get_text() for label in pyplot.gcf().axes[0].get_yticklabels())
    assert all(name in labels for name in forest.feature_names)


def test_violins_of_columns_with_categories(X, pyplot):
    """As the guide says: of the values alone, since shap's function adds up what it colours by."""
    lightgbm = pytest.importorskip("lightgbm")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age", "rooms", "income", "area"])
    frame["rooms"] = pandas.Categorical(np.where(X[:, 1] > 0, "many", "few"))
    model = lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=5, verbose=-1).fit(frame, X[:, 0])
    explanation = Explainer(model)(frame)
    assert set(explanation.data[:, 1]) == {"many", "few"}
    shap.plots.violin(explanation.values, feature_names=explanation.feature_names, show=False)
    labels = [label.get_text() for label in pyplot.gca().get_yticklabels()]
    assert set(frame.columns) <= set(labels)


def test_parts_of_rows_with_texts_are_shaps_own(monkeypatch):
    pd, lightgbm = pytest.importorskip("pandas"), pytest.importorskip("lightgbm")
    shap, slicer = pytest.importorskip("shap"), pytest.importorskip("slicer.slicer_internal")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=300), "place": pd.Categorical(rng.choice(["a", "bb", "c"], 300))})
    y = frame["size"] * (frame["place"] == "a")
    explainer = Explainer(lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(frame, y))
    visits, max_dim = [], slicer.UnifiedDataHandler.max_dim
    monkeypatch.setattr(slicer.UnifiedDataHandler, "max_dim", lambda o: visits.append(0) or max_dim(o))
    found = explainer(frame)
    assert len(visits) < 100 < frame.size  # shap looks for axes in every text: longer than values take
    texts = np.array(found.data)
    expected = shap.Explanation(found.values, found.base_values, texts, feature_names=found.feature_names)
    keys = (3, slice(2, 9), (slice(None), 1), (slice(None), "place"), (5, "place"), np.arange(300) < 9, [7, 2])
    for key in keys:
        for part in ("data", "values", "base_values"):
            ours, theirs = (getattr(one[key], part) for one in (found, expected))
            np.testing.assert_array_equal(np.asarray(ours, object), np.asarray(theirs, object))
    assert found[3][1].data == texts[3, 1]
    assert found.sample(4).data.shape == (4, 2)
