"""imodels: hierarchical shrinkage, and sums of trees."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, tree
from sklearn.exceptions import NotFittedError
from tests.readers.forests import MODELS, check_rows, check_values, make_rows, signal

import glasswood

imodels = pytest.importorskip("imodels")
pytestmark = pytest.mark.filterwarnings("ignore")


def labels(X, seed):
    return np.digitize(signal(X), [0.5] if seed % 2 else [0, 1.5]) * 10


@pytest.mark.parametrize("seed", MODELS)
def test_shrunk_trees(seed):
    X = make_rows(seed)
    wrapped = (
        tree.DecisionTreeRegressor(max_depth=4),
        ensemble.RandomForestRegressor(5, max_depth=4, random_state=seed),
        ensemble.GradientBoostingRegressor(n_estimators=5, random_state=seed),
    )[seed % 3]
    scheme = ("node_based", "leaf_based", "constant")[seed % 3]
    model = imodels.HSTreeRegressor(wrapped, reg_param=seed, shrinkage_scheme_=scheme).fit(X, signal(X))
    forest = glasswood.load(model, check=X)
    assert forest.source.startswith("imodels")
    check_rows(forest, model.predict, X)
    check_values(forest, model.predict, X)


@pytest.mark.parametrize("seed", MODELS)
def test_shrunk_classifiers(seed):
    X = make_rows(seed)
    wrapped = (tree.DecisionTreeClassifier(max_depth=4), ensemble.RandomForestClassifier(5, max_depth=4))[seed % 2]
    model = imodels.HSTreeClassifier(wrapped, reg_param=seed).fit(X, labels(X, seed))
    forest = glasswood.load(model, check=X)
    shrunk = model.estimator_.predict_proba  # the model's own clips what rounding has left below 0
    check_rows(forest, shrunk, X, predictions=model.predict, probabilities=model.predict_proba)
    check_values(forest, shrunk, X)


@pytest.mark.parametrize("seed", MODELS)
def test_sums_of_trees(seed):
    X = make_rows(seed)
    model = imodels.FIGSRegressor(max_rules=2 + 2 * seed, random_state=seed)
    model.fit(X, signal(X), sample_weight=1.0 + np.arange(len(X)) % 3)
    forest = glasswood.load(model, check=X)
    assert forest.n_trees == len(model.trees_)
    assert forest.ensemble.cover[0] == pytest.approx((1.0 + np.arange(len(X)) % 3).sum())
    check_rows(forest, model.predict, X)
    check_values(forest, model.predict, X)


@pytest.mark.parametrize("seed", MODELS)
def test_classifying_sums_of_trees(seed):
    X = make_rows(seed)
    model = imodels.FIGSClassifier(max_rules=2 + seed, random_state=seed).fit(X, labels(X, seed))
    forest = glasswood.load(model, check=X)
    margins = lambda rows: sum(model._predict_tree(root, rows) for root in model.trees_)  # noqa: E731
    check_rows(forest, margins, X, predictions=model.predict, probabilities=model.predict_proba)
    check_values(forest, model.predict_proba, X, output="probability")


def test_several_targets_searches_and_names():
    X = pd.DataFrame(make_rows(0), columns=list("abcd"))
    y = signal(X.to_numpy())
    model = imodels.FIGSRegressor(max_rules=5).fit(X, np.column_stack([y, -y]))
    assert glasswood.load(model, check=X).feature_names == tuple("abcd")
    search = imodels.FIGSRegressorCV(n_rules_list=[5], n_trees_list=[5], depth_list=[3]).fit(X, y)
    assert glasswood.load(search, check=X).n_trees == len(search.figs.trees_)
    shrunk = imodels.HSTreeRegressorCV(reg_param_list=[1, 10]).fit(X, y)
    assert glasswood.load(shrunk, check=X).feature_names == tuple("abcd")


def test_bad_input():
    for kind in (imodels.HSTreeRegressor, imodels.FIGSRegressor, imodels.FIGSRegressorCV):
        with pytest.raises(NotFittedError):
            glasswood.load(kind())
    X = pd.DataFrame({"a": make_rows(0)[:, 0], "b": np.where(make_rows(0)[:, 1] > 0, "x", "y")})
    model = imodels.FIGSRegressor(max_rules=3).fit(X, signal(make_rows(0)), categorical_features=["b"])
    with pytest.raises(NotImplementedError, match=r"FIGSRegressor.fit\(categorical_features=...\) encodes columns"):
        glasswood.load(model)
    with pytest.raises(TypeError, match=r"got RuleFitRegressor of imodels, expected HSTreeRegressor, "):
        glasswood.load(imodels.RuleFitRegressor())
    model = imodels.FIGSRegressor(max_rules=3).fit(make_rows(0), signal(make_rows(0)))
    for root in model.trees_:
        del root.value_sklearn
    with pytest.raises(NotImplementedError, match=r"this layout of imodels .* is not read; upgrade glasswood"):
        glasswood.load(model)
