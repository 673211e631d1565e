"""NGBoost: parameters of distributions. It needs the environment of `make test-others`."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from tests.readers.forests import MODELS, check_rows, check_values, make_rows, signal

import glasswood

ngboost = pytest.importorskip("ngboost", reason="needs scikit-learn before 1.7: make test-others")
distns = pytest.importorskip("ngboost.distns")
pytestmark = pytest.mark.filterwarnings("ignore")

NAMES = {
    "Normal": ("loc", "log_scale"),
    "LogNormal": ("loc", "log_scale"),
    "Laplace": ("loc", "log_scale"),
    "Exponential": ("log_scale",),
    "Gamma": ("log_alpha", "log_beta"),
}


def options(seed):
    rng = np.random.default_rng(seed)
    return {
        "n_estimators": int(rng.integers(1, 9)),
        "learning_rate": 0.3,
        "col_sample": (1.0, 0.6)[seed % 2],
        "minibatch_frac": (1.0, 0.8)[seed // 2 % 2],
        "natural_gradient": bool(rng.random() < 0.8),
        "verbose": False,
        "random_state": seed,
    }


@pytest.mark.parametrize("seed", MODELS)
def test_parameters(seed):
    X, name = make_rows(seed), list(NAMES)[seed % len(NAMES)]
    y = signal(X) if name in {"Normal", "Laplace"} else np.exp(signal(X) / 4)
    model = ngboost.NGBRegressor(Dist=getattr(distns, name), **options(seed)).fit(X, y)
    forest = glasswood.load(model, check=X)
    assert forest.ensemble.outputs == NAMES[name]
    assert forest.objective == name
    check_rows(forest, model.pred_param, X)
    check_values(forest, model.pred_param, X)


@pytest.mark.parametrize("seed", MODELS)
def test_classes(seed):
    X, n_classes = make_rows(seed), 2 + seed % 3
    y = 5 + np.digitize(signal(X), np.quantile(signal(X), np.arange(1, n_classes) / n_classes))
    model = ngboost.NGBClassifier(Dist=distns.k_categorical(n_classes), **options(seed)).fit(X, y)
    forest = glasswood.load(model, check=X)
    check_rows(forest, None, X, predictions=model.predict, probabilities=model.predict_proba)
    check_values(forest, lambda rows: model.predict_proba(rows)[:, -forest.n_outputs :], X, output="probability")


def test_censored_times():
    X = make_rows(0)
    model = ngboost.NGBSurvival(Dist=distns.LogNormal, n_estimators=5, verbose=False)
    model.fit(X, np.exp(signal(X) / 4), np.arange(len(X)) % 4 > 0)
    forest = glasswood.load(model, check=X)
    assert forest.ensemble.outputs == ("loc", "log_scale")
    check_rows(forest, model.pred_param, X)


@pytest.mark.parametrize("parameter", [0, 1])
def test_values_are_those_of_shap(parameter):
    shap = pytest.importorskip("shap")
    X = make_rows(0)
    model = ngboost.NGBRegressor(**options(0)).fit(X, signal(X))
    expected = shap.TreeExplainer(model, model_output=parameter).shap_values(X[:20])
    np.testing.assert_allclose(glasswood.Explainer(model).shap_values(X[:20])[:, :, parameter], expected, atol=1e-5)


def test_bad_input():
    X = make_rows(0)
    with pytest.raises(NotFittedError, match="this NGBRegressor is not fitted; train it first"):
        glasswood.load(ngboost.NGBRegressor())
    ridge = ngboost.NGBRegressor(Base=Ridge(), n_estimators=2, verbose=False).fit(X, signal(X))
    with pytest.raises(
        NotImplementedError, match=r"NGBRegressor\(Base=Ridge\) is not supported; glasswood reads NGBoost"
    ):
        glasswood.load(ridge)
    model = ngboost.NGBRegressor(n_estimators=3, verbose=False).fit(X, signal(X))
    model.scalings = model.scalings[:-1]
    with pytest.raises(NotImplementedError, match=r"this layout of NGBoost .* is not read; upgrade glasswood"):
        glasswood.load(model)
    other = ngboost.NGBClassifier(n_estimators=2, verbose=False).fit(X, signal(X) > 0)
    other.Dist = distns.Normal
    with pytest.raises(
        NotImplementedError, match=r"NGBClassifier\(Dist=Normal\) is not supported; glasswood reads Bern"
    ):
        glasswood.load(other)
