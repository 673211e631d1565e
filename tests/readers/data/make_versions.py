"""Write small models of the installed XGBoost, LightGBM, CatBoost or H2O, and what that library itself says of rows.

Old versions run in environments of their own, without glasswood:

    python3.7 -m venv old && old/bin/pip install numpy==1.21.6 scipy==1.7.3 xgboost==0.90
    old/bin/python tests/readers/data/make_versions.py xgboost [logistic,softprob]

Python 3.7 takes XGBoost 0.80 to 1.6, LightGBM 2.0 to 3.3 and CatBoost 0.20 to 1.1; later ones run where glasswood does.
Training values are multiples of 1/4, so that thresholds are multiples of 1/8, and so are the rows that are predicted.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

import numpy as np

N_FEATURES = 4
NAMES = sys.argv[2].split(",") if len(sys.argv) > 2 else None
"""Models to write, of all below."""


def make_data():
    """Rows on a grid with missing values, and a signal of each kind; whole numbers in the last column."""
    rng = np.random.RandomState(0)
    X = np.round(rng.normal(size=(240, N_FEATURES)) * 4) / 4
    X[:, 3] = rng.randint(0, 9, 240)
    signal = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] % 3
    X[rng.rand(*X.shape) < 0.1] = np.nan
    edges = np.quantile(signal, [1 / 3, 2 / 3])
    return X, {
        "number": signal,
        "two": (signal > edges[0]) * 1.0,
        "three": np.digitize(signal, edges) * 1.0,
        "count": np.round(np.exp(signal / 3)),
    }


def make_rows():
    """Rows on a finer grid, where thresholds lie, and missing values."""
    rng = np.random.RandomState(1)
    rows = np.round(rng.normal(size=(60, N_FEATURES)) * 8) / 8
    rows[:, 3] = rng.randint(0, 10, 60)
    rows[rng.rand(*rows.shape) < 0.15] = np.nan
    return rows


def chosen(models):
    """Those that are asked for."""
    return [(name, model) for name, model in models.items() if NAMES is None or name in NAMES]


def store(path, X, **told):
    """Write what the library told beside its file."""
    np.savez_compressed(str(path) + ".npz", X=X, **{key: np.asarray(value) for key, value in told.items()})


def of_xgboost(folder):
    """Binary files up to 3.0, JSON from 1.0 on."""
    import xgboost

    version = tuple(int(part) for part in xgboost.__version__.split(".")[:2])
    X, targets = make_data()
    rows = xgboost.DMatrix(make_rows())
    squared = "reg:linear" if version < (0, 90) else "reg:squarederror"
    models = {
        "squared": ("number", {"objective": squared, "base_score": 0.7}),
        "logistic": ("two", {"objective": "binary:logistic", "base_score": 0.3}),
        "logitraw": ("two", {"objective": "binary:logitraw", "base_score": 0.3}),
        "softprob": ("three", {"objective": "multi:softprob", "num_class": 3}),
        "poisson": ("count", {"objective": "count:poisson", "base_score": 1.5}),
        "dart": ("number", {"objective": squared, "booster": "dart", "rate_drop": 0.6}),
    }
    suffixes = [".model"] * (version <= (3, 0)) + [".json"] * (version >= (1, 0))
    for name, (target, given) in chosen(models):
        model = xgboost.train(
            dict(given, max_depth=2, nthread=1, tree_method="exact"), xgboost.DMatrix(X, targets[target]), 3
        )
        model.set_attr(note="text")
        every = {"ntree_limit": 3} if version < (1, 0) and name == "dart" else {}  # without it trees are dropped
        told = {
            "margins": model.predict(rows, output_margin=True, **every),
            "predictions": model.predict(rows, **every),
        }
        told["leaves"] = model.predict(rows, pred_leaf=True).astype(np.int16)
        if name != "dart" or version >= (1, 0):  # which had no weights in them before
            told["contributions"] = model.predict(rows, pred_contribs=True, **every)
        for suffix in suffixes:
            path = folder / f"xgboost-{xgboost.__version__}-{name}{suffix}"
            if suffix == ".model" and version >= (2, 0):  # whose files of other suffixes are UBJSON since 2.1
                path.write_bytes(model.save_raw("deprecated"))
            else:
                model.save_model(str(path))
            store(path, make_rows(), **told)


def of_lightgbm(folder):
    """Text, and the dump that holds all of it."""
    import lightgbm

    X, targets = make_data()
    models = {
        "squared": ("number", {}),
        "binary": ("two", {"objective": "binary"}),
        "classes": ("three", {"objective": "multiclass", "num_class": 3}),
        "zeros": ("count", {"objective": "poisson", "zero_as_missing": True}),
        "sets": ("number", {"categorical_feature": [3], "min_data_per_group": 1, "cat_smooth": 1}),
        "forest": (
            "number",
            {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "feature_fraction": 0.9},
        ),
    }
    shared = {"num_leaves": 4, "min_data_in_leaf": 5, "verbose": -1, "num_threads": 1}
    for name, (target, given) in chosen(models):
        options = dict(given)
        categories = options.pop("categorical_feature", "auto")
        columns = X if categories == "auto" else np.nan_to_num(X)
        data = lightgbm.Dataset(columns, targets[target], categorical_feature=categories)
        model = lightgbm.train(dict(shared, **options), data, 3)
        rows = make_rows() if categories == "auto" else np.nan_to_num(make_rows())
        told = {
            "predictions": model.predict(rows),
            "leaves": model.predict(rows, pred_leaf=True).astype(np.int16),
        }
        if name != "forest":  # whose raw scores are sums
            told["margins"] = model.predict(rows, raw_score=True)
            if "pred_contrib" in inspect.signature(model.predict).parameters:  # since 2.1
                told["contributions"] = model.predict(rows, pred_contrib=True)
        version = str(lightgbm.__version__)
        path = folder / f"lightgbm-{version}-{name}.txt"
        model.save_model(str(path))
        store(path, rows, **told)
        if tuple(int(part) for part in version.split(".")[:2]) >= (2, 1):
            path = folder / f"lightgbm-{version}-{name}.json"
            path.write_text(json.dumps(model.dump_model()))
            store(path, rows, **told)


def of_catboost(folder):
    """CBM and JSON."""
    import catboost

    X, targets = make_data()
    models = {
        "squared": ("number", catboost.CatBoostRegressor, {}),
        "binary": ("two", catboost.CatBoostClassifier, {}),
        "classes": ("three", catboost.CatBoostClassifier, {"loss_function": "MultiClass"}),
        "depthwise": ("number", catboost.CatBoostRegressor, {"grow_policy": "Depthwise"}),
    }
    rows = make_rows()
    for name, (target, kind, given) in chosen(models):
        options = dict(
            iterations=3, depth=2, border_count=12, verbose=0, allow_writing_files=False, thread_count=1, **given
        )
        model = kind(**options).fit(X, targets[target])
        margins = catboost.CatBoost.predict(model, rows, prediction_type="RawFormulaVal")
        told = {"margins": margins}
        if name != "depthwise":
            told["contributions"] = model.get_feature_importance(catboost.Pool(rows), type="ShapValues")
        for suffix in ("cbm", "json"):
            path = folder / f"catboost-{catboost.__version__}-{name}.{suffix}"
            model.save_model(str(path), format=suffix)
            store(path, rows, **told)


WRITERS = {"xgboost": of_xgboost, "lightgbm": of_lightgbm, "catboost": of_catboost}

if __name__ == "__main__":
    (Path(__file__).parent / "versions").mkdir(exist_ok=True)
    WRITERS[sys.argv[1]](Path(__file__).parent / "versions")
