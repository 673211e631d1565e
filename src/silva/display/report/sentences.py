"""What a report says first: three sentences, made from the figures that the page shows below, and constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.facts import constraints
from silva.wording import count_text, leaves_text, number_text, percent_text

if TYPE_CHECKING:
    from silva.display.report.rows import ReportRows
    from silva.typing import Doubles


def sentences(
    sets: dict[str, ReportRows], measured: dict[str, dict[str, Any] | None], target: str, importance: Doubles
) -> list[str]:
    """Say what the model predicts from what, how well, on the last set of rows, and what moves its predictions.

    What it keeps to by construction is a sentence of its own.
    """
    rows, (label, last) = next(iter(sets.values())), list(sets.items())[-1]
    held = [f"By construction, {held}." for held in [constraints(rows.forest)] if held]
    return [_what(rows, target), *_how_well(last, measured[label], label), _by_what(rows, importance), *held]


def _what(rows: ReportRows, target: str) -> str:
    forest = rows.forest
    what = f"A tree of {leaves_text(forest.n_leaves)}" if forest.n_trees == 1 else f"{count_text(forest.n_trees)} trees"
    features = f"from {len(rows.names)} feature{'s' * (len(rows.names) != 1)}"
    name = target or "the target"
    if not rows.classes:
        return f"{what} predict{'s' * (forest.n_trees == 1)} {name} {features}."
    is_one = len(rows.classes) == 2
    classes = f"whether {name} is {rows.classes[1]}" if is_one else f"which of {len(rows.classes)} classes {name} is"
    said = f"{what} predict{'s' * (forest.n_trees == 1)} {classes} {features}"
    if rows.y is None or len(rows.classes) != 2:
        return f"{said}."
    return f"{said}; {percent_text(float(np.mean(rows.y == 1)))} of these {count_text(len(rows))} rows are."


def _how_well(rows: ReportRows, measured: dict[str, Any] | None, label: str) -> list[str]:
    """Name the figures of the test rows, if there are any, else of the rows that are shown."""
    if measured is None or rows.y is None:
        return []
    n = count_text(len(rows))
    of = f"On {n} {label} rows" if label else f"On these {n} rows"
    if not rows.classes:
        residuals = rows.responses[:, 0] - rows.y
        variance = float(np.var(rows.y))
        error = f"predictions are off by {number_text(np.abs(residuals).mean(), 3)} in the mean"
        explained = 1 - float(np.mean(residuals**2)) / variance if variance else float("nan")
        return [f"{of} it explains {percent_text(explained)} of the variance (R²); {error}."] if variance else []
    right = float(np.trace(measured["matrix"])) / measured["n"]
    most = int(np.argmax(measured["counts"]))
    base = f"always saying {rows.classes[most]} would be for {percent_text(measured['counts'][most] / measured['n'])}"
    auc = measured["classes"][0].get("auc") if len(rows.classes) == 2 else None
    more = (
        "" if auc is None else f"; {rows.classes[1]} ranks above the other class in {percent_text(auc)} of pairs (AUC)"
    )
    return [f"{of} the most probable class is right for {percent_text(right)}, {base}{more}."]


def _by_what(rows: ReportRows, importance: Doubles) -> str:
    total = float(importance.sum())
    if not total:
        return "No feature moves the predictions."
    top = [place for place in np.argsort(-importance, kind="stable")[:3] if importance[place] > 0]
    names = [rows.names[place] for place in top]
    listed = ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
    share = percent_text(float(importance[top].sum()) / total)
    return f"{listed} move{'s' * (len(names) == 1)} predictions most: {share} of all effects."
