"""Random models of every library, each with what the library says of rows.

Two oracles have fooled others. CatBoost numbers the leaves of trees that are not oblivious anew when it loads JSON: a
model's JSON is compared with what CatBoost says after loading it, not with the live model. LightGBM's raw scores (and
`pred_contrib`) of random forests are sums, though its predictions average before the link: glasswood's margin is the
mean.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import glasswood
from tests.differential.data import codes, numbers, pick, target


class Case(NamedTuple):
    """A model with its forest; `expect(rows)` returns leaves, margins, predictions, probabilities by name."""

    what: str
    forest: glasswood.Forest
    rows: Any
    expect: Any
    sums: str = "float64"
    allow_inf: bool = True
    largest: float = np.inf


def classes_of(y, n_classes):
    return np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


def xgboost(rng):
    """A Booster, live or from one of its two files; DMatrix refuses infinity."""
    import xgboost as xgb

    n_codes = pick(rng, (0, 0, 1, 3))
    X = numbers(rng)
    X = np.column_stack([X, codes(rng, n_codes)]) if n_codes else X
    types = ["q"] * (X.shape[1] - n_codes) + ["c"] * n_codes
    params, y = xgboost_task(rng, target(rng, X), bool(n_codes))
    X[np.abs(X) > 3e38] = 3e38
    options = {"feature_types": types, "enable_categorical": True, "nthread": 1}
    booster = xgb.train(params, xgb.DMatrix(X, y, **options), int(rng.integers(1, 25)))
    model = saved(rng, booster, ("json", "ubj"), lambda path, _: booster.save_model(path))

    def expect(rows):
        matrix = xgb.DMatrix(rows, **options)
        return {
            "leaves": booster.predict(matrix, pred_leaf=True),
            "margins": booster.predict(matrix, output_margin=True),
            "predictions": booster.predict(matrix),
        }

    return Case(f"xgboost {params}", glasswood.load(model), X, expect, "float32", allow_inf=False)


def xgboost_task(rng, y, is_categorical):
    """Parameters, and the target that the objective takes."""
    objective = pick(rng, ("reg:squarederror", "binary:logistic", "multi:softprob", "multi:softmax", "count:poisson"))
    params = {"objective": objective, "nthread": 1, "seed": int(rng.integers(1000)), "verbosity": 0}
    params |= {"max_depth": int(rng.integers(1, 9)), "eta": pick(rng, (0.05, 0.3, 1.0)), "min_child_weight": 0}
    params |= {"tree_method": pick(rng, ("hist", "approx") if is_categorical else ("hist", "approx", "exact"))}
    params |= pick(rng, ({}, {"num_parallel_tree": 3, "subsample": 0.7}, {"booster": "dart", "rate_drop": 0.4}))
    params |= pick(rng, ({}, {"base_score": 0.7}, {"max_cat_to_onehot": 1}, {"max_cat_to_onehot": 100}))
    params |= pick(rng, ({}, {}, {"grow_policy": "lossguide", "max_leaves": 13}, {"gamma": 0.5}))
    if objective.startswith("multi"):
        params["num_class"] = 3
        can_be = "booster" not in params and params["tree_method"] == "hist" and not is_categorical
        vector = can_be and rng.random() < 0.5
        return params | ({"multi_strategy": "multi_output_tree"} if vector else {}), classes_of(y, 3)
    labels = {"binary:logistic": (y > np.median(y)).astype(int), "count:poisson": np.floor(np.exp(y / y.std()))}
    return params, labels.get(objective, y)


def lightgbm(rng):
    """A Booster, live or from its file."""
    import lightgbm as lgb

    n_codes = pick(rng, (0, 0, 1, 2))
    X = numbers(rng)
    X = np.column_stack([X, codes(rng, n_codes)]) if n_codes else X
    categorical = list(range(X.shape[1] - n_codes, X.shape[1]))
    objective = pick(rng, ("regression", "binary", "multiclass", "poisson", "multiclassova", "regression_l1"))
    params = {"objective": objective, "verbose": -1, "num_threads": 1, "seed": int(rng.integers(1000))}
    params |= {"num_leaves": int(rng.integers(2, 40)), "min_data_in_leaf": pick(rng, (1, 5, 20)), "cat_smooth": 1}
    params |= {"min_data_per_group": 1, "max_cat_to_onehot": pick(rng, (1, 4, 50)), "max_bin": pick(rng, (15, 255))}
    params |= pick(rng, ({}, {"use_missing": False}, {"zero_as_missing": True}, {"extra_trees": True}))
    forest = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
    params |= pick(rng, ({}, {"boosting": "dart", "drop_rate": 0.5}, forest, {"reg_sqrt": objective == "regression"}))
    y = target(rng, X)
    params |= {"num_class": 3} if "multiclass" in objective else {}
    y = classes_of(y, 3) if "multiclass" in objective else (y > np.median(y)) if objective == "binary" else y
    y = np.abs(y) if objective == "poisson" else y
    booster = lgb.train(params, lgb.Dataset(X, y, categorical_feature=categorical), int(rng.integers(1, 25)))
    model = saved(rng, booster, ("txt",), lambda path, _: booster.save_model(path))
    n_averaged = booster.current_iteration() if params.get("boosting") == "rf" else 1

    def expect(rows):
        return {
            "leaves": booster.predict(rows, pred_leaf=True),
            "margins": booster.predict(rows, raw_score=True) / n_averaged,
            "predictions": booster.predict(rows),
        }

    return Case(f"lightgbm {params}", glasswood.load(model), X, expect)


def catboost(rng):
    """A model, live or as CatBoost itself loads one of its two files."""
    import catboost as cb

    X = numbers(rng)
    y = target(rng, X)
    kind, loss, y = pick(
        rng,
        (
            ("CatBoostRegressor", "RMSE", y),
            ("CatBoostRegressor", "MultiRMSE", np.column_stack([y, -y])),
            ("CatBoostClassifier", "Logloss", (y > np.median(y)).astype(int)),
            ("CatBoostClassifier", "MultiClass", classes_of(y, 3)),
            ("CatBoostClassifier", "MultiClassOneVsAll", classes_of(y, 3)),
            ("CatBoost", "Poisson", np.abs(y)),
        ),
    )
    params = {"loss_function": loss, "iterations": int(rng.integers(1, 25)), "depth": int(rng.integers(1, 8))}
    params |= pick(rng, ({}, {"grow_policy": "Depthwise"}, {"grow_policy": "Lossguide", "max_leaves": 9}))
    params |= {"nan_mode": pick(rng, ("Min", "Max")), "border_count": pick(rng, (3, 32, 254))}
    params |= {"thread_count": 1, "verbose": 0, "allow_writing_files": False, "random_seed": int(rng.integers(1000))}
    live = (cb.CatBoost(params) if kind == "CatBoost" else getattr(cb, kind)(**params)).fit(X.copy(), y)
    loaded = []

    def write(path, suffix):
        live.save_model(path, format=suffix)
        loaded.append(cb.CatBoost().load_model(path, suffix))

    model = saved(rng, live, ("cbm", "json"), write)
    oracle = loaded[0] if loaded else live

    def expect(rows):
        return {
            "leaves": oracle.calc_leaf_indexes(rows.copy()),
            "margins": cb.CatBoost.predict(oracle, rows.copy(), prediction_type="RawFormulaVal"),
            "predictions": oracle.predict(rows.copy()),
        }

    return Case(f"catboost {kind} {params} {bool(loaded)}", glasswood.load(model), X, expect)


def sklearn(rng):
    """A tree, a forest or boosted trees."""
    from sklearn import ensemble, tree

    kind = pick(rng, [*SKLEARN_TREES, *SKLEARN_FORESTS, *SKLEARN_BOOSTED])
    is_classifier = kind.endswith("Classifier")
    X = numbers(rng, missing=0.1 * ("GradientBoosting" not in kind or "Hist" in kind) * ("AdaBoost" not in kind))
    y = target(rng, X)
    y = pick(rng, [("no", "yes"), (3, 1, 2)]) if is_classifier else y
    y = np.array(y)[classes_of(target(rng, X), len(y))] if is_classifier else y
    params = {"random_state": int(rng.integers(1000))}
    if kind.startswith("Hist"):
        params |= {"max_iter": int(rng.integers(1, 20)), "max_leaf_nodes": int(rng.integers(2, 30))}
        params |= {"min_samples_leaf": pick(rng, (1, 20)), "early_stopping": False, "max_bins": pick(rng, (8, 255))}
    elif "AdaBoost" not in kind:
        params |= {"max_depth": int(rng.integers(1, 9))}
    if kind in SKLEARN_FORESTS or ("Boost" in kind and not kind.startswith("Hist")):
        params |= {"n_estimators": int(rng.integers(1, 20))}
    model = getattr(tree if kind in SKLEARN_TREES else ensemble, kind)(**params).fit(X, y)

    def expect(rows):
        found = {"predictions": model.predict(rows)}
        if is_classifier:
            found["probabilities"] = model.predict_proba(rows)
        if hasattr(model, "apply"):
            found["leaves"] = model.apply(rows)
        if hasattr(model, "decision_function"):
            found["margins"] = model.decision_function(rows)
        return found

    return Case(f"scikit-learn {model!r}", glasswood.load(model), X, expect, allow_inf=False)


def isolation(rng):
    """An isolation forest; its scores lose some units in the last place, which sums of eight trees may."""
    from sklearn.ensemble import IsolationForest

    X = numbers(rng, missing=0)
    settings = {"max_samples": pick(rng, (16, "auto")), "contamination": pick(rng, ("auto", 0.1))}
    settings |= {"n_estimators": int(rng.integers(8, 20)), "random_state": int(rng.integers(1000))}
    model = IsolationForest(**settings).fit(X)

    def expect(rows):
        return {
            "leaves": np.column_stack([member.tree_.apply(rows.astype(np.float32)) for member in model.estimators_]),
            "margins": -np.log2(-model.score_samples(rows)),
        }

    return Case(f"scikit-learn {model!r}", glasswood.load(model), X, expect, allow_inf=False)


def saved(rng, live, suffixes, write):
    """The live model, or what glasswood reads from one of its files."""
    suffix = pick(rng, ("", *suffixes))
    if not suffix:
        return live
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / f"model.{suffix}")
        write(path, suffix)
        return glasswood.load(path)


SKLEARN_TREES = tuple(a + b for a in ("DecisionTree", "ExtraTree") for b in ("Regressor", "Classifier"))
SKLEARN_FORESTS = tuple(a + b for a in ("RandomForest", "ExtraTrees") for b in ("Regressor", "Classifier"))
SKLEARN_BOOSTED = (
    "GradientBoostingRegressor",
    "GradientBoostingClassifier",
    "HistGradientBoostingRegressor",
    "HistGradientBoostingClassifier",
    "AdaBoostClassifier",
)


def linear_tree(rng):
    """LightGBM's trees with equations, whose numbers stay where sums do."""
    import lightgbm as lgb

    X = np.clip(numbers(rng), -1e6, 1e6)
    y = np.clip(target(rng, X), -1e6, 1e6)
    params = {"linear_tree": True, "verbose": -1, "num_threads": 1, "seed": int(rng.integers(1000))}
    params |= {"num_leaves": int(rng.integers(2, 40)), "min_data_in_leaf": pick(rng, (2, 5, 20))}
    params |= pick(rng, ({}, {"use_missing": False}, {"linear_lambda": 1.0}, {"extra_trees": True}))
    params |= pick(rng, ({}, {"boosting": "dart", "drop_rate": 0.5}, {"objective": "huber"}))
    booster = lgb.train(params, lgb.Dataset(X, y, params={"linear_tree": True}), int(rng.integers(1, 25)))
    model = saved(rng, booster, ("txt",), lambda path, _: booster.save_model(path))

    def expect(rows):
        return {
            "leaves": booster.predict(rows, pred_leaf=True),
            "margins": booster.predict(rows, raw_score=True),
            "predictions": booster.predict(rows),
        }

    return Case(f"linear_tree {params}", glasswood.load(model), X, expect, allow_inf=False, largest=1e30)


def onnx(rng):
    """A file that skl2onnx or glasswood wrote, run by onnxruntime."""
    import onnxruntime
    from sklearn import ensemble, tree

    X = np.clip(np.nan_to_num(numbers(rng)), -1e30, 1e30).astype(np.float32)
    y = target(rng, X.astype(np.float64))
    kind = pick(rng, (tree.DecisionTreeRegressor(), ensemble.RandomForestRegressor(7), ensemble.ExtraTreesRegressor(5),
                      ensemble.GradientBoostingRegressor(n_estimators=9)))  # fmt: skip
    model = kind.set_params(max_depth=int(rng.integers(1, 9)), random_state=int(rng.integers(1000))).fit(X, y)
    is_own = bool(rng.random() < 0.5)
    if is_own:
        from glasswood.writers.onnx import onnx_bytes

        data = onnx_bytes(glasswood.load(model).ensemble)
    else:
        from skl2onnx import to_onnx

        data = to_onnx(model, X[:1], target_opset={"": 17, "ai.onnx.ml": 3}).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        forest = glasswood.load(path)

    def expect(rows):
        return {"margins": session.run(None, {"X": np.asarray(rows, np.float32)})[0][:, 0]}

    what = f"onnx of {kind}, written by {'glasswood' if is_own else 'skl2onnx'}"
    return Case(what, forest, X, expect, "float64" if is_own else "float32", allow_inf=False)


LIBRARIES = {
    "linear_tree": linear_tree,
    "onnx": onnx,
    "xgboost": xgboost,
    "lightgbm": lightgbm,
    "catboost": catboost,
    "sklearn": sklearn,
    "isolation": isolation,
}


def ignore_their_warnings():
    """Of training on such tables."""
    warnings.simplefilter("ignore")
