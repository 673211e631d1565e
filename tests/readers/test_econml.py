"""Causal forests of econml, as means of what their trees estimate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import PolynomialFeatures
from tests.readers.forests import MODELS, check_rows, check_values, make_rows, signal

import glasswood

grf = pytest.importorskip("econml.grf")
dml = pytest.importorskip("econml.dml")
pytestmark = pytest.mark.filterwarnings("ignore")


def trial(X, seed, n_treatments):
    rng = np.random.default_rng(seed)
    T = rng.normal(size=(len(X), n_treatments))
    return T, signal(X) * T[:, 0] + T[:, -1] + 0.1 * rng.normal(size=len(X))


def random_options(seed):
    rng = np.random.default_rng(seed)
    return {
        "n_estimators": 4 * int(rng.integers(1, 3)),
        "max_depth": int(rng.integers(1, 6)),
        "min_samples_leaf": 5,
        "fit_intercept": bool(seed % 2),
        "random_state": seed,
        "n_jobs": 1,
    }


@pytest.mark.parametrize("seed", MODELS)
def test_effects_of_causal_forests(seed):
    X = make_rows(seed)
    T, y = trial(X, seed, 1 + seed % 2)
    kind = grf.CausalIVForest if seed % 3 == 2 else grf.CausalForest
    instrument = {"Z": T} if kind is grf.CausalIVForest else {}
    model = kind(**random_options(seed)).fit(X, T, y, **instrument)
    forest = glasswood.load(model, check=X)
    assert forest.n_outputs == T.shape[1]
    check_rows(forest, model.predict_tree_average, X)
    check_values(forest, model.predict_tree_average, X)


@pytest.mark.parametrize("seed", MODELS)
def test_regression_forests_predict_as_they_do(seed):
    X = make_rows(seed)
    options = random_options(seed)
    del options["fit_intercept"]
    model = grf.RegressionForest(**options).fit(X, signal(X))
    forest = glasswood.load(model, check=X)
    check_rows(forest, model.predict, X)
    check_values(forest, model.predict, X)


def test_several_outcomes():
    X = make_rows(0)
    T, y = trial(X, 0, 2)
    model = grf.MultiOutputGRF(grf.CausalForest(**random_options(0))).fit(X, T, np.column_stack([y, -2 * y]))
    averages = [one.predict_tree_average for one in model.estimators_]
    check_rows(glasswood.load(model, check=X), lambda rows: np.concatenate([one(rows) for one in averages], axis=1), X)


def test_estimators_with_nuisance_models():
    X = make_rows(0)
    T, y = trial(X, 0, 2)
    frame = pd.DataFrame(X, columns=list("abcd"))
    treatment = pd.DataFrame(T, columns=["drug", "diet"])
    model = dml.CausalForestDML(n_estimators=8, random_state=0, n_jobs=1).fit(y, treatment, X=frame)
    forest = glasswood.load(model, check=frame)
    assert forest.feature_names == tuple("abcd")
    assert forest.output_names == ("drug", "diet")
    found = forest.predict(frame)
    np.testing.assert_allclose(found, model.model_cate.estimators_[0].predict_tree_average(X), atol=1e-12)
    assert np.corrcoef(found[:, 0], model.const_marginal_effect(frame)[:, 0])[0, 1] > 0.9
    binary = dml.CausalForestDML(discrete_treatment=True, n_estimators=8, random_state=0, n_jobs=1)
    forest = glasswood.load(binary.fit(y, T[:, 0] > 0, X=X), check=X)
    assert forest.n_outputs == 1
    assert forest.feature_names is None


def test_values_are_those_of_shap():
    shap = pytest.importorskip("shap")
    X = make_rows(0).astype(np.float32).astype(np.float64)
    T, y = trial(X, 0, 1)
    model = grf.CausalForest(**random_options(3)).fit(X, T, y)
    expected = shap.TreeExplainer(model, X[:50]).shap_values(X[50:60])
    found = glasswood.Explainer(model, X[:50], dtype="float64").shap_values(X[50:60])
    np.testing.assert_allclose(found.reshape(expected.shape[:2]), expected.reshape(expected.shape[:2]), atol=1e-6)


def test_bad_input():
    X = make_rows(0)
    T, y = trial(X, 0, 1)
    for model in (grf.CausalForest(), grf.MultiOutputGRF(grf.CausalForest()), dml.CausalForestDML()):
        with pytest.raises(NotFittedError, match="is not fitted; train it first"):
            glasswood.load(model)
    featurized = dml.CausalForestDML(featurizer=PolynomialFeatures(2), n_estimators=4, n_jobs=1).fit(y, T, X=X)
    with pytest.raises(NotImplementedError, match=r"CausalForestDML\(featurizer=PolynomialFeatures\) grows trees on"):
        glasswood.load(featurized)
    with pytest.raises(TypeError, match="got LinearDML of econml, expected a CausalForestDML"):
        glasswood.load(dml.LinearDML().fit(y, T[:, 0], X=X))
    model = grf.CausalForest(**random_options(0)).fit(X, T, y)
    model.n_relevant_outputs_ = 7
    with pytest.raises(NotImplementedError, match=r"this layout of econml .* is not read; upgrade glasswood"):
        glasswood.load(model)
