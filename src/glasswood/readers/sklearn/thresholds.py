"""scikit-learn's classifiers whose threshold was chosen after they were fitted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from glasswood.model.ensemble import TreeEnsemble

ROUNDING, FURTHEST = 1e-12, 1e300
"""Most by which a sum of trees that is a threshold may be off, in its own size; a margin that none reaches."""

WITH_THRESHOLD = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")


def read_threshold(model: Any, read: Callable[[Any], TreeEnsemble]) -> TreeEnsemble:
    """Read a classifier of two classes whose threshold was chosen: the second where its score is at least that.

    Raises
    ------
    NotImplementedError
        If the score is that of the first class, or not the forest's probability or margin.
    """
    trees, name = read(model.estimator_), type(model).__name__
    if _positive_class(model) not in {None, model.classes_[1]}:
        raise NotImplementedError(
            f"a {name} whose pos_label is the first of its classes is not supported; load model.estimator_, and "
            "compare its probabilities with the threshold"
        )
    is_probability = model.response_method == "predict_proba" or (
        model.response_method == "auto" and hasattr(model.estimator_, "predict_proba")
    )
    threshold = getattr(model, "best_threshold_", None)
    if threshold is None:
        threshold = model.threshold if model.threshold != "auto" else 0.5 if is_probability else 0.0
    below = float(threshold) - ROUNDING * max(1.0, abs(threshold))  # scores that are equal reach it
    if trees.n_outputs == 1 and trees.link == "logistic":
        rule = ("positive", _margin(float(threshold)) if is_probability else below)
    elif trees.n_outputs == 2 and trees.link == "identity" and is_probability:
        rule = ("second_positive", below)
    else:
        raise NotImplementedError(
            f"a {name} of a {type(model.estimator_).__name__} is not supported; load model.estimator_, and compare its "
            f"scores with {threshold!r}"
        )
    return dataclasses.replace(trees, prediction=rule[0], prediction_offset=rule[1])


def _margin(probability: float) -> float:
    """Return the largest margin below that of a probability, less the rounding of the link."""
    if not 0 < probability < 1:
        return FURTHEST if probability > 0 else -FURTHEST
    margin = math.log(probability) - math.log1p(-probability)
    return margin - ROUNDING * max(1.0, abs(margin))


def _positive_class(model: Any) -> Any:
    """Return the class whose score is compared; None for the second."""
    scorer = getattr(model, "_curve_scorer", None)
    return scorer._get_pos_label() if scorer is not None else getattr(model, "pos_label", None)
