"""The training rows as the engine reads them: standardised values for sums, ranks for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LANES = 8
"""The engine may read this many doubles behind the last row of z (kLanes of gram.h)."""


@dataclass(frozen=True, eq=False)
class Standard:
    """Centre and scale of a column; all zeros where it is constant."""

    centre: float
    scale: float


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Arrays that the engine borrows, and what turns its ranks back into values.

    Attributes
    ----------
    z : float64, (n_rows, width)
        1, standardised linear attributes (0 where missing), missing indicators, y; scaled by the root of the weight.
    y : float64, (n_rows,)
        Standardised target.
    ranks : int32, (n_attributes, n_rows)
        Position of the value among the attribute's distinct values; -1 where missing.
    order : int32, (n_attributes, n_rows)
        Rows by rank, missing ones first.
    values, starts, offsets
        Distinct values of all attributes, the first position in `order` of each rank, and where an attribute's begin.
    column, indicator : int32, (n_attributes,)
        Column of z of the attribute and of its missing indicator, -1 if there is none.
    width : int
        Columns of z.
    weight : float64, (n_rows,)
        Mean 1.
    attributes : list of Standard
    target : Standard
    """

    z: NDArray[np.float64]
    y: NDArray[np.float64]
    ranks: NDArray[np.int32]
    order: NDArray[np.int32]
    values: NDArray[np.float64]
    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    column: NDArray[np.int32]
    indicator: NDArray[np.int32]
    width: int
    weight: NDArray[np.float64]
    attributes: list[Standard]
    target: Standard

    def distinct(self, attribute: int) -> NDArray[np.float64]:
        """Distinct values of an attribute, rising."""
        return self.values[self.offsets[attribute] : self.offsets[attribute + 1]]


def standard(values: NDArray[np.float64], weight: NDArray[np.float64]) -> Standard:
    """Weighted mean and standard deviation of the present values, without overflow at 1e±150."""
    present = ~np.isnan(values)
    if not present.any():
        return Standard(0.0, 0.0)
    x, w = values[present], weight[present]
    centre = float(x[0] + np.average(x / 2 - x[0] / 2, weights=w) * 2)
    largest = float(np.abs(x / 2 - centre / 2).max()) * 2
    if largest <= 1e-14 * abs(centre) or largest == 0:
        return Standard(centre, 0.0)
    scaled = (x - centre) / largest
    return Standard(centre, float(np.sqrt(np.average(scaled * scaled, weights=w))) * largest)


def standardised(values: NDArray[np.float64], by: Standard) -> NDArray[np.float64]:
    """Values in units of the column's spread about its centre; NaN stays, constant columns become 0."""
    if by.scale == 0:
        return np.where(np.isnan(values), np.nan, 0.0)
    return (values - by.centre) / by.scale


def ranked(values: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any], NDArray[np.int64]]:
    """Ranks, rows by rank (missing first), distinct values and the first position of each rank and the end."""
    n_missing = int(np.isnan(values).sum())
    by_value = np.argsort(values, kind="stable").astype(np.int32)
    order = np.concatenate([by_value[len(values) - n_missing :], by_value[: len(values) - n_missing]])
    present = values[order[n_missing:]]
    is_new = np.ones(len(present), bool)
    is_new[1:] = present[1:] != present[:-1]
    ranks = np.full(len(values), -1, np.int32)
    ranks[order[n_missing:]] = np.cumsum(is_new) - 1
    starts = np.concatenate([np.flatnonzero(is_new), [len(present)]]) + n_missing
    return ranks, order, present[is_new], starts.astype(np.int64)


def prepare(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    linear: NDArray[np.bool_],
) -> TrainingRows:
    """Standardise, rank and pack.

    Parameters
    ----------
    X : float64, (n_rows, n_attributes)
        NaN marks a missing value; categorical attributes hold their position in the order of mean targets.
    y : float64, (n_rows,)
    weight : float64, (n_rows,)
        Positive.
    linear : bool, (n_attributes,)
        Attributes that leaf models may use; constant ones never do.

    Notes
    -----
    O(n_rows log n_rows) an attribute; 8 (2 + n_attributes) + 8 n_attributes bytes a row.
    """
    n_rows, n_attributes = X.shape
    weight = weight / weight.mean()
    target = standard(y, weight)
    attributes = [standard(X[:, a], weight) for a in range(n_attributes)]
    usable = linear & np.array([s.scale > 0 for s in attributes], bool)
    missing = np.isnan(X).any(axis=0) & usable
    column = np.where(usable, np.cumsum(usable), -1).astype(np.int32)
    indicator = np.where(missing, usable.sum() + np.cumsum(missing), -1).astype(np.int32)
    width = 2 + int(usable.sum()) + int(missing.sum())
    z = np.zeros(n_rows * width + LANES)[:-LANES].reshape(n_rows, width)
    ranks = np.empty((n_attributes, n_rows), np.int32)
    order = np.empty((n_attributes, n_rows), np.int32)
    values, starts = [], []
    for a in range(n_attributes):
        ranks[a], order[a], distinct, start = ranked(X[:, a])
        values.append(distinct)
        starts.append(start)
        if usable[a]:
            z[:, column[a]] = np.nan_to_num(standardised(X[:, a], attributes[a]))
        if missing[a]:
            z[:, indicator[a]] = np.isnan(X[:, a])
    y = standardised(y, target)
    z[:, 0], z[:, width - 1] = 1, y
    z *= np.sqrt(weight)[:, None]
    offsets = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(np.int64)
    return TrainingRows(
        z,
        y,
        ranks,
        order,
        np.concatenate([*values, []]),
        np.concatenate(starts),
        offsets,
        column,
        indicator,
        width,
        weight,
        attributes,
        target,
    )
