"""Responses that are explained exactly: functions of the margins of hybrids of two rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glasswood import _core
from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Array, Doubles, Int32s
from glasswood.evaluate.links import LINKS, has_probabilities, labels, responses
from glasswood.explain.responses.labels import count_classes
from glasswood.model.ensemble import TreeEnsemble

ROUNDING = 1e-14
"""Probabilities that are 0 up to the rounding of sums over trees."""

SLOPES = {"logistic": None, "one_vs_all": None, "exponential": 2.0}
"""Links that are logistic functions of each margin times a slope; None: the forest's scale."""


@dataclass(frozen=True, eq=False)
class Response:
    """A function of margins.

    Attributes
    ----------
    name : str
    n : int
        Numbers that it returns for a row.
    function : callable
        Maps margins (N, k) and labels (N,) or None to (N, n).
    code : int or None
        What the compiled core calls it; None: the function is called on the margins of coalitions.
    scale : float
        Factor of the margins, where the core computes it.
    n_classes : int
        Number of classes of a loss, otherwise 0.
    """

    name: str
    n: int
    function: Callable[[Doubles, Int32s | None], Array]
    code: int | None = None
    scale: float = 1.0
    n_classes: int = 0

    @property
    def takes_labels(self) -> bool:
        """Whether it depends on a row's label."""
        return self.n_classes > 0

    def __call__(self, margins: Doubles, places: Int32s | None = None) -> Doubles:
        """Compute the response of margins (N, k): (N, n)."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = np.asarray(self.function(margins, places), np.float64)
        return found.reshape(len(margins), self.n)


def make_response(output: Any, forest: TreeEnsemble) -> Response:
    """Find the function of an output's name, or check the caller's.

    Raises
    ------
    NotImplementedError
        If the forest has no such output.
    """
    if callable(output):
        return _of_caller(output, forest)
    return {"probability": _probability, "log_loss": _log_loss, "response": _response, "decision": _decision}[output](
        forest
    )


def is_margin(output: Any, forest: TreeEnsemble) -> bool:
    """Whether the output is the margin itself: no link, as of averages of probabilities."""
    if output == "response":
        return forest.link == "identity"
    return output == "margin" or (output == "probability" and forest.link == "identity" and has_probabilities(forest))


def n_results(forest: TreeEnsemble, output: Any, rule: str) -> int:
    """Count the numbers that are explained of a row."""
    return forest.n_outputs if output == "margin" or rule == "rescale" else make_response(output, forest).n


def has_rescale_rule(output: Any, forest: TreeEnsemble) -> bool:
    """Whether `rule="rescale"` has values of this output."""
    return output in ("probability", "log_loss") and forest.n_outputs == 1 and forest.link in SLOPES


def returns_probabilities(forest: TreeEnsemble) -> bool:
    """Whether margins are the probabilities of classes, as those of scikit-learn's random forests."""
    return forest.link == "identity" and bool(forest.classes) and forest.prediction == "argmax"


def slope_of_link(forest: TreeEnsemble) -> float:
    """Return what a margin is multiplied with in the logistic function."""
    return SLOPES[forest.link] or forest.link_scale


def _linked(forest: TreeEnsemble) -> Callable[[Doubles, Int32s | None], Array]:
    return lambda margins, _: LINKS[forest.link](margins, forest.link_scale)


def has_several_labels(forest: TreeEnsemble) -> bool:
    """Whether a row may have several labels: outputs then do not exclude each other."""
    is_apart = forest.prediction == "positive" or (forest.link == "logistic" and not forest.classes)
    return len(forest.classes) > 1 or (forest.n_outputs > 1 and is_apart)


def _probability(forest: TreeEnsemble) -> Response:
    if not has_probabilities(forest):
        raise NotImplementedError(
            f"output='probability' needs a classifier, this forest has the link {quoted(forest.link)} (objective "
            f"{shown(forest.objective or 'unknown')}); explain output='margin' or 'response'"
        )
    return replace(_response(forest), name="probability")


def _response(forest: TreeEnsemble) -> Response:
    n = forest.n_outputs
    if forest.link in SLOPES:
        return Response("response", n, _linked(forest), _core.RESPONSE_LOGISTIC, slope_of_link(forest))
    if forest.link == "softmax":
        return Response("response", n, _linked(forest), _core.RESPONSE_SOFTMAX, forest.link_scale)
    return Response("response", n, _linked(forest), _core.RESPONSE_EXP if forest.link == "exp" else None)


def _log_loss(forest: TreeEnsemble) -> Response:
    if has_several_labels(forest) or not has_probabilities(forest):
        raise NotImplementedError(
            f"output='log_loss' needs a classifier of one label, this forest has the link "
            f"{quoted(forest.link)}; explain output='margin' or pass a callable of the margins"
        )
    n_classes = count_classes(forest)
    if len(forest.classes) == 1 and len(forest.classes[0]) != n_classes:
        raise NotImplementedError(
            f"output='log_loss' needs an output for each class, this forest has {forest.n_outputs} for "
            f"{len(forest.classes[0])} classes; explain output='margin'"
        )
    if forest.n_outputs == 1 and forest.link in SLOPES:
        return Response("log_loss", 1, _of_probability(forest), _core.RESPONSE_LOG_LOSS, slope_of_link(forest), 2)
    if forest.link == "softmax" and forest.n_outputs > 1:
        return Response(
            "log_loss", 1, _of_probability(forest), _core.RESPONSE_SOFTMAX_LOSS, forest.link_scale, n_classes
        )
    return Response("log_loss", 1, _of_probability(forest), n_classes=n_classes)


def _of_probability(forest: TreeEnsemble) -> Callable[[Doubles, Int32s | None], Array]:
    """-log of the label's probability."""

    def loss(margins: Doubles, places: Any) -> Array:
        if margins.shape[1] == 1 and forest.link in SLOPES:
            scaled = slope_of_link(forest) * margins[:, 0]
            return np.asarray(np.logaddexp(0, scaled) - places * scaled)
        if forest.link == "softmax":
            scaled = forest.link_scale * margins
            return np.asarray(np.logaddexp.reduce(scaled, axis=1) - scaled[np.arange(len(scaled)), places])
        p = LINKS[forest.link](margins, forest.link_scale)
        p = np.where(np.abs(p) < ROUNDING, 0.0, p)
        p = np.column_stack([1 - p, p]) if p.shape[1] == 1 else p
        return np.asarray(-np.log(p[np.arange(len(p)), places]))

    return loss


def _decision(forest: TreeEnsemble) -> Response:
    is_classifier = has_probabilities(forest) or forest.prediction not in {"response", "margin"}
    if not is_classifier or len(forest.classes) > 1:
        raise NotImplementedError(
            f"output='decision' needs a classifier of one label, this forest was trained for "
            f"{shown(forest.objective or 'regression')}; explain output='margin' or 'response'"
        )
    k = forest.n_outputs
    if k == 1 or forest.prediction == "second_positive" or has_several_labels(forest):
        second = forest.classes[0][1] if len(forest.classes) and len(forest.classes[0]) == 2 else 1
        n = k if has_several_labels(forest) else 1
        return Response("decision", n, lambda margins, _: labels(margins, forest) == second)
    by_margin = forest.prediction in {"argmax_margin", "argmax_column"}

    def chosen(margins: Doubles, _: Any) -> Array:
        scores = margins.astype(forest.result_dtype) if by_margin else responses(margins, forest)
        return np.asarray(scores.argmax(axis=1)[:, None] == np.arange(k))

    return Response("decision", k, chosen)


def _of_caller(function: Callable[[Doubles], Any], forest: TreeEnsemble) -> Response:
    """Check a caller's function on two rows of margins, and ask it how many numbers it returns."""
    probe = np.tile(forest.base_score, (2, 1))
    shape = np.shape(function(probe))
    if shape[:1] != (2,) or len(shape) > 2:
        raise ValueError(_misshapen(function, shape, probe.shape))
    n = shape[1] if len(shape) == 2 else 1

    def called(margins: Doubles, _: Any) -> Array:
        found = np.asarray(function(margins))
        if found.shape != (len(margins), *shape[1:]):
            raise ValueError(_misshapen(function, found.shape, margins.shape))
        if found.dtype.kind not in "biuf":
            raise TypeError(f"output {_name(function)} returned {found.dtype}, expected numbers")
        return found

    return Response(_name(function), n, called)


def _misshapen(function: Any, found: tuple[int, ...], given: tuple[int, ...]) -> str:
    return (
        f"output {_name(function)} returned shape {found} for margins of shape {given}, expected ({given[0]},) or "
        f"({given[0]}, r): a number, or r of them, for each row of margins"
    )


def _name(function: Any) -> str:
    return shown(getattr(function, "__name__", None) or type(function).__name__)
