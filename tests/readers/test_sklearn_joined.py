"""Searches, voting and bagging of scikit-learn against their own predictions."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble, tree
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    StandardScaler,
)
from tests.readers.sklearn_cases import check, columns, make_data

import glasswood


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_searches_predict_as_what_they_have_chosen(search, data):
    X, y = data
    grid = {"trees__max_depth": [1, 3]}
    options = {"n_iter": 2} if search is RandomizedSearchCV else {}
    pipeline = Pipeline([("columns", columns()), ("trees", tree.DecisionTreeRegressor())])
    model = search(pipeline, grid, cv=2, **options)
    with pytest.raises(ValueError, match="it is not fitted"):
        glasswood.load(model)
    check(model.fit(X, y), X)
    alone = search(xgboost.XGBRegressor(n_estimators=3), {"max_depth": [1, 2]}, cv=2, refit=False, **options)
    with pytest.raises(ValueError, match="refit=False it keeps no model"):
        glasswood.load(alone.fit(X[["age"]], y))
    alone.refit = True
    check(alone.fit(X[["age"]], y), X[["age"]])


def numbers_of(data):
    X, y = data
    return X[["age", "income"]].fillna(0).to_numpy(), y


def test_voting_regressors(data):
    X, y = numbers_of(data)
    members = [
        ("forest", ensemble.RandomForestRegressor(3, random_state=0)),
        ("boosting", ensemble.GradientBoostingRegressor(n_estimators=4)),
        ("xgboost", xgboost.XGBRegressor(n_estimators=4)),
        ("dropped", "drop"),
    ]
    for weights in (None, [1, 2.5, 0.5, 7]):
        check(ensemble.VotingRegressor(members[:2] + members[3:], weights=weights and [1, 2.5, 7]).fit(X, y), X)
    with pytest.raises(NotImplementedError, match="estimators that compare differently"):
        glasswood.load(
            ensemble.VotingRegressor([members[0], ("hist", ensemble.HistGradientBoostingRegressor())]).fit(X, y)
        )
    alike = [("one", lightgbm.LGBMRegressor(n_estimators=3, verbose=-1)), ("two", lightgbm.LGBMRegressor(verbose=-1))]
    check(ensemble.VotingRegressor(alike, weights=[3, 1]).fit(X, y), X)


def test_voting_classifiers(data):
    X, y = numbers_of(data)
    labels = np.array(["x", "y", "z"])[np.digitize(y, [5, 7])]
    members = [
        ("trees", ensemble.ExtraTreesClassifier(4, random_state=0)),
        ("tree", tree.DecisionTreeClassifier(max_depth=3)),
    ]
    model = ensemble.VotingClassifier(members, voting="soft", weights=[2, 1]).fit(X, labels)
    forest = check(model, X)
    np.testing.assert_allclose(forest.predict(X, output="probability"), model.predict_proba(X), atol=1e-12)
    explainer = glasswood.Explainer(model, dtype="float64")
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, model.predict_proba(X), atol=1e-10)
    with pytest.raises(NotImplementedError, match="counts labels"):
        glasswood.load(ensemble.VotingClassifier(members).fit(X, labels))
    boosted = [*members, ("boosting", ensemble.GradientBoostingClassifier(n_estimators=2))]
    with pytest.raises(NotImplementedError, match="averages responses, which are not sums of trees"):
        glasswood.load(ensemble.VotingClassifier(boosted, voting="soft").fit(X, labels))


@pytest.mark.parametrize(
    "estimator",
    [
        ensemble.GradientBoostingRegressor(n_estimators=3),
        lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, zero_as_missing=True),
        xgboost.XGBRegressor(n_estimators=3),
        ensemble.HistGradientBoostingRegressor(max_iter=3),
    ],
    ids=lambda one: type(one).__name__,
)
def test_bagging_of_boosting(estimator, data):
    X, y = numbers_of(data)
    X = np.column_stack([X, X[::-1]])
    model = ensemble.BaggingRegressor(estimator, n_estimators=3, max_features=3, random_state=0).fit(X, y)
    forest = check(model, X)
    assert forest.n_features == 4


REFUSED = {
    "stacking": (
        ensemble.StackingRegressor([("tree", tree.DecisionTreeRegressor(max_depth=2))], LinearRegression(), cv=2),
        TypeError,
        "StackingRegressor.*not a tree ensemble",
    ),
    "calibration": (
        CalibratedClassifierCV(tree.DecisionTreeClassifier(max_depth=2), cv=2),
        TypeError,
        r"CalibratedClassifierCV.*model\.calibrated_classifiers_",
    ),
    "target": (TransformedTargetRegressor(tree.DecisionTreeRegressor(max_depth=2)), TypeError, r"model\.regressor_"),
    "AdaBoost": (ensemble.AdaBoostRegressor(n_estimators=2), NotImplementedError, "weighted median"),
    "linear": (make_pipeline(StandardScaler(), LinearRegression()), TypeError, "LinearRegression"),
    "transformer": (make_pipeline(StandardScaler()), TypeError, "predicts nothing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_sum_of_trees_is_refused_by_name(name, data):
    model, kind, message = REFUSED[name]
    X, y = numbers_of(data)
    model.fit(X, y > 6 if name == "calibration" else y)
    with pytest.raises(kind, match=message):
        glasswood.load(model)
