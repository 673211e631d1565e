"""Curves and surfaces of a forest as data: a report draws what each of them adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.display.report.rows import shared
from glasswood.model.facts import feature_name, output_names
from glasswood.words.curves import Side, boxes_of, curve_trees, table_of

if TYPE_CHECKING:
    from glasswood.display.report.rows import ReportRows
    from glasswood.model.ensemble import TreeEnsemble

MOST_NUMBERS = 8_000
"""Steps and cells of a page: those of the largest parts."""

DIGITS = 4
"""Of what is added."""


def curves_section(rows: ReportRows, model: object, redact: bool) -> dict[str, Any] | None:
    """Curves and surfaces, those that move rows most first; None where there are none."""
    forest = rows.forest
    sizes = {tree: _size(forest, tree) for tree in curve_trees(forest)}
    parts, n_left, room = list[dict[str, Any]](), 0, MOST_NUMBERS
    for tree in sorted(sizes, key=lambda tree: -sizes[tree]):
        sides, values = table_of(forest, tree)
        room -= values.size
        if not sides or room < 0:
            n_left += 1
            continue
        make = _curve if len(sides) == 1 else _surface
        parts.append({"output": int(forest.tree_output[tree]), **make(rows, model, tree, sides, values, redact)})
    if not sizes:
        return None
    return {"parts": parts, "left": n_left, "link": forest.link, "nOutputs": forest.n_outputs}


def _size(forest: TreeEnsemble, tree: int) -> float:
    """Square root of the mean square that is added to the training rows."""
    boxes = boxes_of(forest, tree)
    return float(np.sqrt(np.average([box.value**2 for box in boxes], weights=[box.rows + 1e-300 for box in boxes])))


def _curve(
    rows: ReportRows, model: object, tree: int, sides: list[Side], values: Doubles, redact: bool
) -> dict[str, Any]:
    side, known = sides[0], _known(rows.forest, model, tree, sides[0])
    kept = _kept(rows, side, redact)
    kept += [len(side) - 1] * _is_missing_seen(rows.forest, side)
    errors, counts = (np.full(len(side), np.nan), None) if known is None else known
    return {
        "features": [side.feature],
        "sides": [_described(side, kept)],
        "adds": _short(values[kept]),
        "errors": _short(errors[kept]),
        "rows": None if counts is None else counts[kept],
    }


def _known(forest: TreeEnsemble, model: object, tree: int, side: Side) -> tuple[Doubles, Array] | None:
    """Find standard errors and training rows of each value of a curve, if the model itself has them."""
    table = getattr(model, "curves_", None)
    if table is None:
        return None
    output = output_names(forest, forest.n_outputs)[int(forest.tree_output[tree])]
    own = np.flatnonzero((table["feature"] == feature_name(forest, side.feature)) & (table["output"] == output))
    n = len(own) - _is_missing_seen(forest, side)
    if n <= 0 or (side.n_categories and n != side.n_categories):
        return None
    errors, counts = np.zeros(len(side)), np.zeros(len(side), np.int64)
    # Neighbouring steps that add the same are one in the tree.
    place = np.arange(n) if side.n_categories else np.searchsorted(side.edges, table["from"][own[:n]], side="right")
    np.maximum.at(errors, place, table["standard_error"][own[:n]])
    np.add.at(counts, place, table["rows"][own[:n]])
    if n < len(own):
        errors[-1], counts[-1] = table["standard_error"][own[n]], table["rows"][own[n]]
    return errors, counts


def _surface(
    rows: ReportRows, model: object, tree: int, sides: list[Side], values: Doubles, redact: bool
) -> dict[str, Any]:
    """Categories that add the same share a line; those that add alike stand beside each other."""
    del model, tree
    described = []
    for axis, side in enumerate(sides):
        kept = _kept(rows, side, redact)
        groups: dict[bytes, list[int]] = {}
        for at in kept:
            key = np.take(values, at, axis).tobytes() if side.n_categories else bytes(str(at), "ascii")
            groups.setdefault(key, []).append(at)
        if side.n_categories:
            groups = _by_likeness(groups, np.moveaxis(values, axis, 0))
        has_missing = _is_missing_seen(rows.forest, side)
        taken = [group[0] for group in groups.values()] + [len(side) - 1] * has_missing
        values = np.take(values, taken, axis)
        described.append(_described(side, taken, list(groups.values())))
    return {
        "features": [side.feature for side in sides],
        "sides": described,
        "adds": [_short(line) for line in values],
        "errors": None,
        "rows": None,
    }


def _by_likeness(groups: dict[bytes, list[int]], lines: Doubles) -> dict[bytes, list[int]]:
    """Put lines into the order of the first singular vector of a surface, in which what they add changes least."""
    some = lines[[group[0] for group in groups.values()]]
    place = np.linalg.svd(some, full_matrices=False)[0][:, 0] if some.size else np.zeros(len(some))
    keys = list(groups)
    return {keys[at]: groups[keys[at]] for at in np.argsort(place, kind="stable").tolist()}


def _kept(rows: ReportRows, side: Side, redact: bool) -> list[int]:
    """Intervals, or categories; of few rows none in a redacted report."""
    known = shared(rows.columns[:, side.feature]).tolist() if redact and side.n_categories else None
    return [at for at in range(len(side) - 1) if known is None or at in known]


def _is_missing_seen(forest: TreeEnsemble, side: Side) -> bool:
    return bool(len(forest.missing_seen)) and bool(forest.missing_seen[side.feature])


def _described(side: Side, kept: list[int], groups: list[list[int]] | None = None) -> dict[str, Any]:
    """Edges between intervals, or codes of categories; and whether missing values are the last."""
    has_missing = bool(kept) and kept[-1] == len(side) - 1
    codes = None if not side.n_categories else groups or [[at] for at in kept[: len(kept) - has_missing]]
    return {"edges": side.edges, "codes": codes, "missing": has_missing}


def _short(values: Doubles) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
