"""Small models of every kind that XGBoost trains, with the rows that they were trained on (categories as codes)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

N_ROWS = 300
N_CATEGORIES = (4, 40)


class Case(NamedTuple):
    model: Any
    rows: Any
    feature_types: list[str] | None = None


def make_rows() -> Any:
    """Five numerical columns: ties on a coarse grid, tiny and huge values, and gaps."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N_ROWS, 5))
    X[:, 1] = np.round(X[:, 1] * 2) / 2
    X[:, 2] *= 1e-38
    X[:, 3] *= 1e6
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def make_target(X: Any, kind: str = "real") -> Any:
    rng = np.random.default_rng(8)
    y = np.nansum(X / np.nanstd(X, axis=0), axis=1) + np.where(np.isnan(X[:, 0]), 3, 0) + rng.normal(size=len(X)) / 4
    return {
        "real": y,
        "positive": np.exp(y / 4),
        "count": np.floor(np.exp(y / 4)),
        "binary": (y > 0).astype(int),
        "classes": np.digitize(y, [-1, 1]),
        "multi": np.column_stack([y, -y + np.nan_to_num(X[:, 1]), np.sin(y)]),
        "labels": np.column_stack([y > 0, np.sin(y) > 0]).astype(int),
        "signed": np.where(y > 0, 1, -1) * np.exp(np.abs(y) / 4),
    }[kind]


def make_categories() -> Any:
    """Two numerical columns and two of codes, few (one-hot splits) and many (partitions)."""
    rng = np.random.default_rng(9)
    X = np.column_stack([rng.normal(size=(N_ROWS, 2)), *(rng.integers(0, n, N_ROWS) for n in N_CATEGORIES)])
    X[rng.random(X.shape) < 0.05] = np.nan
    return X


def categorical_target(X: Any) -> Any:
    few, many = np.nan_to_num(X[:, 2]), np.nan_to_num(X[:, 3])
    return np.nan_to_num(X[:, 0]) + np.array([0, 3, -1, 1])[few.astype(int)] + (many * 7 % 5)


def train(objective: str, kind: str = "real", rounds: int = 12, data: dict[str, Any] | None = None, **parameters: Any):
    """A Booster on the numerical rows."""

    def make() -> Case:
        import xgboost

        X = make_rows()
        target = {"label": make_target(X, kind)} if data is None else data
        matrix = xgboost.DMatrix(X, **target)
        given = {"objective": objective, "max_depth": 3, "nthread": 1, "tree_method": "hist", **parameters}
        return Case(xgboost.train(given, matrix, rounds), X)

    return make


def categorical(rounds: int = 10, **parameters: Any):
    """A Booster on rows of numbers and category codes."""

    def make() -> Case:
        import xgboost

        X, types = make_categories(), ["float", "float", "c", "c"]
        matrix = xgboost.DMatrix(X, label=categorical_target(X), feature_types=types, enable_categorical=True)
        given = {"max_depth": 4, "nthread": 1, "tree_method": "hist", **parameters}
        return Case(xgboost.train(given, matrix, rounds), X, types)

    return make


def survival() -> dict[str, Any]:
    y = make_target(make_rows(), "positive")
    return {"label_lower_bound": y, "label_upper_bound": np.where(np.arange(N_ROWS) % 3, y, np.inf)}


def ranking() -> dict[str, Any]:
    return {"label": make_target(make_rows(), "classes"), "group": [30] * 10}


def asymmetric(predictions: Any, matrix: Any) -> Any:
    """A custom objective: squared error that counts twice below the label."""
    error = np.asarray(predictions).reshape(-1) - matrix.get_label()
    weight = np.where(error < 0, 2.0, 1.0)
    return weight * error, weight


def custom() -> Case:
    import xgboost

    X = make_rows()
    matrix = xgboost.DMatrix(X, label=make_target(X))
    return Case(xgboost.train({"max_depth": 3, "nthread": 1}, matrix, 10, obj=asymmetric), X)


def pruned() -> Case:
    """Nodes that the pruner deleted stay in the document."""
    return train("reg:squarederror", max_depth=6, tree_method="exact", gamma=20.0)()


def sliced() -> Case:
    case = train("multi:softprob", "classes", num_class=3)()
    return case._replace(model=case.model[2:5])


FOREST = {"num_parallel_tree": 4, "subsample": 0.6, "learning_rate": 1.0}
DART = {"booster": "dart", "rate_drop": 0.5, "seed": 3}
BOOSTERS: dict[str, Callable[[], Case]] = {
    "squared error": train("reg:squarederror"),
    "one stump": train("reg:squarederror", rounds=1, max_depth=1),
    "no split": train("reg:squarederror", rounds=2, min_child_weight=1e6),
    "deep": train("reg:squarederror", max_depth=12, min_child_weight=0),
    "leaf-wise": train("reg:squarederror", grow_policy="lossguide", max_leaves=20, max_depth=0),
    "exact": train("reg:squarederror", tree_method="exact"),
    "approx": train("reg:squarederror", tree_method="approx"),
    "pruned": pruned,
    "sliced": sliced,
    "absolute error": train("reg:absoluteerror"),
    "squared log error": train("reg:squaredlogerror", "positive"),
    "pseudo-Huber": train("reg:pseudohubererror"),
    "one quantile": train("reg:quantileerror", quantile_alpha=0.3),
    "quantiles": train("reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9]),
    "logistic": train("binary:logistic", "binary"),
    "logistic, base score": train("binary:logistic", "binary", base_score=0.2),
    "logistic regression": train("reg:logistic", "binary"),
    "logistic, raw": train("binary:logitraw", "binary"),
    "hinge": train("binary:hinge", "binary"),
    "softmax": train("multi:softmax", "classes", num_class=3),
    "softprob": train("multi:softprob", "classes", num_class=3),
    "softprob, base score": train("multi:softprob", "classes", num_class=3, base_score=0.5),
    "softprob forest": train("multi:softprob", "classes", num_class=3, rounds=2, **FOREST),
    "targets": train("reg:squarederror", "multi"),
    "vector leaves": train("reg:squarederror", "multi", multi_strategy="multi_output_tree"),
    "vector softprob": train("multi:softprob", "classes", num_class=3, multi_strategy="multi_output_tree"),
    "labels": train("binary:logistic", "labels"),
    "poisson": train("count:poisson", "count"),
    "gamma": train("reg:gamma", "positive", base_score=0.7),
    "tweedie": train("reg:tweedie", "count"),
    "cox": train("survival:cox", "signed"),
    "aft": train("survival:aft", data=survival(), base_score=0.7),
    "rank pairwise": train("rank:pairwise", data=ranking()),
    "rank ndcg": train("rank:ndcg", data=ranking()),
    "rank map": train("rank:map", data={**ranking(), "label": make_target(make_rows(), "binary")}),
    "dart": train("reg:squarederror", **DART),
    "dart softprob": train("multi:softprob", "classes", num_class=3, **DART),
    "random forest": train("reg:squarederror", rounds=1, **FOREST),
    "boosted forest": train("binary:logistic", "binary", rounds=4, **FOREST),
    "custom objective": custom,
    "one-hot": categorical(max_cat_to_onehot=100),
    "partition": categorical(max_cat_to_onehot=1),
    "partition, approx": categorical(tree_method="approx", max_cat_to_onehot=5),
    "categories, dart": categorical(booster="dart", rate_drop=0.3),
}


def estimator(kind: str, target: str = "real", rows: Any = None, **parameters: Any):
    """A fitted estimator of scikit-learn's interface."""

    def make() -> Case:
        import xgboost

        X = make_rows() if rows is None else rows()
        given = {"n_estimators": 10, "max_depth": 3, "n_jobs": 1, **parameters}
        model = getattr(xgboost, kind)(**given)
        y, n_training, options = make_target(make_rows(), target), N_ROWS, {}
        if kind == "XGBRanker":
            options = {"group": [30] * 10}
        elif "early_stopping_rounds" in parameters:
            n_training = 200
            options = {"eval_set": [(X[n_training:], y[n_training:])], "verbose": False}
        return Case(model.fit(X[:n_training], y[:n_training], **options), X)

    return make


def marked(marker: float):
    """Rows whose missing entries are a number, apart from some NaN."""

    def make() -> Any:
        X = make_rows()
        X[np.isnan(X) & (np.arange(len(X)) % 4 > 0)[:, None]] = marker
        return X

    return make


def relative(labels: Any, predictions: Any) -> Any:
    """A custom objective of scikit-learn's interface."""
    return predictions - labels, np.full(len(labels), 1.5)


STOPPED = {"n_estimators": 30, "early_stopping_rounds": 2, "learning_rate": 0.9}
ESTIMATORS: dict[str, Callable[[], Case]] = {
    "regressor": estimator("XGBRegressor"),
    "regressor, stopped": estimator("XGBRegressor", **STOPPED),
    "regressor, custom objective": estimator("XGBRegressor", objective=relative),
    "regressor, targets": estimator("XGBRegressor", "multi"),
    "poisson, stopped": estimator("XGBRegressor", "count", objective="count:poisson", **STOPPED),
    "missing -999": estimator("XGBRegressor", rows=marked(-999.0), missing=-999.0),
    "missing 0": estimator("XGBRegressor", rows=marked(0.0), missing=0),
    "missing 0.1": estimator("XGBClassifier", "binary", rows=marked(0.1), missing=0.1),
    "classifier": estimator("XGBClassifier", "binary"),
    "classifier, stopped": estimator("XGBClassifier", "binary", **STOPPED),
    "classes": estimator("XGBClassifier", "classes"),
    "classes, stopped": estimator("XGBClassifier", "classes", num_parallel_tree=2, **STOPPED),
    "classes, softmax": estimator("XGBClassifier", "classes", objective="multi:softmax"),
    "labels": estimator("XGBClassifier", "labels"),
    "hinge": estimator("XGBClassifier", "binary", objective="binary:hinge"),
    "logistic, raw": estimator("XGBClassifier", "binary", objective="binary:logitraw"),
    "dart, stopped": estimator("XGBClassifier", "classes", **STOPPED, booster="dart", rate_drop=0.3, random_state=1),
    "forest regressor": estimator("XGBRFRegressor", num_parallel_tree=None),
    "forest classifier": estimator("XGBRFClassifier", "classes"),
    "ranker": estimator("XGBRanker", "classes"),
}
