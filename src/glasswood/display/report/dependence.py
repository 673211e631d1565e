"""Partial dependence, ICE and ALE of the strongest features, and joint effects of pairs, for a report."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Int64s
from glasswood.display.report.rows import REDACTED_ROWS, inner_range, most_frequent, shared
from glasswood.display.report.source import ChangingColumns
from glasswood.inspection.accumulated import accumulated, edges_of
from glasswood.inspection.dependence import grid_of, responses_of
from glasswood.inspection.effects import Effects, sums_over_trees
from glasswood.inspection.rows import ChangingRows

if TYPE_CHECKING:
    from glasswood.display.report.rows import ReportRows

FEATURES, POINTS, ROWS = 8, 40, 500
"""Features that are shown, points of a grid, and rows that means are of."""

LINE_NUMBERS, MOST_LINES = 1600, 40
"""Points of all lines of single rows a feature, and lines at most."""

FEW_VALUES = 25
"""Numbers below which a panel shows each of a feature's values as a point."""

MOST_CATEGORIES, BANDS = 40, 8
"""Categories of a panel, and outputs of a model whose panels show where the rows' own lines lie."""

BINS, FEWEST_BINS = 20, 8
"""Bins of accumulated local effects, and fewest that show more than straight lines between distant values."""

PAIR_FEATURES, PAIR_ROWS, PAIR_POINTS, PAIRS = 6, 300, 100, 10
"""Features whose pairs are compared, rows that means are of, points they are taken at, and pairs that are shown."""


def dependence(rows: ReportRows, features: Int64s, at: Int64s, redact: bool) -> list[dict[str, Any]]:
    """Mean response, and lines of a few rows, over each feature's grid."""
    kind = ChangingRows if rows.source is None else ChangingColumns
    changing, some = _changing(kind, rows, at, ROWS)
    if isinstance(changing, ChangingColumns) and rows.source:
        changing.source = rows.source.taken(some)
    return [entry for feature in features[:FEATURES] if (entry := _entry(rows, changing, int(feature), redact))]


def joint_effects(rows: ReportRows, features: Int64s, at: Int64s, redact: bool) -> list[dict[str, Any]]:
    """Friedman's H of pairs of the strongest features, the largest joint effects first."""
    if rows.source is not None or len(at) < (REDACTED_ROWS if redact else 1):
        return []
    changing, _ = _changing(ChangingRows, rows, at, PAIR_ROWS)
    chosen = sorted(features[:PAIR_FEATURES].tolist())
    one_point = np.zeros(1), np.zeros(1)
    output, pairs = _output(rows), list(combinations(chosen, 2))
    is_sum = sums_over_trees(rows.forest, output)
    effects = Effects(changing, dict.fromkeys(chosen, one_point), pairs, None, output, is_sum)
    found = effects.interactions(PAIR_POINTS)
    order = np.argsort(-found["strength"].sum(axis=1), kind="stable")[:PAIRS]
    return [
        {"first": pairs[i][0], "second": pairs[i][1], "h": _short(found["h"][i]), "size": _short(found["strength"][i])}
        for i in order
    ]


def _changing(kind: type[ChangingRows], rows: ReportRows, at: Int64s, n: int) -> tuple[ChangingRows, Int64s]:
    """Take some of the rows, whose columns are changed."""
    some = at[np.linspace(0, len(at) - 1, min(n, len(at))).astype(int)]
    return kind.settled(rows.forest, rows.columns[some], rows.own[some]), some


def _entry(rows: ReportRows, changing: ChangingRows, feature: int, redact: bool) -> dict[str, Any] | None:
    present = changing.values[:, feature]
    present = present[~np.isnan(present)].astype(np.float64)
    if len(present) < (REDACTED_ROWS if redact else 1):
        return None
    shown, codes = _redacted(rows, changing, feature) if redact else _grid(changing, feature)
    if not len(codes):
        return None
    n_categories = len(codes)
    if n_categories > MOST_CATEGORIES:
        kept = most_frequent(present, codes, MOST_CATEGORIES)
        shown, codes = shown[kept], codes[kept]
    means, each = responses_of(changing, [feature], codes[:, None], _output(rows), None)
    n_lines = 0 if redact else min(MOST_LINES, len(changing), LINE_NUMBERS // max(1, POINTS * means.shape[1] // 4))
    lines = np.linspace(0, len(changing) - 1, n_lines).astype(int)
    is_text = shown.dtype == object
    return {
        "feature": feature,
        "grid": [str(value) for value in shown.tolist()] if is_text else shown.astype(np.float64),
        "isText": is_text,
        "few": not is_text and not redact and len(shown) < FEW_VALUES and len(shown) == len(np.unique(present)),
        "codes": codes,
        "of": n_categories,
        "average": _short(means.T),
        "local": None
        if is_text or redact or rows.source
        else _local(changing, feature, (shown, means.T), _output(rows)),
        "band": _band(each) if len(changing) >= 10 * REDACTED_ROWS and each.shape[2] <= BANDS else [],
        "lines": _short(each[:, lines].transpose(2, 1, 0), 4) if n_lines else [],
        "deciles": []
        if is_text or (redact and len(present) < 10 * REDACTED_ROWS)
        else np.quantile(present, np.linspace(0.1, 0.9, 9)),
        "rows": len(changing),
    }


def _grid(changing: ChangingRows, feature: int) -> tuple[Array, Array]:
    """Evenly spaced numbers where nearly all rows lie, or some of the values where nearly all rows share one."""
    return grid_of(changing, feature, (0.01, 0.99), POINTS, spread=True)


def _local(changing: ChangingRows, feature: int, curve: tuple[Array, Array], output: str) -> dict[str, Any] | None:
    """Accumulated local effects within the grid; over the rows they have the mean of the partial dependence.

    None where most rows share a value, so that a few wide bins hold all others.
    """
    grid, average = curve
    edges = edges_of(changing, feature, BINS)
    if len(edges) <= FEWEST_BINS and len(edges) < len(grid):
        return None
    found = accumulated(changing, feature, edges, output, None)
    values = changing.values[:, feature].astype(np.float64)
    height = [np.interp(values[~np.isnan(values)], grid, means).mean() for means in average[-len(found) :]]
    inside = (edges >= grid[0]) & (edges <= grid[-1])
    return {"grid": edges[inside], "average": _short((found + np.array(height)[:, None])[:, inside])}


def _band(each: Array) -> list[Any]:
    """Lower and upper ends of the middle 80 % of the rows' own lines, for each output."""
    ends = np.quantile(each, [0.1, 0.9], axis=1)
    return [_short(ends[:, :, k]) for k in range(ends.shape[2])]


def _redacted(rows: ReportRows, changing: ChangingRows, feature: int) -> tuple[Array, Array]:
    """Evenly spaced numbers, or the categories of many rows: nothing that few rows have."""
    shown, codes = changing.values_of(feature)
    column = rows.columns[:, feature]
    if rows.tables[feature] is not None or shown.dtype == object:
        kept = np.isin(codes, shared(column))
        if (table := rows.tables[feature]) is not None:
            kept &= codes < len(table)  # others have a code together, and few rows each
        return shown[kept], codes[kept]
    grid = np.linspace(*inner_range(column), POINTS)
    return grid, grid


def _output(rows: ReportRows) -> str:
    if len(rows.forest.classes) == 1:
        return "probability"
    return "margin" if rows.forest.classes else "prediction"


def _short(values: Any, digits: int = 6) -> Any:
    """Six digits are what a line shows, and four what a thin one among others does."""
    if np.ndim(values) > 1:
        return [_short(value, digits) for value in values]
    return [float(f"{v:.{digits}g}") for v in values]
