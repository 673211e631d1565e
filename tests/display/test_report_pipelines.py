"""Reports of pipelines are about the features of the trees."""

from __future__ import annotations

import pytest

import glasswood
from tests.display.test_report import content, housing


def test_pipelines(tmp_path):
    pipeline, compose = pytest.importorskip("sklearn.pipeline"), pytest.importorskip("sklearn.compose")
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    X, y = housing()
    steps = compose.make_column_transformer((OneHotEncoder(sparse_output=False), ["kind"]), remainder=SimpleImputer())
    model = pipeline.make_pipeline(steps, GradientBoostingRegressor(n_estimators=5)).fit(X, y)
    path = glasswood.report(model, X, y, tmp_path / "report.html")
    assert len(content(path)["features"]) == 6
    for effect, arguments in ((glasswood.partial_dependence, [4]), (glasswood.permutation_importance, [y])):
        name = effect.__name__
        with pytest.raises(
            NotImplementedError, match=rf"^{name} expects .* steps; use sklearn\.inspection\.{name}, or "
        ):
            effect(model, X, *arguments)
    dependence = glasswood.partial_dependence(model[-1], model[:-1].transform(X), 4, grid_resolution=5)
    assert dependence.average.shape == (1, 5)


def test_pipelines_of_linear_trees_transform_rows_once(tmp_path):
    lightgbm, pipeline = pytest.importorskip("lightgbm"), pytest.importorskip("sklearn.pipeline")
    from sklearn.preprocessing import StandardScaler

    X, y = housing()
    X = X[["size", "light"]] * 50 + 100
    last = lightgbm.LGBMRegressor(n_estimators=3, num_leaves=4, linear_tree=True, verbose=-1)
    model = pipeline.make_pipeline(StandardScaler(), last).fit(X, y)
    expected = glasswood.Explainer(glasswood.load(model).with_means(X)).expected_value
    path = glasswood.report(model, X, y, tmp_path / "report.html")
    assert content(path)["expected"] == pytest.approx([expected])
    renamed = X.set_axis(["a", "b"], axis=1)
    forest = glasswood.load(model[-1], columns="position")
    path = glasswood.report(forest, renamed, path=path)
    assert content(path)["expected"] == pytest.approx(
        [glasswood.Explainer(forest.with_means(X.to_numpy())).expected_value]
    )
