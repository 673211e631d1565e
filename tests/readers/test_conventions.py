"""What docs/guide/conventions.md says of other libraries' units holds."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(400, 4))
    return X, X[:, 0] * X[:, 1] + X[:, 2]


def values(model, X):
    explainer = glasswood.Explainer(model, dtype="float64")
    return explainer.shap_values(X), explainer.expected_value


def test_raw_scores_of_random_forests_are_sums_in_lightgbm(data):
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "verbose": -1, "num_threads": 1}
    model = lightgbm.train(settings, lightgbm.Dataset(*data), 10)
    X = data[0]
    margin = glasswood.load(model).predict(X, output="margin")
    np.testing.assert_allclose(margin, model.predict(X), atol=1e-13)
    np.testing.assert_allclose(10 * margin, model.predict(X, raw_score=True), atol=1e-13)
    phi, expected = values(model, X)
    found = model.predict(X, pred_contrib=True)
    np.testing.assert_allclose(10 * phi, found[:, :-1], atol=1e-12)
    np.testing.assert_allclose(10 * expected, found[:, -1], atol=1e-12)


def test_isolation_forests_count_in_mean_path_lengths(data):
    ensemble = pytest.importorskip("sklearn.ensemble")
    shap = pytest.importorskip("shap")
    X = data[0]
    model = ensemble.IsolationForest(n_estimators=10, random_state=0).fit(X)
    margin = glasswood.load(model).predict(X, output="margin")
    np.testing.assert_allclose(-(2.0**-margin), model.score_samples(X), rtol=1e-12)
    unit = 2 * (np.log(255) + np.euler_gamma) - 2 * 255 / 256
    assert f"{unit:.2f}" == "10.24"
    phi = values(model, X[:5])[0]
    np.testing.assert_allclose(unit * phi, shap.TreeExplainer(model).shap_values(X[:5]), atol=1e-4)


@pytest.mark.parametrize("bounds", [[0], [-1, 1]])
def test_the_margin_of_ada_boost_is_its_decision(data, bounds):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = data
    model = ensemble.AdaBoostClassifier(n_estimators=10, random_state=0).fit(X, np.digitize(y, bounds))
    margin = glasswood.load(model).predict(X, output="margin")
    np.testing.assert_allclose(margin, model.decision_function(X), atol=1e-13)
    assert np.abs(margin).max() <= 2


@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise", "Lossguide"])
def test_shap_values_of_catboost_add_up_for_oblivious_trees(data, policy):
    catboost = pytest.importorskip("catboost")
    X, y = data
    model = catboost.CatBoostRegressor(
        iterations=10, grow_policy=policy, verbose=0, thread_count=1, allow_writing_files=False
    ).fit(X, y)
    phi, expected = values(model, X)
    np.testing.assert_allclose(phi.sum(axis=1) + expected, model.predict(X), atol=1e-12)
    theirs = model.get_feature_importance(catboost.Pool(X, y), type="ShapValues")
    error = np.abs(theirs.sum(axis=1) - model.predict(X)).max()
    assert error < 1e-12 if policy == "SymmetricTree" else error > 0.01


def test_expected_values_are_floats(data):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = data
    assert type(values(ensemble.GradientBoostingRegressor(n_estimators=2).fit(X, y), X)[1]) is float
    several = ensemble.RandomForestRegressor(n_estimators=2).fit(X, np.column_stack([y, -y]))
    assert values(several, X)[1].shape == (2,)
