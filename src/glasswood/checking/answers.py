"""What live models predict themselves, library by library."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.evaluate.links import has_probabilities
from glasswood.readers import READERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from glasswood.base.typing import Array
    from glasswood.model.ensemble import TreeEnsemble
    from glasswood.readers.curve import Curve

Answers = dict[str, Any]
"""By output of `Forest.predict`."""

WITH_MARGINS = (
    "GradientBoostingClassifier", "HistGradientBoostingClassifier", "AdaBoostClassifier",
)  # fmt: skip
"""Classifiers of scikit-learn whose `decision_function` is the sum of their trees."""

ONE_THREAD = {"lightgbm": {"num_threads": 1}, "catboost": {"thread_count": 1}}
"""Arguments of `predict_proba`; other libraries take none."""


def answers(model: Any, library: str, forest: TreeEnsemble, X: Any, curve: Curve | None) -> Answers:
    """Ask a live model for its predictions, and for margins or probabilities where it has a method for them.

    Parameters
    ----------
    model : object
        Of a library that `glasswood.readers` knows.
    library : str
    forest : TreeEnsemble
        What was read.
    X : rows of the kind that the model takes
    curve : Curve, optional
        What a survival forest was read for.
    """
    if curve is not None:
        return {"prediction": curve.of_source(model, X)}
    if (ask := ASKED.get(library)) is not None:
        found = ask(model, forest, X)
    else:
        reader = importlib.import_module(READERS[library])
        predict = getattr(reader, "predict", None) or type(model).predict
        found = {"prediction": predict(model, X)}
    is_classifier = forest.classes and has_probabilities(forest)
    if is_classifier and "probability" not in found and hasattr(model, "predict_proba"):  # labels hide a wrong link
        found["probability"] = model.predict_proba(
            X.copy() if library == "catboost" else X, **ONE_THREAD.get(library, {})
        )
    return found


def _xgboost(model: Any, forest: TreeEnsemble, X: Any) -> Answers:
    import xgboost

    if not isinstance(model, xgboost.Booster):
        return {"margin": model.predict(X, output_margin=True), "prediction": model.predict(X)}
    if hasattr(X, "columns") and forest.categories is None:
        X = np.ascontiguousarray(X)  # names say nothing of numbers, and an array is read in place
    if forest.categories is None and not forest.is_categorical:
        kinds = {"margin": "margin", "prediction": "value"}
        return {
            name: model.inplace_predict(X, predict_type=kind, validate_features=False) for name, kind in kinds.items()
        }
    names = (
        {} if hasattr(X, "columns") else {"feature_names": model.feature_names, "feature_types": model.feature_types}
    )
    rows = xgboost.DMatrix(X, enable_categorical=True, nthread=1, **names)
    return {"margin": model.predict(rows, output_margin=True), "prediction": model.predict(rows)}


def _lightgbm(model: Any, forest: TreeEnsemble, X: Any) -> Answers:
    import lightgbm

    booster = model if isinstance(model, lightgbm.Booster) else model.booster_
    margin = booster.predict(X, raw_score=True, num_threads=1)
    if forest.n_trees and "average_output" in booster.model_to_string(num_iteration=1).partition("\nTree=")[0]:
        margin = margin / (forest.n_trees // forest.n_outputs)  # LightGBM's are sums
    return {"margin": margin, "prediction": model.predict(X, num_threads=1)}


def _catboost(model: Any, forest: TreeEnsemble, X: Any) -> Answers:
    margin = model.predict(X.copy(), prediction_type="RawFormulaVal", thread_count=1)
    if forest.prediction == "margin":
        return {"margin": margin}
    return {"margin": margin, "prediction": model.predict(X.copy(), thread_count=1)}


def _sklearn(model: Any, forest: TreeEnsemble, X: Any) -> Answers:
    found: Answers = {}
    if forest.classes and hasattr(model, "predict_proba"):
        found["probability"] = model.predict_proba(X)
    names = {kind.__name__ for kind in type(model).__mro__}
    if "IsolationForest" in names:
        scores = model.score_samples(X)
        asked = _Answered(model, decision_function=scores - model.offset_)
        return {"margin": -np.log2(-scores), "prediction": type(model).predict(asked, X)}
    if names & set(WITH_MARGINS):
        found["margin"] = model.decision_function(X)
    if "ForestClassifier" in names:
        asked = _Answered(model, predict_proba=found["probability"])
        return {**found, "prediction": type(model).predict(asked, X)}
    return {**found, "prediction": model.predict(X)}


class _Answered:
    """A model of which some methods have been asked, so that `predict` does not ask all trees again."""

    def __init__(self, model: Any, **answers: Any) -> None:
        self.__dict__.update(vars(model))  # where scikit-learn looks whether a model is fitted
        self._model, self._answers = model, answers

    def __getattr__(self, name: str) -> Any:
        if name in self._answers:
            return lambda _X: self._answers[name]
        return getattr(self._model, name)


@contextlib.contextmanager
def one_thread(library: str) -> Iterator[None]:
    """Let libraries predict the few rows without threads, which take longer to start than to predict them."""
    with contextlib.ExitStack() as stack:
        if "joblib" in sys.modules:
            stack.enter_context(sys.modules["joblib"].parallel_config(backend="sequential"))
        with contextlib.suppress(ImportError):  # scikit-learn needs it, other libraries do not
            from threadpoolctl import ThreadpoolController

            if library not in _controllers:
                _controllers[library] = ThreadpoolController()
            stack.enter_context(_controllers[library].limit(limits=1, user_api="openmp"))
        yield


_controllers: dict[str, Any] = {}
"""What limits the threads of OpenMP, by library: each is found when it is first asked, and so is loaded."""


ASKED: dict[str, Callable[[Any, TreeEnsemble, Any], Answers]] = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "sklearn": _sklearn,
}
"""Libraries that are asked for more than one output, or in another way than the readers' `predict`."""


def as_shaped(expected: Any, found: Array) -> Array:
    """Give the library's answer the shape of glasswood's, where both hold as many numbers: (n, 1) for (n,)."""
    theirs: Array = np.asarray(expected)
    return theirs.reshape(found.shape) if theirs.size == found.size else theirs
