"""What CatBoost's predict makes of margins."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array

if TYPE_CHECKING:
    from glasswood.readers.catboost.model import Model

LINKS = {
    "Logloss": "logistic",
    "CrossEntropy": "logistic",
    "Focal": "logistic",
    "MultiClass": "softmax",
    "MultiClassOneVsAll": "one_vs_all",
    "MultiLogloss": "one_vs_all",
    "MultiCrossEntropy": "one_vs_all",
    "Poisson": "exp",
    "Tweedie": "exp",
    "RMSEWithUncertainty": "mean_and_variance",
}
"""By loss function; margins of all others are what they predict."""

LINKS_OF_REGRESSORS = ("Poisson", "Tweedie", "RMSEWithUncertainty")
"""Losses whose link CatBoostRegressor.predict applies; of others, such as a classifier's file, it returns margins."""

SEVERAL_LABELS = ("MultiLogloss", "MultiCrossEntropy")
"""Losses of classifiers that predict several yes or no."""

LABEL_TYPES = {"Integer": np.int64, "Float": np.float64, "String": np.object_, "Boolean": np.bool_}


def meaning(model: Model, estimator: str) -> dict[str, Any]:
    """Return link, default prediction and labels as fields of Forest.

    Parameters
    ----------
    model : Model
    estimator : {"", "classifier", "regressor"}
        Whose predict counts: "" for CatBoost, rankers and files, which predict margins.
    """
    loss = loss_function(model)
    link = LINKS.get(loss, "identity")
    if estimator == "classifier" and link == "identity":
        link = "logistic" if model.n_outputs == 1 else "softmax"
    classes = _classes(model) if estimator == "classifier" or link in {"logistic", "softmax", "one_vs_all"} else None
    fields: dict[str, Any] = {"link": link, "objective": loss, "classes": () if classes is None else (classes,)}
    fields["is_estimator"] = True  # all of CatBoost's models give two classes two columns of probabilities
    if estimator == "classifier":
        return fields | _label_rule(model, loss)
    # A regressor looks for its loss among the training parameters, which sums of models do not have.
    has_loss = estimator == "regressor" and "loss_function" in _object(model, "params")
    has_response = has_loss and (link == "identity" or loss in LINKS_OF_REGRESSORS)
    return fields | {"prediction": "response" if has_response else "margin"}


def _label_rule(model: Model, loss: str) -> dict[str, Any]:
    """How CatBoostClassifier.predict makes labels: by the sign of the margin, or a border of the user's own."""
    if model.n_outputs > 1 and loss not in SEVERAL_LABELS:
        return {"prediction": "argmax_column"}
    return {"prediction": "positive", "prediction_offset": _border(model)}


def _border(model: Model) -> float:
    """Margin of the probability that ``set_probability_threshold`` has set."""
    threshold = model.info.get("binclass_probability_threshold")
    if threshold is None:
        return 0.0
    probability = _parse_number(threshold)
    if not 0 < probability < 1:
        raise ValueError(f"'binclass_probability_threshold' is {threshold!r}, expected a number between 0 and 1")
    return -math.log(1 / probability - 1)


def _parse_number(text: Any) -> float:
    try:
        return float(text)
    except TypeError:
        raise ValueError(f"{text!r} is not a number") from None


def loss_function(model: Model) -> str:
    """Name the loss function; empty if the document does not, as sums of models."""
    loss = _object(model, "params").get("loss_function") or _object(model, "loss_function")
    kind = loss.get("type") if isinstance(loss, dict) else None
    return kind if isinstance(kind, str) else ""


def _object(model: Model, key: str) -> dict[str, Any]:
    """Read an entry of the information that holds an object, or the text of one."""
    value = model.info.get(key, {})
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{key!r} is not valid JSON: {error}") from error
    return value if isinstance(value, dict) else {}


def _classes(model: Model) -> Array:
    """Labels in the order of the outputs; numbers from 0 where the document has none.

    With several labels the outputs are 0 or 1 each, and the document's names are those of the labels.
    """
    if loss_function(model) in SEVERAL_LABELS:
        return np.arange(2)
    found = _object(model, "class_params")
    labels = found.get("class_names") or found.get("class_to_label") or []
    dtype = LABEL_TYPES.get(str(found.get("class_label_type", "Integer")))
    if not isinstance(labels, list) or dtype is None or not all(isinstance(x, str | int | float) for x in labels):
        raise ValueError("'class_params' holds no labels")
    n_classes = max(model.n_outputs, 2)
    if labels and len(labels) != n_classes:
        raise ValueError(f"it names {len(labels)} classes, expected {n_classes}")
    try:
        return np.array(labels, dtype) if labels else np.arange(n_classes)
    except OverflowError as error:
        raise ValueError(f"'class_params' holds labels beyond 64 bits: {error}") from error
