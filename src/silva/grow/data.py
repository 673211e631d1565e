"""The training rows as the engine reads them: standardised values for sums, ranks for tests."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

Result = TypeVar("Result")

LANES = 8
"""The engine may read this many numbers behind the last row of z (kLanes of grow/gram.h)."""

STORAGES = ("float64", "float32")
"""Types that z may be stored in."""

CENTRE_DIGITS = 16
"""Steps of a rounded centre in a unit of the rounded scale: off by a thirty-second of the spread at most."""

NEAR_ZERO = 2
"""Spreads from its centre within which 0 serves as well: raw squares are then at most five times the centred ones."""

SMALLEST_UNIT = 1e-290
"""Of a rounded scale: parts of it are normal numbers."""

FEW_VALUES = 200_000
"""Fewer are ranked sooner than threads start."""


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
    z : float64 or float32, (n_rows, width)
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

    z: NDArray[np.float64] | NDArray[np.float32]
    y: NDArray[np.float64]
    ranks: NDArray[np.int32]
    order: NDArray[np.int32]
    values: NDArray[np.float64]
    starts: NDArray[np.int32]
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
    x, w = (values, weight) if present.all() else (values[present], weight[present])
    centre = float(x[0] + np.average(x / 2 - x[0] / 2, weights=w) * 2)
    largest = float(np.abs(x / 2 - centre / 2).max()) * 2
    if largest <= 1e-14 * abs(centre) or largest == 0:
        return Standard(centre, 0.0)
    scaled = (x - centre) / largest
    return Standard(centre, float(np.sqrt(np.average(scaled * scaled, weights=w))) * largest)


def on_grid(by: Standard) -> Standard:
    """Round a scale to a power of two, and the centre to 0 or to few digits of the scale.

    Values that are whole multiples of a power of two and span at most 2^24 of it then become float32 without rounding,
    and those of a float32 column about whose centre 0 is near.
    """
    if by.scale < SMALLEST_UNIT:
        return by
    scale = 2.0 ** math.floor(math.log2(by.scale))
    if abs(by.centre) <= NEAR_ZERO * by.scale:
        return Standard(0.0, scale)
    step = scale / CENTRE_DIGITS
    return Standard(float(np.rint(by.centre / step)) * step, scale)


def standardised(values: NDArray[np.float64], by: Standard) -> NDArray[np.float64]:
    """Values in units of the column's spread about its centre; NaN stays, constant columns become 0."""
    if by.scale == 0:
        return np.where(np.isnan(values), np.nan, 0.0)
    return (values - by.centre) / by.scale


def ranked(values: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any], NDArray[np.int32]]:
    """Ranks, rows by rank (missing first), distinct values and the first position of each rank and the end."""
    n_missing = int(np.isnan(values).sum())
    order = np.roll(np.argsort(values, kind="stable").astype(np.int32), n_missing)
    present = values[order[n_missing:]]
    is_new = np.ones(len(present), bool)
    is_new[1:] = present[1:] != present[:-1]
    ranks = np.full(len(values), -1, np.int32)
    ranks[order[n_missing:]] = np.cumsum(is_new, dtype=np.int32) - np.int32(1)
    starts = np.concatenate([np.flatnonzero(is_new), [len(present)]]) + n_missing
    return ranks, order, present[is_new], starts.astype(np.int32)


def _packed(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    attributes: list[Standard],
    column: NDArray[np.int32],
    indicator: NDArray[np.int32],
    width: int,
    storage: str,
) -> NDArray[Any]:
    """Rows of z."""
    z = np.zeros(len(y) * width + LANES, storage)[:-LANES].reshape(len(y), width)
    root = np.sqrt(weight)
    for a, by in enumerate(attributes):
        if column[a] >= 0:
            z[:, column[a]] = np.nan_to_num(standardised(X[:, a], on_grid(by) if storage == "float32" else by)) * root
        if indicator[a] >= 0:
            z[:, indicator[a]] = np.isnan(X[:, a]) * root
    z[:, 0], z[:, width - 1] = root, y * root
    return z


def _side_by_side(task: Callable[[int], Result], n_tasks: int, n_threads: int) -> Iterator[Result]:
    """Results in order; no more of them wait than there are threads."""
    if n_threads == 1:
        yield from map(task, range(n_tasks))
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for first in range(0, n_tasks, n_threads):
            yield from pool.map(task, range(first, min(first + n_threads, n_tasks)))


def prepare(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    linear: NDArray[np.bool_],
    n_threads: int = 1,
    storage: str = "float64",
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
    n_threads : int
        Attributes are ranked side by side.
    storage : {"float64", "float32"}
        Type of z. In float32 the units of attributes are powers of two and their centres are round or 0, so that
        columns of few digits are kept exactly; the others and y are rounded.

    Notes
    -----
    O(n_rows log n_rows) an attribute; up to 16 (2 + 2 n_attributes) bytes a row, all of them kept, of which float32
    saves up to 4 (2 + 2 n_attributes).
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
    ranks = np.empty((n_attributes, n_rows), np.int32)
    order = np.empty((n_attributes, n_rows), np.int32)
    values, starts = np.empty(n_rows * n_attributes), np.empty((n_rows + 1) * n_attributes, np.int32)
    offsets = np.zeros(n_attributes + 1, np.int64)

    def rank(a: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
        ranks[a], order[a], distinct, start = ranked(X[:, a])
        return distinct, start

    for a, (distinct, start) in enumerate(_side_by_side(rank, n_attributes, n_threads if X.size > FEW_VALUES else 1)):
        at = int(offsets[a])
        offsets[a + 1] = at + len(distinct)
        values[at : at + len(distinct)] = distinct
        starts[at + a : at + a + len(start)] = start
    y = standardised(y, target)
    return TrainingRows(
        _packed(X, y, weight, attributes, column, indicator, width, storage),
        y,
        ranks,
        order,
        values[: offsets[-1]],
        starts[: offsets[-1] + n_attributes],
        offsets,
        column,
        indicator,
        width,
        weight,
        attributes,
        target,
    )
