"""Small models of every library that glasswood reads, with the rows that they were trained on."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import glasswood
from tests.readers import catboost_models, lightgbm_models, onnx_models, sklearn_models, xgboost_models

FEW = {"n_estimators": 5, "max_depth": 4, "random_state": 0}
HISTOGRAMS = {"max_iter": 5, "max_depth": 4, "min_samples_leaf": 5}


class Model(NamedTuple):
    """A model, and rows for it."""

    model: Any
    rows: Any


def of_xgboost(name: str) -> Model:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*booster=(dart|gblinear).*deprecated", UserWarning)
        return Model(*xgboost_models.BOOSTERS[name]()[:2])


def of_lightgbm(name: str) -> Model:
    data = lightgbm_models.make_data()
    rows = data[0].copy()
    rows[~(rows[:, 4] >= 0), 4] = np.nan
    return Model(lightgbm_models.train(data, lightgbm_models.BOOSTERS[name], 8), rows)


def of_catboost(name: str) -> Model:
    return Model(*catboost_models.MODELS[name]())


def of_treelite(make: Callable[[], Model], library: str) -> Model:
    import treelite

    model, rows = make()
    return Model(getattr(treelite.frontend, f"from_{library}")(model), rows)


def of_onnx(name: str) -> Model:
    data = onnx_models.make_data()
    return Model(onnx_models.from_sklearn(name, data), data[0].astype(np.float32).astype(np.float64))


def of_onnx_operator(post_transform: str, n_classes: int) -> Model:
    """A classifier whose scores no converter of scikit-learn's models writes."""
    trees = onnx_models.random_trees(3, n_trees=5)
    few = {"weights": lambda rng, n: rng.uniform(0.02, 0.18, n)} if post_transform == "PROBIT" else {}
    classes = {"classlabels_int64s": list(range(n_classes)), "post_transform": post_transform}
    model = onnx_models.by_number("Classifier", trees, ["BRANCH_LEQ"], n_outputs=n_classes, **few, **classes)
    return Model(model, onnx_models.make_data()[0].astype(np.float32).astype(np.float64))


def of_estimator(make: Callable[[], Any], kind: str, has_gaps: bool = False) -> Model:
    """A fitted estimator of scikit-learn's interface."""
    X = sklearn_models.make_rows()
    y = sklearn_models.make_target(X)
    X = sklearn_models.with_holes(X) if has_gaps else X
    target = {
        "number": y,
        "pair": np.column_stack([y, y**2]),
        "positive": np.abs(y),
        "two": sklearn_models.two(y),
        "three": sklearn_models.three(y),
        "labels": np.column_stack([y > 1, y > 2, X[:, 1] > 0]).astype(int),
    }[kind]
    return Model(make().fit(X, target), X)


def of_sklearn(module: str, name: str, kind: str, has_gaps: bool = False, **parameters: Any) -> Model:
    import sklearn.ensemble
    import sklearn.tree

    return of_estimator(lambda: getattr(getattr(sklearn, module), name)(**parameters), kind, has_gaps)


def voting() -> Model:
    from sklearn import ensemble, tree

    members = [("a", tree.DecisionTreeClassifier(max_depth=3)), ("b", ensemble.RandomForestClassifier(**FEW))]
    return of_estimator(lambda: ensemble.VotingClassifier(members, voting="soft"), "three")


def of_glasswood(name: str, kind: str, **parameters: Any) -> Model:
    few = {"max_leaves": 3, "n_iter_no_change": 3, "n_jobs": 1, "verbose": False}
    return of_estimator(lambda: getattr(glasswood, name)(**few, **parameters), kind)


ONNX_CLASSIFIERS = ("SOFTMAX", "SOFTMAX_ZERO", "LOGISTIC", "PROBIT", "NONE")
ENSEMBLE, HIST = partial(of_sklearn, "ensemble"), "HistGradientBoosting"
MODELS: dict[str, Callable[[], Model]] = {
    **{f"XGBoost: {name}": partial(of_xgboost, name) for name in xgboost_models.BOOSTERS},
    **{f"LightGBM: {name}": partial(of_lightgbm, name) for name in lightgbm_models.BOOSTERS},
    **{f"CatBoost: {name}": partial(of_catboost, name) for name in catboost_models.MODELS},
    **{f"ONNX: {name}": partial(of_onnx, name) for name in onnx_models.SKLEARN},
    **{f"ONNX: {name}, {k}": partial(of_onnx_operator, name, k) for name in ONNX_CLASSIFIERS for k in (2, 4)},
    **{
        f"treelite: {name} of XGBoost": partial(of_treelite, partial(of_xgboost, name), "xgboost")
        for name in ("logistic", "softprob", "poisson", "hinge")
    },
    **{
        f"treelite: {name} of LightGBM": partial(of_treelite, partial(of_lightgbm, name), "lightgbm")
        for name in ("binary, sigmoid", "multi-class", "one versus all", "square root", "cross entropy lambda")
    },
    "scikit-learn: tree": partial(of_sklearn, "tree", "DecisionTreeClassifier", "three", max_depth=4),
    "scikit-learn: tree of labels": partial(of_sklearn, "tree", "DecisionTreeClassifier", "labels", max_depth=4),
    "scikit-learn: tree of pairs": partial(of_sklearn, "tree", "DecisionTreeRegressor", "pair", max_depth=4),
    "scikit-learn: forest": partial(ENSEMBLE, "RandomForestClassifier", "three", has_gaps=True, **FEW),
    "scikit-learn: forest of labels": partial(ENSEMBLE, "RandomForestClassifier", "labels", **FEW),
    "scikit-learn: forest of pairs": partial(ENSEMBLE, "RandomForestRegressor", "pair", **FEW),
    "scikit-learn: extra trees": partial(ENSEMBLE, "ExtraTreesClassifier", "two", **FEW),
    "scikit-learn: isolation forest": partial(ENSEMBLE, "IsolationForest", "number", n_estimators=5, random_state=0),
    "scikit-learn: gradient boosting": partial(ENSEMBLE, "GradientBoostingClassifier", "two", **FEW),
    "scikit-learn: exponential": partial(ENSEMBLE, "GradientBoostingClassifier", "two", loss="exponential", **FEW),
    "scikit-learn: gradient boosting, classes": partial(ENSEMBLE, "GradientBoostingClassifier", "three", **FEW),
    "scikit-learn: histograms": partial(ENSEMBLE, HIST + "Classifier", "two", has_gaps=True, **HISTOGRAMS),
    "scikit-learn: histograms, classes": partial(ENSEMBLE, HIST + "Classifier", "three", has_gaps=True, **HISTOGRAMS),
    "scikit-learn: Poisson": partial(ENSEMBLE, HIST + "Regressor", "positive", loss="poisson", **HISTOGRAMS),
    "scikit-learn: Gamma": partial(ENSEMBLE, HIST + "Regressor", "positive", loss="gamma", **HISTOGRAMS),
    "scikit-learn: bagging": partial(ENSEMBLE, "BaggingClassifier", "three", n_estimators=4, random_state=0),
    "scikit-learn: voting": voting,
    "glasswood: regressor": partial(of_glasswood, "ModelTreeRegressor", "number"),
    "glasswood: two classes": partial(of_glasswood, "ModelTreeClassifier", "two"),
    "glasswood: classes": partial(of_glasswood, "ModelTreeClassifier", "three"),
    "glasswood: constant leaves": partial(of_glasswood, "ModelTreeClassifier", "two", leaf_model="constant"),
}
MODELS = {name: functools.cache(make) for name, make in MODELS.items()}  # several tests ask for each


def classifier(library: str, n_classes: int) -> Model:
    """A boosted classifier of so many classes."""
    X = sklearn_models.make_rows()
    y = np.digitize(sklearn_models.make_target(X), np.linspace(0.5, 3.5, n_classes - 1))
    if library == "XGBoost":
        import xgboost

        return Model(xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y), X)
    if library == "LightGBM":
        import lightgbm

        few = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1, "min_child_samples": 5, "verbose": -1}
        return Model(lightgbm.LGBMClassifier(**few).fit(X, y), X)
    if library == "CatBoost":
        import catboost

        few = {**catboost_models.COMMON, "iterations": 5, "depth": 3}
        return Model(catboost.CatBoostClassifier(**few).fit(X, y), X)
    from sklearn import ensemble

    if library == "forest of scikit-learn":
        return Model(ensemble.RandomForestClassifier(**FEW).fit(X, y), X)
    return Model(ensemble.HistGradientBoostingClassifier(**HISTOGRAMS).fit(X, y), X)
