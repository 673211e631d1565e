"""The summary of a report: three sentences about the figures that the page shows below, and constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Doubles
from glasswood.base.wording import count_text, counted, leaves_text, number_text, percent_text
from glasswood.model.facts import constraints

if TYPE_CHECKING:
    from glasswood.display.report.rows import ReportRows

LONGEST = 50
"""Letters of a feature's name in a sentence."""


def sentences(
    sets: dict[str, ReportRows], measured: dict[str, dict[str, Any] | None], target: str, importance: Doubles
) -> list[str]:
    """Say what the model predicts, how well it does on the last set of rows, and what affects its predictions.

    Constraints that hold by construction are a sentence of their own.
    """
    rows, (label, last) = next(iter(sets.values())), list(sets.items())[-1]
    held = [f"By construction, {held}." for held in [constraints(rows.forest)] if held]
    return [_what(rows, target), *_how_well(last, measured[label], label), _by_what(rows, importance), *held]


def _what(rows: ReportRows, target: str) -> str:
    forest = rows.forest
    what = f"A tree of {leaves_text(forest.n_leaves)}" if forest.n_trees == 1 else f"{count_text(forest.n_trees)} trees"
    features = f"from {counted(len(rows.names), 'feature')}"
    name = target or "the target"
    if not rows.classes:
        return f"{what} predict{'s' * (forest.n_trees == 1)} {name} {features}."
    is_one = len(rows.classes) == 2
    classes = f"whether {name} is {rows.classes[1]}" if is_one else f"which of {len(rows.classes)} classes {name} is"
    said = f"{what} predict{'s' * (forest.n_trees == 1)} {classes} {features}"
    if rows.y is None or len(rows.classes) != 2:
        return f"{said}."
    share = percent_text(float(np.mean(rows.y == 1)))
    return f"{said}, as it is in {share} of these {count_text(len(rows))} rows."


def _how_well(rows: ReportRows, measured: dict[str, Any] | None, label: str) -> list[str]:
    """Name the figures of the test rows, or of the rows shown if there are no test rows."""
    if measured is None or rows.y is None:
        return []
    n = count_text(len(rows))
    of = f"On {n} {label} rows" if label else f"On these {n} rows"
    if not rows.classes:
        residuals = rows.responses[:, 0] - rows.y
        variance = float(np.var(rows.y))
        error = f"the mean absolute error is {number_text(np.abs(residuals).mean(), 3)}"
        explained = 1 - float(np.mean(residuals**2)) / variance if variance else float("nan")
        return (
            [f"{of}, the model explains {percent_text(explained)} of the variance (R²); {error}."] if variance else []
        )
    right = float(np.trace(measured["matrix"])) / measured["n"]
    most = int(np.argmax(measured["counts"]))
    base = f"always predicting {rows.classes[most]} for {percent_text(measured['counts'][most] / measured['n'])}"
    auc = measured["classes"][0].get("auc") if len(rows.classes) == 2 else None
    more = (
        "" if auc is None else f"; {rows.classes[1]} ranks above the other class in {percent_text(auc)} of pairs (AUC)"
    )
    return [f"{of}, the most probable class is right for {percent_text(right)}, {base}{more}."]


def _by_what(rows: ReportRows, importance: Doubles) -> str:
    total = float(importance.sum())
    if not total:
        return "No feature affects the predictions."
    top = [place for place in np.argsort(-importance, kind="stable")[:3] if importance[place] > 0]
    names = [
        name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in (rows.names[place] for place in top)
    ]
    listed = ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
    share = percent_text(float(importance[top].sum()) / total)
    return (
        f"{listed} affect{'s' * (len(names) == 1)} predictions most: {share} of the mean |SHAP value| of all features."
    )
