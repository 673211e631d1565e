"""What XGBoost's objectives make of margins."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from xgboost import XGBModel

EPSILON = np.float32(1e-6)
CLIPPED_LOGITS = (3, 2)
"""Since then XGBoost keeps the base score of logistic objectives 1e-6 away from 0 and 1."""
SORTED_QUANTILES = (3, 4)
"""Since then XGBoost sorts the quantiles of a row."""

RAW_LOGITS = (1, 3, 1)
"""Since then the base score of binary:logitraw is a margin; before, as for other logistic objectives, a probability."""

BEFORE_VERSIONS = (0,)
"""Binary files before 1.0 have no version, and the base score as a margin."""

UNCERTAIN = (1, 3)
"""What a binary file of 1.3.0 says of its version, and one of 1.3.1 to 1.3.3."""

Version = tuple[int, ...]


class Objective(NamedTuple):
    """The link of an objective, and how its base score becomes a margin."""

    link: str = "identity"
    prediction: str = "response"
    intercept: str = "identity"


OBJECTIVES = {
    "reg:squarederror": Objective(),
    "reg:linear": Objective(),
    "reg:squaredlogerror": Objective(),
    "reg:pseudohubererror": Objective(),
    "reg:absoluteerror": Objective(),
    "reg:quantileerror": Objective(),
    "reg:expectileerror": Objective(intercept="softplus"),
    "reg:logistic": Objective("logistic", intercept="logit"),
    "binary:logistic": Objective("logistic", intercept="logit"),
    "binary:logitraw": Objective(),
    "binary:hinge": Objective(prediction="positive"),
    "multi:softmax": Objective("softmax", "argmax_margin"),
    "multi:softprob": Objective("softmax"),
    "count:poisson": Objective("exp", intercept="log"),
    "reg:gamma": Objective("exp", intercept="log"),
    "reg:tweedie": Objective("exp", intercept="log"),
    "survival:cox": Objective("exp", intercept="log"),
    "survival:aft": Objective("exp", intercept="log"),
    "rank:pairwise": Objective(),
    "rank:ndcg": Objective(),
    "rank:map": Objective(),
}


def meaning_of(name: str, n_outputs: int, version: Version) -> dict[str, Any]:
    """Link and default prediction of a Booster."""
    if name not in OBJECTIVES:
        raise NotImplementedError(f"the objective {name!r} is not supported, known are {', '.join(OBJECTIVES)}")
    link, prediction, _ = OBJECTIVES[name]
    if n_outputs > 1 and name == "reg:expectileerror":
        link = "cumulative_softplus"
    if n_outputs > 1 and name == "reg:quantileerror" and version >= SORTED_QUANTILES:
        link = "sorted"
    return {"link": link, "prediction": prediction}


def estimator_meaning(estimator: XGBModel, name: str, n_outputs: int, meaning: dict[str, Any]) -> dict[str, Any]:
    """Describe what an estimator adds to its Booster: its missing value, and labels if it is a classifier."""
    missing = estimator.missing
    changes = {"is_estimator": True, "missing": float("nan") if missing is None else float(missing)}
    n_classes = getattr(estimator, "n_classes_", None)
    if n_classes is None:
        return changes
    return changes | {
        "prediction": _label_rule(name, n_outputs, int(n_classes)) or meaning["prediction"],
        "classes": (np.arange(int(n_classes)),),
    }


def _label_rule(name: str, n_outputs: int, n_classes: int) -> str:
    """How XGBClassifier.predict makes labels; it compares any response with a half."""
    if name == "multi:softmax":
        return "argmax_margin"
    if n_outputs > 1 and n_classes != 2:
        return "argmax"
    return "positive" if name == "binary:hinge" else "half"


def to_margin(base: NDArray[np.float32], objective: str, version: Version) -> NDArray[np.float32]:
    """Send base scores through the inverse of the link, in float32 as XGBoost does."""
    intercept = _intercept(objective, version)
    with np.errstate(all="ignore"):
        if intercept == "log":
            return np.log(base)
        if intercept == "softplus":
            return _gaps_to_margin(base)
        if intercept != "logit":
            return base
        if version >= CLIPPED_LOGITS:
            base = np.clip(base, EPSILON, np.float32(1) - EPSILON)
        odds: NDArray[np.float32] = np.float32(1) / base - np.float32(1)
        return -np.log(odds)


def _intercept(objective: str, version: Version) -> str:
    if version[:1] == BEFORE_VERSIONS:
        return "identity"
    if objective == "binary:logitraw" and version == UNCERTAIN:
        warnings.warn(
            "the file is of XGBoost 1.3.0, whose base_score of binary:logitraw is a probability, or of 1.3.1 to 1.3.3, "
            "where it is a margin, and does not say which; glasswood takes it as a margin: compare a prediction",
            stacklevel=2,
        )
        return "identity"
    if objective == "binary:logitraw" and version < RAW_LOGITS:
        return "logit"
    return OBJECTIVES[objective].intercept


def _gaps_to_margin(base: NDArray[np.float32]) -> NDArray[np.float32]:
    """Expectiles: the first as it is, then the inverse softplus of each step."""
    gaps = np.maximum(np.diff(base) - EPSILON, EPSILON)
    return np.concatenate([base[:1], gaps + np.log(-np.expm1(-gaps))])
