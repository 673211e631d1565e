"""Causal and uplift trees and forests of causalml. They need the environment of `make test-others`."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.readers.forests import MODELS, check_rows, check_values, make_rows, signal
from tests.readers.sklearn_models import with_holes

import glasswood

causal = pytest.importorskip("causalml.inference.tree", reason="needs xgboost, not xgboost-cpu: make test-others")
pytestmark = pytest.mark.filterwarnings("ignore")


def trial(X, seed, n_treatments=2):
    rng = np.random.default_rng(seed)
    treatment = rng.integers(0, 1 + n_treatments, len(X))
    return treatment, signal(X) * (treatment == 1) + X[:, 0] * (treatment == 2) + 0.1 * rng.normal(size=len(X))


def random_options(seed):
    rng = np.random.default_rng(seed)
    return {"max_depth": int(rng.integers(2, 6)), "min_samples_leaf": 8, "random_state": seed}


@pytest.mark.parametrize("seed", MODELS)
def test_effects(seed):
    X = make_rows(seed)
    treatment, y = trial(X, seed, 1 + seed % 2)
    if seed % 3:
        model = causal.CausalRandomForestRegressor(control_name=0, n_estimators=1 + seed, **random_options(seed))
    else:
        model = causal.CausalTreeRegressor(control_name=0, **random_options(seed))
    model.fit(X, treatment, y)
    forest = glasswood.load(model, check=X)
    assert forest.ensemble.outputs == (("1", "2") if seed % 2 else ())
    check_rows(forest, model.predict, X)
    check_values(forest, model.predict, X)
    model.predict(X, with_outcomes=True)  # which shows them from now on
    assert glasswood.load(model, check=X).n_outputs == forest.n_outputs


@pytest.mark.parametrize("seed", MODELS)
def test_uplift(seed):
    X = make_rows(seed)
    treatment, y = trial(X, seed)
    named = np.array(["none", "a", "b"])[treatment]
    options = {"control_name": "none", "evaluationFunction": ("KL", "ED", "Chi")[seed % 3], **random_options(seed)}
    if seed % 2:
        model = causal.UpliftRandomForestClassifier(n_estimators=1 + seed, **options)
    else:
        model = causal.UpliftTreeClassifier(**options)
    model.fit(X, named, (y > 0).astype(int))
    forest = glasswood.load(model, check=X)
    assert forest.output_names == (("a", "b") if seed % 2 else ("none", "a", "b"))
    check_rows(forest, model.predict, X)
    check_values(forest, model.predict, X)


def test_missing_values():
    X = with_holes(make_rows(0))
    treatment, y = trial(make_rows(0), 0)
    model = causal.CausalRandomForestRegressor(control_name=0, n_estimators=5, **random_options(0))
    forest = glasswood.load(model.fit(X, treatment, y), check=X)
    assert forest.ensemble.nan_allowed
    check_rows(forest, model.predict, X)


def test_values_are_those_of_shap():
    shap = pytest.importorskip("shap")
    X = make_rows(0)
    treatment, y = trial(X, 0, 1)
    model = causal.CausalTreeRegressor(control_name=0, **random_options(0)).fit(X, treatment, y)
    theirs = np.asarray(shap.TreeExplainer(model).shap_values(X[:20]))  # of the outcomes by group
    np.testing.assert_allclose(
        glasswood.Explainer(model).shap_values(X[:20]), theirs[..., 1] - theirs[..., 0], atol=1e-5
    )


def test_bad_input():
    for kind in (causal.CausalTreeRegressor, causal.CausalRandomForestRegressor):
        with pytest.raises(NotFittedError):
            glasswood.load(kind())
    for kind in (causal.UpliftTreeClassifier, causal.UpliftRandomForestClassifier):
        with pytest.raises(NotFittedError):
            glasswood.load(kind(control_name="c"))
    meta = pytest.importorskip("causalml.inference.meta")
    with pytest.raises(TypeError, match="got BaseSRegressor of causalml, expected one of CausalTreeRegressor, "):
        glasswood.load(meta.BaseSRegressor())
    X = make_rows(0)
    treatment, y = trial(X, 0)
    model = causal.CausalTreeRegressor(control_name=0, **random_options(0)).fit(X, treatment, y)
    model.unique_treatments = [1, 2, 3]
    with pytest.raises(NotImplementedError, match=r"this layout of causalml .* is not read; upgrade glasswood"):
        glasswood.load(model)
