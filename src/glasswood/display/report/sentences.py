"""The first screen of a report: what drives predictions, how good they are, and what the model is, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.base.wording import (
    count_text,
    counted,
    cut_texts,
    leaves_text,
    number_text,
    percent_text,
    percent_texts,
    tick_texts,
)
from glasswood.model.facts import constraints

if TYPE_CHECKING:
    from glasswood.display.report.rows import ReportRows

LONGEST, DRIVERS = 50, 5
"""Letters of a name in a sentence, and features that have one."""

ONE_WAY = 0.6
"""Share of a curve's range between its lower and upper tenth from which the sentence compares these."""

FEWEST = 10
"""Rows of a category that a sentence names."""

OVERFIT = 1.3
"""Error on test rows, in errors on training rows, from which a model overfits."""


def sentences(
    sets: dict[str, ReportRows],
    measured: dict[str, dict[str, Any] | None],
    target: str,
    entries: Sequence[dict[str, Any]],
    importance: Doubles,
    units: Mapping[str, str],
) -> dict[str, list[Any]]:
    """Say what drives predictions, most important first, how good they are on unseen rows, and what the model is.

    `entries` are the partial dependences of the most important features; constraints that hold by construction are a
    sentence of their own.
    """
    rows = next(iter(sets.values()))
    held = [f"By construction, {held}." for held in [constraints(rows.forest)] if held]
    return {
        "drivers": _drivers(rows, target, entries, importance, units),
        "quality": _how_well(sets, measured),
        "what": [_what(rows, target), *held],
    }


def _what(rows: ReportRows, target: str) -> str:
    forest = rows.forest
    what = f"A tree of {leaves_text(forest.n_leaves)}" if forest.n_trees == 1 else f"{count_text(forest.n_trees)} trees"
    features = f"from {counted(len(rows.names), 'feature')}"
    name = target or "the target"
    if _is_number(rows):
        outputs = f"{counted(len(rows.classes), 'output')} of " if len(rows.classes) > 1 else ""
        return f"{what} predict{'s' * (forest.n_trees == 1)} {outputs}{name} {features}."
    is_one = len(rows.classes) == 2
    classes = f"whether {name} is {rows.classes[1]}" if is_one else f"which of {len(rows.classes)} classes {name} is"
    said = f"{what} predict{'s' * (forest.n_trees == 1)} {classes} {features}"
    if rows.y is None or len(rows.classes) != 2:
        return f"{said}."
    share = percent_text(float(np.mean(rows.y == 1)))
    return f"{said}, as it is in {share} of these {count_text(len(rows))} rows."


def _how_well(sets: dict[str, ReportRows], measured: dict[str, dict[str, Any] | None]) -> list[str]:
    """Name a figure of the test rows beside that of the training rows; of the rows shown if there are no others."""
    last = list(sets)[-1]
    rows, found = sets[last], {name: _score(one, measured[name]) for name, one in sets.items()}
    if found[last] is None:
        return []
    name, better = _score_name(rows), [one for one in found.values() if one is not None]
    texts = [f"{one:.2f}" for one in better] if name in {"R²", "AUC"} else percent_texts(better)
    of = "test rows" if last else f"these {count_text(len(rows))} rows"
    said = f"{name} {texts[-1]} on {of}"
    if len(better) == 2:
        training, test = better
        lost = (1 - test) / max(1 - training, 1e-12)
        verdict = ": it overfits" if lost > OVERFIT and training - test > 0.05 else ""
        return [f"{said}, {texts[0]} on training rows{verdict}.", *_beside(rows, measured[last])]
    more = "" if last else "; new rows may be predicted worse"
    return [f"{said}{more}.", *_beside(rows, measured[last])]


def _is_number(rows: ReportRows) -> bool:
    return not rows.classes or not rows.forest.classes


def _score_name(rows: ReportRows) -> str:
    return "R²" if _is_number(rows) else "AUC" if len(rows.classes) == 2 else "Right class for"


def _score(rows: ReportRows, measured: dict[str, Any] | None) -> float | None:
    if measured is None or rows.y is None:
        return None
    if _is_number(rows):
        variance = float(np.var(rows.y))
        return 1 - float(np.mean((rows.responses[:, 0] - rows.y) ** 2)) / variance if variance else None
    if len(rows.classes) == 2:
        found: float | None = measured["classes"][0].get("auc")
        return found
    return float(np.trace(measured["matrix"])) / float(measured["n"])


def _beside(rows: ReportRows, measured: dict[str, Any] | None) -> list[str]:
    """Say what the figure means: the usual error, what chance does, or what the most frequent class alone gets."""
    if measured is None or rows.y is None:
        return []
    if _is_number(rows):
        error = number_text(np.abs(rows.responses[:, 0] - rows.y).mean(), 3)
        return [f"Predictions are off by {error} on average."]
    if len(rows.classes) == 2:
        precision, share = measured["classes"][0]["averagePrecision"], float(np.mean(rows.y == 1))
        named, rate = percent_texts([precision, share])
        return [f"Average precision {named}, {number_text(precision / share, 2)} times the base rate of {rate}."]
    most = int(np.argmax(measured["counts"]))
    return [f"Always {rows.classes[most]} would be right for {percent_text(measured['counts'][most] / measured['n'])}."]


def _drivers(
    rows: ReportRows, target: str, entries: Sequence[dict[str, Any]], importance: Doubles, units: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Describe the effect of each of the most important features by two of its values."""
    entries = [entry for entry in entries if importance[entry["feature"]] > 0][:DRIVERS]
    names = cut_texts([rows.names[entry["feature"]] for entry in entries], LONGEST)
    said = []
    for name, entry in zip(names, entries, strict=True):
        unit = units.get(rows.names[entry["feature"]], "")
        found = _driver(rows, entry, target, unit)
        said.append({"feature": entry["feature"], "name": name, "text": found[0], "direction": found[1]})
    return said


def _driver(rows: ReportRows, entry: dict[str, Any], target: str, unit: str) -> tuple[str, int]:
    """Compare the predictions at two values of a feature: its text, and 1 where the first one is higher."""
    averages = np.asarray(entry["average"], np.float64)
    pairs = [_two_values(rows, entry, curve) for curve in averages]
    output = int(np.argmax([abs(curve[high] - curve[low]) for curve, (low, high) in zip(averages, pairs, strict=True)]))
    output = 1 if len(averages) == 2 == len(rows.classes) and not _is_number(rows) else output
    curve, grid, (low, high) = averages[output], entry["grid"], pairs[output]
    what = _what_moves(rows, target, output, len(averages))
    if curve[high] == curve[low]:
        return "no effect on predictions alone, only together with others", 0
    is_up = curve[high] > curve[low]
    size = _size(abs(float(curve[high] - curve[low])), rows)
    if entry["isText"]:
        first, second = cut_texts([str(grid[high]), str(grid[low])], LONGEST)
    else:
        first, second = _values(rows, entry, float(grid[high]), float(grid[low]))
    first = f"{first} {unit}" if unit else first
    return f"{first} instead of {second} {'raises' if is_up else 'lowers'} {what} by {size}", 1 if is_up else -1


def _values(rows: ReportRows, entry: dict[str, Any], *values: float) -> list[str]:
    """Write two numbers of a feature: as they are where it has few, else with the digits that their distance needs."""
    if entry["few"]:
        return [text.replace("-", "−") for text in tick_texts(values)]
    column = rows.columns[:10_000, entry["feature"]]
    is_whole = bool((column[np.isfinite(column)] % 1 == 0).all())
    step = abs(values[0] - values[1]) / 20
    decimals = min(0, -int(np.floor(np.log10(step)))) if is_whole else -int(np.floor(np.log10(step)))
    return [text.replace("-", "−") for text in tick_texts([round(value, decimals) for value in values])]


def _two_values(rows: ReportRows, entry: dict[str, Any], curve: Doubles) -> tuple[int, int]:
    """Places in the grid of what is compared: tenths of the values where the curve goes one way, else its extremes."""
    inside = np.arange(len(curve))
    if entry["isText"] or entry["few"]:
        counts = _counts(rows, entry)
        inside = inside[counts >= FEWEST] if (counts >= FEWEST).sum() > 1 else inside
        if entry["isText"]:
            return int(inside[curve[inside].argmin()]), int(inside[curve[inside].argmax()])
    elif len(entry["deciles"]):
        grid = np.asarray(entry["grid"])
        ends = [int(np.abs(grid - entry["deciles"][place]).argmin()) for place in (0, -1)]
        inside = np.arange(ends[0], ends[1] + 1) if ends[0] < ends[1] else inside
    first, last = int(inside[0]), int(inside[-1])
    if abs(curve[last] - curve[first]) >= ONE_WAY * np.ptp(curve[inside]):
        return first, last
    return int(inside[curve[inside].argmin()]), int(inside[curve[inside].argmax()])


def _counts(rows: ReportRows, entry: dict[str, Any]) -> Array:
    """Rows of each value of a grid."""
    column = rows.columns[:, entry["feature"]]
    return np.array([int((column == code).sum()) for code in entry["codes"]])


def _what_moves(rows: ReportRows, target: str, output: int, n_outputs: int) -> str:
    if rows.classes and len(rows.forest.classes) == 1:
        place = 1 if n_outputs == 1 and len(rows.classes) == 2 else min(output, len(rows.classes) - 1)
        name = rows.classes[place]
        is_number = name in {"True", "False"} or name.removeprefix("-").replace(".", "", 1).isdigit()
        return f"the probability of {target} = {name}" if is_number and target else f"the probability of {name}"
    of = f" of {rows.classes[output]}" if rows.classes else ""
    return f"predicted {target}{of}" if target else f"the prediction{of}"


def _size(change: float, rows: ReportRows) -> str:
    if rows.classes and len(rows.forest.classes) == 1:
        points = number_text(100 * change, 2)
        return f"{points} point{'s' * (points != '1')}"
    return number_text(change, 2)
