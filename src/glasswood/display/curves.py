"""The mean of a target over the values of a feature."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasswood.base.typing import Array

CURVE_ROWS, CURVE_POINTS = 20_000, 24
"""Rows that a curve is of at most, and its points."""


def mean_curve(
    values: Array, target: Array, least: int = 1, groups: int | None = None, weight: Array | None = None
) -> dict[str, Any] | None:
    """Mean target at quantiles of a number, or at each of a few values; None of fewer than two present values.

    Parameters
    ----------
    values, target : float, (n,)
        NaN where a value is missing.
    least : int
        Rows behind each point at least.
    groups : int, optional
        Points at most; default `CURVE_POINTS`.
    weight : float, (n,), optional
        Weights of the targets' means.

    Returns
    -------
    dict of arrays, or None
        x and y, the means of a group of rows, and n, its size; missing, None or the mean target of the rows that lack
        a value and their number.
    """
    some = slice(None, None, max(1, len(values) // CURVE_ROWS))
    values, target = values[some].astype(np.float64), target[some]
    present = ~np.isnan(values)
    n_missing = int((~present).sum())
    weight = np.ones(len(values)) if weight is None else weight[some]
    missing = (
        (float(np.average(target[~present], weights=weight[~present])), n_missing)
        if n_missing >= least and n_missing
        else None
    )
    values, target, weight = values[present], target[present], weight[present]
    if len(values) < 2:
        return None
    distinct = np.unique(values)
    if len(distinct) > (groups or CURVE_POINTS):
        edges = np.unique(np.quantile(values, np.linspace(0, 1, CURVE_POINTS + 1)))
        group = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, max(len(edges) - 2, 0))
    else:
        group = np.searchsorted(distinct, values)
    count = np.bincount(group)
    shown = count >= least
    x, total = np.bincount(group, values) / np.maximum(count, 1), np.bincount(group, weight)
    y = np.bincount(group, weight * target) / np.where(total > 0, total, 1)
    return {"x": x[shown], "y": y[shown], "n": count[shown], "missing": missing}
