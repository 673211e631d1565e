"""Columns as bins of ranks, of categories, and of missing values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Doubles, Int64s

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingColumns


CATEGORY_RIDGE = 5.0
"""Rows of mean curvature that shrink the step of a category."""


@dataclass(frozen=True, eq=False)
class Axis:
    """Bins of a feature; the last one is for missing values, with or without rows.

    Attributes
    ----------
    feature : int
    codes : int, (n_rows,)
        Bin of each row.
    edges : float64, (n_ordered - 1,)
        Rows below an edge are in a bin before it. Empty for categories.
    n_categories : int
        Bins of categories, in the order of the feature's table; 0 for numbers.
    weight : float64, (n_bins,)
        Weight of the rows in each bin.
    """

    feature: int
    codes: NDArray[Any]
    edges: Doubles
    n_categories: int
    weight: Doubles

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.weight)

    @property
    def n_ordered(self) -> int:
        """Bins of numbers."""
        return 0 if self.n_categories else self.n_bins - 1

    def sums(self, values: Doubles) -> Doubles:
        """Add up values of rows, (n_rows,), by bins."""
        return summed(self.codes, values, self.n_bins)


def summed(places: Any, values: Doubles, n: int) -> Doubles:
    """Add up values by their places, 0 to n - 1."""
    return np.bincount(places, values, n).astype(np.float64)


def axes_of(columns: TrainingColumns, weight: Doubles, max_bins: int) -> list[Axis]:
    """Bins of every feature; those with one value only have none."""
    rows = columns.as_rows()
    axes = []
    for feature, table in enumerate(columns.categories):
        x = rows[:, feature]
        axis = (
            _categories(feature, x, len(table), weight) if table is not None else _numbers(feature, x, weight, max_bins)
        )
        if (axis.weight > 0).sum() > 1:
            axes.append(axis)
    return axes


def _numbers(feature: int, x: Doubles, weight: Doubles, max_bins: int) -> Axis:
    present = ~np.isnan(x)
    values, place = np.unique(x[present], return_inverse=True)
    share = summed(place, weight[present], len(values))
    number = _even(share, max_bins)
    ends = np.flatnonzero(np.diff(number)) if len(values) else np.zeros(0, np.intp)
    low, high = values[ends], values[ends + 1]
    middle = low / 2 + high / 2
    n_ordered = len(ends) + 1
    codes = np.full(len(x), n_ordered, np.uint16)
    codes[present] = number[place]
    edges = np.where(middle > low, middle, high)
    return Axis(feature, codes, edges, 0, summed(codes, weight, n_ordered + 1))


def _even(share: Doubles, most: int) -> Int64s:
    """Give parts in order the numbers of groups of about the same share; a part is a group where they are few."""
    if len(share) <= most:
        return np.arange(len(share))
    middle = np.cumsum(share) - share / 2
    group = np.minimum((middle / share.sum() * most).astype(np.int64), most - 1)
    return np.concatenate([[0], np.cumsum(np.diff(group) > 0)])


def _categories(feature: int, x: Doubles, n_categories: int, weight: Doubles) -> Axis:
    codes = np.where(np.isnan(x), n_categories, np.nan_to_num(x)).astype(np.uint16)
    return Axis(feature, codes, np.zeros(0), n_categories, summed(codes, weight, n_categories + 1))


def coarse(axis: Axis, position: Int64s, most: int) -> Int64s:
    """Group bins in order: int64, (n_bins,), at most `most` groups, and one more of missing values with rows.

    Parameters
    ----------
    axis : Axis
    position : int64, (n_bins,)
        Place of each bin in the order.
    """
    n_own = axis.n_bins - (axis.n_categories == 0)
    order = np.argsort(position[:n_own], kind="stable")
    share = axis.weight[order]
    group = np.zeros(axis.n_bins, np.int64)
    group[order] = _even_of_used(share, most)
    if not axis.n_categories:
        group[-1] = group[-2] + (axis.weight[-1] > 0)
    return group


def _even_of_used(share: Doubles, most: int) -> Int64s:
    """As `_even`; parts without rows join the one before."""
    used = np.flatnonzero(share > 0)
    if not len(used):
        return np.zeros(len(share), np.int64)
    place = np.maximum(np.searchsorted(used, np.arange(len(share)), side="right") - 1, 0)
    group: Int64s = _even(share[used], most)[place]
    return group
