"""Small CatBoost models of every kind, with the rows that they were trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tests.oracles.cityhash import category_hash

if TYPE_CHECKING:
    from glasswood import Forest

N_ROWS = 300
COMMON = {"iterations": 12, "depth": 4, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
COLORS = (
    "red",
    "green",
    "blue",
    "grün",
    "",
    "a text of more than sixty-four bytes, which CityHash takes in blocks of 64",
)
UNSEEN = "never in training"


class Case(NamedTuple):
    model: Any
    rows: Any


def make_rows() -> Any:
    """Numerical columns: ties on a coarse grid, huge and tiny values; the last one has no gaps."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_ROWS, 5))
    X[:, 1] = np.round(X[:, 1] * 2) / 2
    X[:, 2] *= 1e-38
    X[:, 3] *= 1e6
    X[:, :4][rng.random((N_ROWS, 4)) < 0.12] = np.nan
    return X


def make_target(kind: str = "real") -> Any:
    X = make_rows()
    y = np.nansum(X / np.nanstd(X, axis=0), axis=1) + np.where(np.isnan(X[:, 0]), 3, 0)
    return {
        "real": y,
        "positive": np.abs(y),
        "binary": (y > 0).astype(int),
        "share": 1 / (1 + np.exp(-y)),
        "flags": y > 0,
        "texts": np.where(y > 0, "yes", "no"),
        "classes": np.digitize(y, [-1, 1]),
        "floats": np.array([-2.5, 0.5, 7.0])[np.digitize(y, [-1, 1])],
        "colors": np.array(["red", "green", "blue"])[np.digitize(y, [-1, 1])],
        "multi": np.column_stack([y, np.sin(y), -y]),
        "labels": np.column_stack([y > 0, np.sin(y) > 0, np.cos(y) > 0]).astype(int),
        "grades": np.digitize(y, [-1, 0, 1]),
    }[kind]


def train(kind: str = "CatBoost", target: str = "real", loss: str | None = None, **parameters: Any):
    """A model on the numerical rows."""

    def make() -> Case:
        import catboost

        given = {**COMMON, **parameters} | ({} if loss is None else {"loss_function": loss})
        model = catboost.CatBoost(given) if kind == "CatBoost" else getattr(catboost, kind)(**given)
        groups = {"group_id": np.arange(N_ROWS) // 20} if "Rank" in kind or "Query" in (loss or "") else {}
        X = make_rows()
        return Case(model.fit(X.copy(), make_target(target), **groups), X)

    return make


DEPTHWISE = {"grow_policy": "Depthwise"}
LOSSGUIDE = {"grow_policy": "Lossguide", "max_leaves": 12, "depth": 8}
MODELS: dict[str, Callable[[], Case]] = {
    "rmse": train(),
    "missing last": train(nan_mode="Max"),
    "one level": train(depth=1),
    "one tree": train(iterations=1),
    "deep": train(depth=10, iterations=3),
    "depth-wise": train(**DEPTHWISE),
    "depth-wise, missing last": train(**DEPTHWISE, nan_mode="Max"),
    "loss-guided": train(**LOSSGUIDE),
    "loss-guided, missing last": train(**LOSSGUIDE, nan_mode="Max"),
    "ordered boosting": train(boosting_type="Ordered"),
    "model shrinkage": train(model_shrink_rate=0.1),
    "coarse borders": train(border_count=3),
    "many borders": train(border_count=400, depth=6),
    "regressor": train("CatBoostRegressor"),
    "poisson": train(target="positive", loss="Poisson"),
    "poisson regressor": train("CatBoostRegressor", "positive", "Poisson"),
    "tweedie regressor": train("CatBoostRegressor", "positive", "Tweedie:variance_power=1.5"),
    "quantile": train("CatBoostRegressor", loss="Quantile:alpha=0.3"),
    "quantiles": train("CatBoostRegressor", loss="MultiQuantile:alpha=0.1,0.5,0.9"),
    "mae": train("CatBoostRegressor", loss="MAE"),
    "huber": train("CatBoostRegressor", loss="Huber:delta=1"),
    "several targets": train("CatBoostRegressor", "multi", "MultiRMSE"),
    "several targets, depth-wise": train("CatBoostRegressor", "multi", "MultiRMSE", **DEPTHWISE),
    "uncertainty": train("CatBoostRegressor", loss="RMSEWithUncertainty"),
    "log loss": train(target="binary", loss="Logloss"),
    "cross entropy": train(target="share", loss="CrossEntropy"),
    "classifier": train("CatBoostClassifier", "binary"),
    "classifier of flags": train("CatBoostClassifier", "flags", **LOSSGUIDE),
    "classifier of texts": train("CatBoostClassifier", "texts"),
    "classifier, cross entropy": train("CatBoostClassifier", "share", "CrossEntropy"),
    "classifier, focal": train("CatBoostClassifier", "binary", "Focal:focal_alpha=0.3;focal_gamma=1"),
    "classifier, two classes of many": train("CatBoostClassifier", "texts", "MultiClass"),
    "classes": train("CatBoostClassifier", "classes"),
    "classes, base class": train(target="classes", loss="MultiClass"),
    "classes, floats": train("CatBoostClassifier", "floats"),
    "classes, texts": train("CatBoostClassifier", "colors", **DEPTHWISE),
    "one versus all": train("CatBoostClassifier", "colors", "MultiClassOneVsAll"),
    "several labels": train("CatBoostClassifier", "labels", "MultiLogloss"),
    "several labels, cross entropy": train("CatBoostClassifier", "labels", "MultiCrossEntropy", **LOSSGUIDE),
    "ranker": train("CatBoostRanker", "grades", "YetiRank"),
    "query rmse": train(target="grades", loss="QueryRMSE"),
}


def make_frame() -> Any:
    """A number, texts, whole numbers, categories of pandas and flags."""
    import pandas as pd

    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "size": rng.normal(size=N_ROWS),
            "color": rng.choice(COLORS, N_ROWS),
            "code": rng.integers(-2, 4, N_ROWS),
            "kind": pd.Categorical(rng.choice(["x", "y", "z"], N_ROWS)),
            "spare": rng.choice(["u", "v"], N_ROWS),
        }
    )


def train_on_frame(**parameters: Any) -> Any:
    """A model whose categories are all tested by equality; the last column is tested nowhere."""
    import catboost

    frame = make_frame()
    y = frame["size"] + 2 * (frame["color"] == "red") + (frame["color"] == "grün") + 3 * (frame["code"] == -2)
    y += 2 * (frame["kind"] == "y") + (frame["code"] > 1) + 2 * (frame["color"] == COLORS[-1])
    names = [name for name in frame if name != "size"]
    given = {**COMMON, "iterations": 30, "one_hot_max_size": 255, "cat_features": names, "ignored_features": ["spare"]}
    given |= parameters
    return catboost.CatBoostRegressor(**given).fit(frame, y)


def to_values(forest: Forest, codes: Any) -> Any:
    """Rows of objects for rows of numbers whose categories are the forest's codes, and those codes made whole."""
    known = [set(map(str, column)) for column in make_frame().astype(object).to_numpy().T]
    values, codes = np.array(codes, object), np.array(codes)
    for feature, table in enumerate(forest.ensemble.categories):
        if table is None:
            continue
        texts = {category_hash(text): text for text in known[feature]}
        column = codes[:, feature]
        is_known = (column >= 0) & (column < len(table)) & (column == np.floor(column))
        codes[~is_known, feature] = len(table)
        values[:, feature] = [
            texts[int(table[int(c)])] if ok else UNSEEN for c, ok in zip(column, is_known, strict=True)
        ]
    return values, codes


def to_codes(forest: Forest, frame: Any) -> Any:
    """The forest's codes for the rows of a frame; values that no split tests get the first code beyond."""
    codes = np.zeros(frame.shape)
    for feature, table in enumerate(forest.ensemble.categories):
        column = frame.iloc[:, feature]
        if table is None:
            codes[:, feature] = column
        else:
            places = {number: at for at, number in enumerate(table.tolist())}
            codes[:, feature] = [places.get(category_hash(str(value)), len(table)) for value in column]
    return codes
