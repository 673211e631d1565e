"""What is fitted to a split: each function returns the test error and what a person has to read.

A method's result has `predicted` (values, or probabilities with `classes`), `leaves`, `terms` and, of glasswood's
regressions, `held`, the share of test rows in intervals of 90 %.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.pool.sets import Split

BINS = 10
"""Of predicted probabilities, with as many rows each."""

TRIALS = 20
"""Of LightGBM's parameters, each judged by the fifth of the training rows that ends its boosting."""

MOST_TREES = 1_000

COVERAGE = 0.9


def fitted(split: Split, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Fit one method on one split; an error is its result."""
    method = METHODS[settings.get("of", name if name in METHODS else "tree")]
    settings = {key: value for key, value in settings.items() if key != "of"}
    began = time.process_time()
    try:
        found = method(split, settings)
        return {**_scores(split, found), **found, "seconds": time.process_time() - began}
    except Exception as error:
        return {"failure": f"{type(error).__name__}: {error}"[:200]}


def _scores(split: Split, found: dict[str, Any]) -> dict[str, float]:
    """RMSE; or the mean log-loss, area under the curve and calibration error."""
    predicted = np.asarray(found.pop("predicted"), np.float64)
    if not split.has_classes:
        return {"error": float(np.sqrt(np.mean((predicted - split.y_test) ** 2)))}
    names = [str(label) for label in found.pop("classes")]
    is_own = split.y_test[:, None] == np.array(names)
    of_own = np.where(is_own.any(axis=1), (predicted * is_own).sum(axis=1), 0.0)  # a class that training rows lack
    log_loss = float(-np.log(np.clip(of_own, 1e-6, 1)).mean())
    places = range(1, 2) if len(names) == 2 else range(len(names))
    areas = [_area(is_own[:, k], predicted[:, k]) for k in places if 0 < is_own[:, k].sum() < len(is_own)]
    calibration = [_calibration(is_own[:, k], predicted[:, k]) for k in places]
    return {"error": log_loss, "auc": float(np.mean(areas)), "calibration": float(np.mean(calibration))}


def _area(is_own: np.ndarray, shares: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(is_own, shares))


def _calibration(is_own: np.ndarray, shares: np.ndarray) -> float:
    """Mean distance of predicted and seen shares of a class, in bins of as many rows each."""
    bins = np.array_split(np.argsort(shares, kind="stable"), BINS)
    return float(np.mean([abs(shares[rows].mean() - is_own[rows].mean()) for rows in bins if len(rows)]))


# --- glasswood ---


def _tree(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    import glasswood

    return _glasswood(
        split, glasswood.ModelTreeClassifier if split.has_classes else glasswood.ModelTreeRegressor, settings
    )


def _ensemble(**own: Any) -> Callable[[Split, dict[str, Any]], dict[str, Any]]:
    def fit(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
        import glasswood

        kind = glasswood.ModelTreeEnsembleClassifier if split.has_classes else glasswood.ModelTreeEnsembleRegressor
        return _glasswood(split, kind, {**own, **settings})

    return fit


def _glasswood(split: Split, kind: Any, settings: dict[str, Any]) -> dict[str, Any]:
    _set_constants(settings)
    own = {name: value for name, value in settings.items() if "." not in name}
    quiet = {"verbose": False} if "verbose" in kind().get_params(deep=False) else {}
    model = kind(**{"time_limit": None, "n_jobs": 1, **quiet, **own}).fit(split.X, split.y)
    if split.has_classes:
        found = {"predicted": model.predict_proba(split.X_test), "classes": model.classes_}
    else:
        low, high = model.predict_interval(split.X_test, COVERAGE).T
        held = float(np.mean((low <= split.y_test) & (split.y_test <= high)))
        found = {"predicted": model.predict(split.X_test), "held": held}
    ensemble = model.forest_.ensemble
    leaf = np.repeat(np.arange(len(ensemble.linear_offsets) - 1), np.diff(ensemble.linear_offsets))
    terms = set(zip(leaf.tolist(), ensemble.linear_feature.tolist(), strict=True))
    most = max(np.bincount([leaf for leaf, _ in terms]), default=0) if terms else 0
    return {**found, "leaves": int(model.n_leaves_), "terms": len(terms), "most": int(most)}


def _additive(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    """A glass box; `terms` are its curves and surfaces, `leaves` their steps."""
    import glasswood

    _set_constants(settings)
    own = {name: value for name, value in settings.items() if "." not in name}
    kind = glasswood.AdditiveClassifier if split.has_classes else glasswood.AdditiveRegressor
    model = kind(**{"n_jobs": 1, **own}).fit(split.X, split.y)
    parts = model.parts_["steps"]
    read = {"leaves": int(parts.sum()), "terms": int((parts > 0).sum())}
    if split.has_classes:
        return {"predicted": model.predict_proba(split.X_test), "classes": model.classes_, **read}
    low, high = model.predict_interval(split.X_test, COVERAGE).T
    held = float(np.mean((low <= split.y_test) & (split.y_test <= high)))
    return {"predicted": model.predict(split.X_test), "held": held, **read}


def _set_constants(settings: dict[str, Any]) -> None:
    """Set constants of modules, named with their module, and those of earlier fits back."""
    for name, value in {**_before, **settings}.items():
        module, _, constant = name.rpartition(".")
        if module:
            place = importlib.import_module(module)
            _before.setdefault(name, getattr(place, constant))
            setattr(place, constant, value)


_before: dict[str, Any] = {}
"""Constants as they are in the source."""


# --- others ---


def _answers(split: Split, model: Any, rows: Any) -> dict[str, Any]:
    """Predictions as scikit-learn's estimators make them."""
    if split.has_classes:
        return {"predicted": model.predict_proba(rows), "classes": model.classes_}
    return {"predicted": model.predict(rows)}


def _lightgbm(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    """Categories as its own."""
    import lightgbm

    X, X_test, categories = split.coded()
    kind = lightgbm.LGBMClassifier if split.has_classes else lightgbm.LGBMRegressor
    model = kind(verbose=-1, n_jobs=1, **settings).fit(X, split.y, categorical_feature=categories)
    n_leaves = sum(tree["num_leaves"] for tree in model.booster_.dump_model()["tree_info"])
    return {**_answers(split, model, X_test), "leaves": n_leaves, "terms": 0}


def _tuned_lightgbm(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    """Random search; the best trial's parameters and number of trees on all training rows."""
    import lightgbm
    from sklearn.model_selection import train_test_split

    X, _, categories = split.coded()
    kind = lightgbm.LGBMClassifier if split.has_classes else lightgbm.LGBMRegressor
    rare = split.has_classes and min(np.unique(split.y, return_counts=True)[1]) < 2
    stratify = split.y if split.has_classes and not rare else None
    own, left, y, y_left = train_test_split(X, split.y, test_size=0.2, random_state=0, stratify=stratify)
    if split.has_classes:
        known = np.isin(y_left, np.unique(y))
        left, y_left = left[known], y_left[known]
    random, best = np.random.default_rng(0), (np.inf, dict[str, Any]())
    for _ in range(settings.get("trials", TRIALS)):
        trial = {
            "num_leaves": int(2 ** random.uniform(2, 7)),
            "learning_rate": float(10 ** random.uniform(-2, -0.5)),
            "min_child_samples": int(2 ** random.uniform(1, 7)),
            "colsample_bytree": float(random.uniform(0.4, 1)),
            "subsample": float(random.uniform(0.5, 1)),
            "subsample_freq": 1,
            "reg_lambda": float(10 ** random.uniform(-3, 2)),
        }
        model = kind(verbose=-1, n_jobs=1, n_estimators=MOST_TREES, **trial)
        ending = [lightgbm.early_stopping(50, verbose=False)]
        model.fit(own, y, categorical_feature=categories, eval_set=[(left, y_left)], callbacks=ending)
        (loss,) = list(model.best_score_["valid_0"].values())[:1]
        if loss < best[0]:
            best = loss, {**trial, "n_estimators": max(model.best_iteration_, 1)}
    return _lightgbm(split, best[1])


def _catboost(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    import catboost

    X, X_test, categories = split.texts()
    kind = catboost.CatBoostClassifier if split.has_classes else catboost.CatBoostRegressor
    model = kind(verbose=False, thread_count=1, allow_writing_files=False, random_seed=0, **settings)
    model.fit(catboost.Pool(X, split.y, cat_features=categories))
    return {**_answers(split, model, X_test), "leaves": int(model.tree_count_) << 6, "terms": 0}


def _chimeraboost(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    import chimeraboost

    X, X_test, categories = split.texts()
    kind = chimeraboost.ChimeraBoostClassifier if split.has_classes else chimeraboost.ChimeraBoostRegressor
    model = kind(random_state=0, thread_count=1, **settings)
    model.fit(np.array(X, object), split.y, cat_features=categories or None)
    return {**_answers(split, model, np.array(X_test, object)), "leaves": 0, "terms": 0}


def _ebm(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    """Categories as its own; what a person reads are the pictures of its terms."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    X, X_test, categories = split.texts()
    kinds = ["nominal" if k in categories else "continuous" for k in range(len(X[0]))]
    kind = ExplainableBoostingClassifier if split.has_classes else ExplainableBoostingRegressor
    model = kind(n_jobs=1, feature_types=kinds, random_state=0, **settings).fit(np.array(X, object), split.y)
    return {**_answers(split, model, np.array(X_test, object)), "leaves": 1, "terms": len(model.term_names_)}


def _cubist(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    """One-hot columns; `leaves` are its rules."""
    from cubist import Cubist

    X, X_test = split.numbers()
    model = Cubist(**settings).fit(X, split.y)
    coefficients = model.coeffs_.drop(columns=["(Intercept)", "committee", "rule"]).fillna(0)
    terms = int((coefficients != 0).to_numpy().sum())
    return {"predicted": model.predict(X_test), "leaves": len(model.coeffs_), "terms": terms}


def _pilot(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    """One-hot columns; each of its linear nodes adds a term to the leaves below."""
    from pilot import PILOT

    X, X_test = split.numbers()
    model = PILOT(**settings).train(X, split.y)
    kinds = model.tree_summary()["node_type"]
    is_leaf = kinds == "con"
    return {"predicted": model.predict(X_test), "leaves": int(is_leaf.sum()), "terms": int((~is_leaf).sum())}


def _linear(split: Split, settings: dict[str, Any]) -> dict[str, Any]:
    """Linear, or logistic, regression on one-hot columns in standard deviations."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, X_test = split.numbers()
    last = LogisticRegression(max_iter=1_000) if split.has_classes else RidgeCV(np.logspace(-3, 3, 13))
    model = make_pipeline(StandardScaler(), last.set_params(**settings)).fit(X, split.y)
    return {**_answers(split, model, X_test), "leaves": 1, "terms": int(np.count_nonzero(last.coef_))}


METHODS: dict[str, Callable[[Split, dict[str, Any]], dict[str, Any]]] = {
    "tree": _tree,
    "mean": _ensemble(n_estimators=5),
    "boosted": _ensemble(n_estimators=3, method="boosting"),
    "additive": _additive,
    "LightGBM": _lightgbm,
    "tuned": _tuned_lightgbm,
    "CatBoost": _catboost,
    "chimeraboost": _chimeraboost,
    "EBM": _ebm,
    "Cubist": _cubist,
    "PILOT": _pilot,
    "linear": _linear,
}
"""By the name of the command line; all have their defaults."""

OURS = ("tree", "mean", "boosted", "additive")
"""Methods of glasswood."""

PACKAGES = {
    "LightGBM": "lightgbm",
    "tuned": "lightgbm",
    "CatBoost": "catboost",
    "chimeraboost": "chimeraboost",
    "EBM": "interpret-core",
    "Cubist": "cubist",
    "PILOT": "fast-model-trees",
    "linear": "scikit-learn",
}
"""What the other methods are of."""


def version(method: str) -> str:
    """Name what a method is of: package and version, or glasswood and the commit in the method's name."""
    package = PACKAGES.get(method)
    return f"glasswood {method.rpartition(' ')[2]}" if package is None else f"{package} {metadata.version(package)}"


REGRESSIONS = ("Cubist", "PILOT")
"""Methods that have no classes."""
